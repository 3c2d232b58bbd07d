"""Every planted bug of the simulator still applies to the tree as it is."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

PLANTED = "tests/sim/planted"


def source_root():
    """The tree itself: the test's files are links into it."""
    return os.path.dirname(os.path.realpath("WORKSPACE"))


def why_not(patch, root):
    """What is wrong with applying a patch below `root`; empty: nothing.

    Lines may have moved; a line of its context that is another now is wrong.
    """
    with open(patch, "rb") as file:
        tried = subprocess.run(
            ["patch", "--dry-run", "--batch", "--forward", "--fuzz=0", "-p1"],
            cwd=root, stdin=file, capture_output=True, text=True, check=False)
    return tried.stdout + tried.stderr if tried.returncode else ""


@unittest.skipUnless(shutil.which("patch"), "there is no program patch")
class PlantedTest(unittest.TestCase):

    def setUp(self):
        self.root = source_root()
        folder = os.path.join(self.root, PLANTED)
        self.patches = sorted(
            os.path.join(folder, name) for name in os.listdir(folder))

    def test_every_patch_applies(self):
        self.assertGreater(len(self.patches), 30)
        for patch in self.patches:
            with self.subTest(os.path.basename(patch)):
                self.assertEqual("", why_not(patch, self.root))

    def test_every_patch_has_a_number_of_its_own_and_is_in_the_table(self):
        numbers = [os.path.basename(p).split("-")[0] for p in self.patches]
        self.assertEqual(len(numbers), len(set(numbers)), numbers)
        with open(os.path.join(self.root, "tests/sim/README.md"),
                  encoding="utf-8") as file:
            table = re.findall(r"^\| (\d+) \|", file.read(), re.MULTILINE)
        self.assertEqual(sorted(table), sorted(numbers))

    def test_one_that_does_not_apply_is_noticed(self):
        with tempfile.TemporaryDirectory() as root:
            for name, text in (("a", "one\ntwo\n"), ("good", ""), ("bad", "")):
                with open(os.path.join(root, name), "w",
                          encoding="utf-8") as file:
                    file.write(text)
            for name, line in (("good", "two"), ("bad", "three")):
                with open(os.path.join(root, name), "w",
                          encoding="utf-8") as file:
                    file.write("A sentence.\n\n--- a/a\n+++ b/a\n"
                               f"@@ -1,2 +1,1 @@\n one\n-{line}\n")
            self.assertEqual("", why_not(os.path.join(root, "good"), root))
            self.assertIn("FAILED", why_not(os.path.join(root, "bad"), root))


if __name__ == "__main__":
    unittest.main()
