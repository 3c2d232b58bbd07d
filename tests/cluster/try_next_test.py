"""The commands that a finished run suggests work when they are pasted."""

import json
import os
import subprocess
import tempfile
import unittest

from tests.cluster import paramd


class TryNextTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        paramd.need_data()
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


class OneProcessTest(unittest.TestCase):
    """A strategy that has no cluster."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump({**paramd.tiny_job(self.directory),
                       "strategy": "mirrored", "replicas": 2}, file)

    def test_what_it_suggests_runs_in_one_process_too(self):
        run = paramd.Run("run", "--job", self.job)
        self.assertEqual(run.wait(), 0, run.output)
        commands = run.output.split("Try next\n")[1].split("\n")[1:3]
        for command, end in zip(commands, ("--replicas 4", "rate=0.01")):
            self.assertIn(f"run --job {self.job}", command)
            self.assertTrue(command.endswith(end), command)
            done = subprocess.run(command, shell=True, cwd=run.directory,
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_local_refuses_it_before_anything_is_started(self):
        for strategy in ("mirrored", "one_device", "central_storage"):
            run = paramd.Run("local", "--job", self.job, "--replicas=1",
                             f"--strategy={strategy}",
                             directory=self.directory)
            self.assertEqual(run.wait(), 2, run.output)
            self.assertEqual(
                run.output,
                f'paramd: strategy: "{strategy}" runs in one process, and '
                "paramd local starts several; use paramd run, or choose "
                '"parameter_server" or "multi_worker_mirrored"\n')
        self.assertFalse(os.path.exists(os.path.join(self.directory, "runs")))


if __name__ == "__main__":
    unittest.main()
