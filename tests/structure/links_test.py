"""Links in documents lead somewhere."""

import os
import pathlib
import re
import unittest

_LINK = re.compile(r"\]\(([^()\s]+)\)")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ELSEWHERE = re.compile(r"[a-z]+:")


def source_root():
    """The tree itself: the test's files are links into it."""
    return pathlib.Path(os.path.realpath("WORKSPACE")).parent


def files(root, *endings):
    """Paths of the tree's files with these endings; what Bazel made and what git
    keeps are none."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders
                      if not name.startswith((".bazel", ".git", "bazel-", "runs"))]
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
