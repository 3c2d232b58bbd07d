"""The tutorial is true: what it tells to type works and prints what it shows.

A block that is marked `sh` is typed, all in one folder and in their order; every
line of a `text` block right after it must be printed, where `…` stands for
anything.
"""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

from tests.cluster import paramd

TUTORIAL = os.path.abspath("docs/tutorial.md")
_BLOCK = re.compile(
    r"^```sh\n(?P<typed>.*?)^```\n(?:^```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL)


def setUpModule():
    paramd.need_data()


def matches(shown, printed):
    """Whether the line `printed` is what the line `shown` stands for."""
    parts = [re.escape(part.strip()) for part in shown.split("…")]
    return re.fullmatch(r".*".join(parts), printed.strip()) is not None


class TutorialTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        for name, target in (("paramd", paramd.BINARY),
                             ("config", os.path.abspath("config")),
                             (".venv", sys.prefix)):
            os.symlink(target, os.path.join(self.directory, name))
        with open(TUTORIAL, encoding="utf-8") as file:
            blocks = list(_BLOCK.finditer(file.read()))
        self.python = [b for b in blocks if ".venv/" in b["typed"]]
        self.commands = [b for b in blocks if b not in self.python]

    def check(self, block):
        """Types a block and compares what it prints."""
        typed, shown = block["typed"], block["shown"] or ""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("PARAMD_")}
        done = subprocess.run(
            "set -e\n" + typed, shell=True, cwd=self.directory, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        mistake = "did you mean" in shown
        self.assertEqual(done.returncode, 2 if mistake else 0,
                         typed + done.stdout)
        printed = done.stdout.splitlines()
        for line in shown.splitlines():
            self.assertTrue(
                any(matches(line, other) for other in printed),
                f"{typed}does not print\n{line}\nbut\n{done.stdout}")

    def test_what_it_says_of_commands_is_so(self):
        self.assertGreaterEqual(len(self.commands), 6)
        for block in self.commands:
            self.check(block)

    @unittest.skipUnless(importlib.util.find_spec("safetensors"),
                         "needs the package safetensors of PyPI")
    def test_python_reads_the_checkpoint_of_the_first_command(self):
        (python,) = self.python
        self.check(self.commands[0])
        self.check(python)


if __name__ == "__main__":
    unittest.main()
