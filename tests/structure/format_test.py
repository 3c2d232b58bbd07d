"""Sources are as clang-format writes them."""

import os
import pathlib
import shutil
import subprocess
import unittest

from tests.structure import rooms

_FORMAT = shutil.which("clang-format-14", path="/usr/bin:/usr/local/bin")


def source_root():
    """The tree itself: the test's files are links into it."""
    return pathlib.Path(os.path.realpath("WORKSPACE")).parent


@unittest.skipUnless(_FORMAT, "needs clang-format-14")
class FormatTest(unittest.TestCase):

    def misformatted(self, paths):
        """Lines "path:line:column: ..." of what is not as it should be."""
        run = subprocess.run([_FORMAT, "--dry-run", *paths], cwd=source_root(),
                             capture_output=True, text=True, check=True)
        return [line for line in run.stderr.splitlines() if "[-W" in line]

    def test_every_source_is_formatted(self):
        paths = sorted(path for folder in rooms.MAY_INCLUDE.keys() - {"third_party"}
                       for path in (source_root() / folder).rglob("*")
                       if path.suffix in (".cc", ".h", ".cu", ".cuh"))
        self.assertGreater(len(paths), 500)
        self.assertEqual([], self.misformatted(paths),
                         "run clang-format-14 -i on these")

    def test_a_line_that_is_too_long_is_found(self):
        path = pathlib.Path(os.environ["TEST_TMPDIR"], "a.cc")
        path.write_text("int  a;\n", encoding="utf-8")
        self.assertEqual(1, len(self.misformatted([path])))


if __name__ == "__main__":
    unittest.main()
