"""The commands that a finished run suggests work when they are pasted."""

import os
import subprocess
import unittest

from tests.cluster import paramd


def setUpModule():
    paramd.need_data()


class TryNextTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.run_ = paramd.Run("local", "--job", paramd.SMALL_JOB)
        code = cls.run_.wait()
        assert code == 0, cls.run_.output
        after = cls.run_.output.split("Try next\n")[1]
        cls.commands = [line.strip() for line in after.splitlines()
                        if line.startswith("  ")]

    def paste(self, command):
        done = subprocess.run(command, shell=True, cwd=self.run_.directory,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, command + "\n" + done.stdout)
        return done.stdout

    def test_there_are_three(self):
        self.assertEqual(len(self.commands), 3, self.run_.output)

    def test_inspecting_shows_every_variable(self):
        self.assertIn("checkpoint inspect", self.commands[0])
        shown = self.paste(self.commands[0])
        for variable in paramd.tensors(self.checkpoint()):
            self.assertIn(variable.split("/slot")[0], shown)

    def checkpoint(self):
        root = self.run_.run_directory()
        return os.path.join(root, "checkpoints", paramd.checkpoints(root)[-1])

    def test_more_servers_and_workers(self):
        self.assertIn("--servers 3 --workers 4", self.commands[1])
        self.assertIn("test accuracy: 0.", self.paste(self.commands[1]))

    def test_another_learning_rate(self):
        self.assertIn("--set optimizer.learning_rate=0.01", self.commands[2])
        self.assertIn("test accuracy: 0.", self.paste(self.commands[2]))


if __name__ == "__main__":
    unittest.main()
