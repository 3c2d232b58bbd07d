"""The package's type hints. Skipped by name where there is no mypy."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest


class TypesTest(unittest.TestCase):

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "needs mypy")
    def test_mypy_finds_nothing(self):
        with tempfile.TemporaryDirectory() as cache:
            run = subprocess.run(
                [sys.executable, "-m", "mypy", "--config-file=pyproject.toml",
                 f"--cache-dir={cache}", "paramd"],
                cwd=os.path.abspath("python"), capture_output=True, text=True,
                check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main()
