"""The walk of a gradient is what docs/architecture.md says, and short."""

import os
import pathlib
import re
import unittest

# Files that a gradient passes from a layer to gRPC.
MOST = 20

_SECTION = re.compile(r"^## The walk of a gradient\n(.*?)^## ",
                      re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (\d+) \| (.*?) \| `(.*?)` \| .* \|$", re.MULTILINE)
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
    rows = _ROW.findall(section[1]) if section else []
    if not rows:
        yield "there is no walk"
    if len(rows) > MOST:
        yield f"{len(rows)} files are passed, which are to be {MOST}"
    for number, (said, files, function) in enumerate(rows, start=1):
        if said != str(number):
            yield f"row {number} has the number {said}"
        for file in _CODE.findall(files):
            text = read(file)
            if text is None:
                yield f"there is no {file}"
            elif not re.search(rf"\b{function}\(", text):
                yield f"{file} has no {function}"


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

    FILES = {"a.cc": "void A::Go() {", "b.cc": "void B::Go() {"}

    def mistakes(self, *rows):
        page = "\n".join(["## The walk of a gradient", *rows, "## Words"])
        return list(mistakes(page, self.FILES.get))

    def test_a_right_one_passes(self):
        self.assertEqual([], self.mistakes("| 1 | `a.cc` | `A::Go` | x |",
                                           "| 2 | `a.cc`, or `b.cc` | `Go` | y |"))

    def test_what_is_not_there_is_noticed(self):
        self.assertEqual(
            ["there is no c.cc", "b.cc has no A::Go"],
            self.mistakes("| 1 | `c.cc` | `Go` | x |",
                          "| 2 | `b.cc` | `A::Go` | y |"))

    def test_a_longer_walk_is_noticed(self):
        rows = [f"| {n} | `a.cc` | `Go` | x |" for n in range(1, 22)]
        self.assertEqual(["21 files are passed, which are to be 20"],
                         self.mistakes(*rows))
        self.assertEqual(["row 1 has the number 2"], self.mistakes(rows[1]))

    def test_a_page_without_one_is_noticed(self):
        self.assertEqual(["there is no walk"], self.mistakes())


if __name__ == "__main__":
    unittest.main()
