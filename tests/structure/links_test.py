"""Links in documents, and citations of decisions, lead somewhere."""

import os
import pathlib
import re
import unittest

_LINK = re.compile(r"\]\(([^()\s]+)\)")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ELSEWHERE = re.compile(r"[a-z]+:")
# "decision 7", also across the lines of a comment, and the page's own path.
_DECISION = re.compile(r"\bdecision[\s/#]+\[?(\d+)|decisions/0*(\d+)-",
                       re.IGNORECASE)
_ROW = re.compile(r"^\| \[(\d+)\]\((\S+)\) \|", re.MULTILINE)


def source_root():
    """The tree itself: the test's files are links into it."""
    return pathlib.Path(os.path.realpath("WORKSPACE")).parent


def files(root, *endings):
    """Paths of the tree's files with these endings; what Bazel made and what git
    keeps are none."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders
                      if not name.startswith(
                          (".bazel", ".git", ".venv", "bazel-", "runs"))]
        yield from (pathlib.Path(folder, name) for name in names
                    if name.endswith(endings))


def anchors(text):
    """What a page's headings are called in links."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", _CODE.sub("", text), re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(words.replace(" ", "-"))
    return found


def broken_links(page):
    """Links of a page that lead nowhere."""
    text = page.read_text(encoding="utf-8")
    for link in _LINK.findall(_CODE.sub("", text)):
        if _ELSEWHERE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            yield link
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield link


def decisions(root):
    """The pages of decisions, by number."""
    return {int(page.name.split("-")[0]): page.name
            for page in pathlib.Path(root, "docs/decisions").glob("0*.md")}


def cited(text):
    """Numbers of the decisions that a text names."""
    return {int(number or path) for number, path in _DECISION.findall(text)}


class DecisionsTest(unittest.TestCase):

    def test_the_index_has_every_page(self):
        index = source_root() / "docs/decisions/README.md"
        rows = _ROW.findall(index.read_text(encoding="utf-8"))
        self.assertEqual(decisions(source_root()),
                         {int(number): page for number, page in rows})
        self.assertEqual(len(rows), len(dict(rows)), "a page is there twice")

    def test_a_page_has_the_number_of_its_name(self):
        for number, name in decisions(source_root()).items():
            page = source_root() / "docs/decisions" / name
            with page.open(encoding="utf-8") as file:
                self.assertTrue(file.readline().startswith(f"# {number}. "), name)

    def test_every_decision_that_is_cited_is_there(self):
        known = decisions(source_root())
        self.assertEqual([], [
            f"{file}: decision {number}" for file in files(
                source_root(), ".bzl", ".cc", ".cu", ".h", ".md", ".proto", ".py",
                ".sh", "BUILD")
            if file.name != "links_test.py"
            for number in cited(file.read_text(encoding="utf-8"))
            if number not in known])

    def test_citations_are_found(self):
        self.assertEqual({7, 12, 23, 40}, cited(
            "decision 7, [Decision\n23](x.md), as decision\n// 12 says; "
            "docs/decisions/0040-a.md; decisions 99; 3 decisions"))


class LinksTest(unittest.TestCase):

    def test_every_link_leads_somewhere(self):
        pages = list(files(source_root(), ".md"))
        self.assertGreater(len(pages), 50)
        self.assertEqual([], [f"{page}: {link}" for page in pages
                              for link in broken_links(page)])

    def test_a_link_that_leads_nowhere_is_named(self):
        page = pathlib.Path(os.environ["TEST_TMPDIR"], "page.md")
        page.write_text("# A name, here\n[a](page.md) [b](#a-name-here) "
                        "[c](gone.md) [d](page.md#gone) [e](https://x.org)\n",
                        encoding="utf-8")
        self.assertEqual(["gone.md", "page.md#gone"], list(broken_links(page)))


if __name__ == "__main__":
    unittest.main()
