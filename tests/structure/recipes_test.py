"""Recipes name every file that they are about, and pages about the tree are true."""

import os
import pathlib
import re
import unittest

from tests.structure import rooms

# Of sources: how many files a recipe may take, where somebody promised it.
MOST = {"A layer": 7, "An optimizer": 9}

_RECIPE = re.compile(r"^### ([^\n]*)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_SEARCH = re.compile(r"^    git grep -lP '(.*)'$", re.MULTILINE)
_ROW = re.compile(r"^\| (`.*?) \| (.*) \|$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(
    r"\.?[a-zA-Z][\w-]*(?:(?:/[\w.-]+)+|\.(?:cc|h|json|md|proto|py|sh))")
_PROMISE = re.compile(r"^\| (\d) \| \*\*.* \| (.*) \|$", re.MULTILINE)
_ROOM = re.compile(r"^\| `(\w+)/` \| .* \| (.*) \|$", re.MULTILINE)
_CORE = re.compile(r"^\| `(\w+/\w+)/` \| (.*?) \|", re.MULTILINE)

_SOURCE = (".bzl", ".cc", ".cu", ".h", ".in", ".json", ".md", ".proto", ".py",
           ".sh", ".txt", "BUILD")
# What tells of a layer, a source or a strategy, or uses it.
_USES = re.compile(
    r".*\.md|docs/.*|.*_test\.\w+|tests/.*|.*/tests/.*|.*/testing/.*|"
    r".*_vectors\.\w+|bench/.*|deploy/.*|examples/.*|config/examples/.*|"
    r"config/job\.schema\.json|third_party/.*")


def source_root():
    """The tree itself: the test's files are links into it."""
    return pathlib.Path(os.path.realpath("WORKSPACE")).parent


def texts(root):
    """Path -> text of all that people write; what Bazel made is none of it."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(
            (".bazel", ".git", ".venv", "bazel-", "runs"))]
        for name in names:
            path = pathlib.Path(folder, name)
            if name.endswith(_SOURCE):
                found[str(path.relative_to(root))] = path.read_text(
                    encoding="utf-8", errors="replace")
    return found


def paths(text):
    """What a text has in code style and looks like a file of the tree."""
    return [code for code in _CODE.findall(text) if _PATH.fullmatch(code)]


def recipes(page):
    """Title -> (search, the files of its table, all that it names)."""
    found = {}
    for title, text in _RECIPE.findall(page):
        search = _SEARCH.search(text)
        if search:
            listed = [path for row, _ in _ROW.findall(text) for path in paths(row)]
            found[title] = (search[1], listed, paths(text))
    return found


def mistakes(title, recipe, tree):
    """Sentences: what a recipe names and should not, or the other way round."""
    search, listed, named = recipe
    naming = {path for path, text in tree.items() if re.search(search, text)}
    sources = {path for path in naming if not _USES.fullmatch(path)}
    yield from (f"{title}: there is no {path}" for path in named
                if path not in tree)
    yield from (f"{title}: {path} does not name it" for path in listed
                if path in tree and path not in naming)
    yield from (f"{title}: {path} is not in the table" for path in
                sorted(sources - set(listed)))
    yield from (f"{title}: {path} is there twice" for path in
                sorted({p for p in listed if listed.count(p) > 1}))
    count = len([path for path in listed if path in sources])
    if count > MOST.get(title, count):
        yield f"{title}: takes {count} files, which are to be {MOST[title]}"


class RecipesTest(unittest.TestCase):

    def setUp(self):
        self.tree = texts(source_root())

    def test_recipes_are_what_the_tree_says(self):
        found = recipes(self.tree["CONTRIBUTING.md"])
        self.assertEqual({"A layer", "An optimizer", "An input source",
                          "A strategy"}, set(found))
        for title, recipe in found.items():
            with self.subTest(title):
                self.assertEqual([], list(mistakes(title, recipe, self.tree)))

    def test_pages_about_the_tree_name_what_is_there(self):
        for page in ("CONTRIBUTING.md", "docs/architecture.md"):
            text = self.tree[page]
            missing = [path for path in paths(text) if "." in path
                       and not (source_root() / path).exists()
                       and not re.search(r"(^|/)%s$" % re.escape(path),
                                         "\n".join(self.tree), re.MULTILINE)]
            self.assertEqual([], missing, page)


class ArchitectureTest(unittest.TestCase):

    def setUp(self):
        self.root = source_root()
        self.text = (self.root / "docs/architecture.md").read_text(
            encoding="utf-8")

    def test_the_map_is_that_of_the_test(self):
        table = {room: "all" if below == "all" else re.findall(r"`(\w+)`", below)
                 for room, below in _ROOM.findall(self.text)}
        self.assertEqual(rooms.MAY_INCLUDE, table)

    def test_the_cores_are_those_of_the_test(self):
        table = {core: set(re.findall(r"`([\w/]+)`", below))
                 for core, below in _CORE.findall(self.text)
                 if core in rooms.CORES}
        self.assertEqual(
            {core: set(below) - {"proto", "base", "tensor", "config"}
             for core, below in rooms.CORES.items()}, table)

    def test_every_promise_has_tests_where_the_page_says(self):
        promises = _PROMISE.findall(self.text)
        self.assertEqual(list("123456789"), [number for number, _ in promises])
        for number, row in promises:
            for path in paths(row):
                with self.subTest(path):
                    self.assertIn(f"Promise{number}_", (
                        self.root / path).read_text(encoding="utf-8"))


class PlantedTest(unittest.TestCase):
    """A recipe of a small tree, with one mistake each."""

    TREE = {"proto/a.proto": "Pool pool = 1;", "worker/pool.cc": "class Pool",
            "worker/pool_test.cc": "Pool", "docs/a.md": "`pool`",
            "worker/other.cc": "carpool"}

    def mistakes(self, table, tree=None):
        page = ("## Recipes\n### A layer\nAs `pool`.\n\n"
                "    git grep -lP '\\b[Pp]ool'\n\n| file | what |\n|---|---|\n"
                f"{table}\n\n### Next\n")
        return list(mistakes("A layer", recipes(page)["A layer"],
                             self.TREE if tree is None else tree))

    def test_a_right_one_passes(self):
        self.assertEqual([], self.mistakes(
            "| `proto/a.proto`, `worker/pool.cc` | a |\n| `docs/a.md` | b |"))

    def test_a_file_that_is_missing_is_noticed(self):
        self.assertEqual(["A layer: worker/pool.cc is not in the table"],
                         self.mistakes("| `proto/a.proto` | a |"))

    def test_a_file_that_is_gone_is_noticed(self):
        self.assertEqual(["A layer: there is no worker/gone.cc"], self.mistakes(
            "| `proto/a.proto`, `worker/pool.cc`, `worker/gone.cc` | a |"))

    def test_a_file_that_has_nothing_to_do_with_it_is_noticed(self):
        self.assertEqual(["A layer: worker/other.cc does not name it"],
                         self.mistakes("| `proto/a.proto`, `worker/pool.cc`, "
                                       "`worker/other.cc` | a |"))

    def test_too_many_files_are_noticed(self):
        tree = {f"worker/{n}.cc": "pool" for n in range(8)}
        rows = ", ".join(f"`{path}`" for path in tree)
        self.assertEqual(["A layer: takes 8 files, which are to be 7"],
                         self.mistakes(f"| {rows} | a |", tree))


if __name__ == "__main__":
    unittest.main()
