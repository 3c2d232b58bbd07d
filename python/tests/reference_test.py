"""docs/python-reference.md is what the docstrings say."""

import pathlib
import re
import subprocess
import sys
import unittest

PAGE = pathlib.Path("docs/python-reference.md")


class ReferenceTest(unittest.TestCase):

    def test_the_page_is_current(self):
        made = subprocess.run([sys.executable, "python/print_reference.py"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(
            PAGE.read_text(encoding="utf-8").splitlines(), made.stdout.splitlines(),
            "run: python3 python/print_reference.py >docs/python-reference.md")

    def test_whatever_the_package_exports_is_on_it(self):
        page = PAGE.read_text(encoding="utf-8")
        source = pathlib.Path("python/paramd/__init__.py").read_text(encoding="utf-8")
        exported = re.search(r"__all__ = \[(.*?)\]", source, re.DOTALL)[1]
        for name in re.findall(r'"(\w+)"', exported):
            if name != "__version__":
                self.assertIn(f"## `paramd.{name}`", page)


if __name__ == "__main__":
    unittest.main()
