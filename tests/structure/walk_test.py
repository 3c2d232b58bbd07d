"""The walk of a gradient is what docs/architecture.md says, and short."""

import os
import pathlib
import re
import unittest

# Files that a gradient passes from a layer to gRPC.
MOST = 20

_SECTION = re.compile(r"^## The walk of a gradient\n(.*?)^## ",
                      re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^\|.*$", re.MULTILINE)
_ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*?) \| .* \|$")
_CODE = re.compile(r"`([^`]+)`")


def source_root():
    """The tree itself: the test's files are links into it."""
    return pathlib.Path(os.path.realpath("WORKSPACE")).parent


def mistakes(page, read):
    """Sentences: what the page says of the walk and is not so.

    Args:
        page: the text of docs/architecture.md.
        read: the text of a file; None: there is none.
    """
    section = _SECTION.search(page)
    rows = _LINE.findall(section[1])[2:] if section else []  # Below the head.
    if not rows:
        yield "there is no walk"
    if len(rows) > MOST:
        yield f"{len(rows)} files are passed, which are to be {MOST}"
    for number, line in enumerate(rows, start=1):
        row = _ROW.match(line)
        if row is None or row[1] != str(number):
            yield f"row {number} is not that: {line}"
            continue
        files, functions = _CODE.findall(row[2]), _CODE.findall(row[3])
        if not files or len(files) != len(functions):
            yield f"row {number} has not one function for each file"
        for file, function in zip(files, functions):
            text = read(file)
            if text is None:
                yield f"there is no {file}"
            elif not _defines(text, function):
                yield f"{file} has no {function}"


def _defines(text, function):
    """Whether it is written there, not only called: a body is indented."""
    return re.search(rf"^\w.*\b{function}\(", text, re.MULTILINE) is not None


class WalkTest(unittest.TestCase):

    def test_the_walk_is_what_the_page_says(self):
        root = source_root()

        def read(file):
            path = root / file
            return path.read_text(encoding="utf-8") if path.exists() else None

        page = (root / "docs/architecture.md").read_text(encoding="utf-8")
        self.assertEqual([], list(mistakes(page, read)))


class PlantedWalkTest(unittest.TestCase):
    """A page with one mistake each."""

    FILES = {"a.cc": "void A::Go() {\n  b->Stop();\n}", "b.cc": "void B::Go() {}"}

    def mistakes(self, *rows):
        page = "\n".join(["## The walk of a gradient", "| | file | function | |",
                          "|---|---|---|---|", *rows, "## Words"])
        return list(mistakes(page, self.FILES.get))

    def test_a_right_one_passes(self):
        self.assertEqual(
            [], self.mistakes("| 1 | `a.cc` | `A::Go` | x |",
                              "| 2 | `a.cc`, or `b.cc` | `A::Go`, or `B::Go` | y |"))

    def test_what_is_not_there_is_noticed(self):
        self.assertEqual(
            ["there is no c.cc", "b.cc has no A::Go", "a.cc has no Stop",
             "row 4 has not one function for each file"],
            self.mistakes("| 1 | `c.cc` | `Go` | x |",
                          "| 2 | `b.cc` | `A::Go` | y |",
                          "| 3 | `a.cc` | `Stop` | only called |",
                          "| 4 | `a.cc`, or `b.cc` | `Go` | z |"))

    def test_a_longer_walk_is_noticed(self):
        rows = [f"| {n} | `a.cc` | `Go` | x |" for n in range(1, 22)]
        self.assertEqual(["21 files are passed, which are to be 20"],
                         self.mistakes(*rows))

    def test_a_row_of_another_shape_is_noticed(self):
        for row in ("| 2 | `a.cc` | `Go` | x |", "| | `a.cc` | `Go` | x |",
                    "| 1 | `a.cc` | `Go` |"):
            self.assertEqual([f"row 1 is not that: {row}"], self.mistakes(row))

    def test_a_page_without_one_is_noticed(self):
        self.assertEqual(["there is no walk"], self.mistakes())


if __name__ == "__main__":
    unittest.main()
