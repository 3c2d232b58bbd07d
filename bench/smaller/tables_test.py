"""Each script that prints a learning table runs, on a few examples."""

import os
import re
import subprocess
import sys
import unittest

_PARAMD = os.path.abspath("cli/paramd")
_DATA = "/usr/share/datasets/fashion-mnist"
_LICENCES = "/usr/share/common-licenses"


class TablesTest(unittest.TestCase):

    def rows(self, script, *flags, needs=_DATA):
        if not os.path.isdir(needs):
            self.skipTest(f"{needs} is not installed")
        done = subprocess.run(
            [sys.executable, f"bench/smaller/{script}", "--quick",
             f"--paramd={_PARAMD}", *flags],
            check=False, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[1], r"^(\|---)+\|$")
        columns = lines[0].count("|")
        for line in lines[2:]:
            self.assertEqual(line.count("|"), columns, line)
            self.assertTrue(re.search(r"\d+\.\d\d", line), line)
        return len(lines) - 2

    def test_distillation(self):
        self.assertEqual(self.rows("distillation_table.py", "--seeds=1",
                                   "--temperatures=1,2"), 4)

    def test_noisy_student(self):
        self.assertEqual(self.rows("noisy_student_table.py"), 5)

    def test_several_teachers(self):
        self.assertEqual(self.rows("tmkd_table.py"), 7)

    def test_transformer_student(self):
        self.assertEqual(self.rows("transformer_student_table.py",
                                   needs=_LICENCES), 3)


if __name__ == "__main__":
    unittest.main()
