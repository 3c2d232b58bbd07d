"""paramd checkpoint now, as typed, while a job runs."""

import os
import re
import shutil
import unittest

from tests.cluster.paramd import Cluster, Run


def paramd(*arguments):
    run = Run(*arguments)
    return run.wait(), run.output


class CheckpointNowTest(unittest.TestCase):

    def start(self, *settings, workers=1):
        self.cluster = Cluster(servers=1, workers=workers)
        self.runs = {}
        for task in self.cluster.tasks:
            self.runs[task] = self.cluster.start(
                task, "--epochs=1000000", "--set=checkpoint.every_seconds=0",
                *settings)
            self.addCleanup(self.runs[task].kill)
        self.runs["worker-0"].wait_for("first push of generation")

    def now(self, *flags):
        return paramd("checkpoint", "now", "--run_dir",
                      self.cluster.run_directory, *flags)

    def committed(self, output):
        """The step and the path that it says."""
        said = re.match(r"step (\d+): (.+)$", output)
        self.assertTrue(said, output)
        return int(said[1]), said[2]

    def test_each_is_there_when_the_command_ends_in_every_mode(self):
        self.start(workers=2)
        before = 0
        for mode in (None, "4", "sync", "async"):
            if mode is not None:
                code, output = paramd("set", f"staleness={mode}", "--run_dir",
                                      self.cluster.run_directory)
                self.assertEqual(code, 0, output)
            code, output = self.now()
            self.assertEqual(code, 0, output)
            step, path = self.committed(output)
            self.assertGreater(step, before)
            before = step
            code, output = paramd("checkpoint", "verify", path)
            self.assertEqual(code, 0, output)

    def test_several_operators_at_once_are_all_answered(self):
        self.start()
        runs = [Run("checkpoint", "now", "--run_dir",
                    self.cluster.run_directory) for _ in range(8)]
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)
            _, path = self.committed(run.output)
            self.assertIn("checkpoint", path)

    def test_a_chief_that_is_gone_is_138(self):
        self.start()
        self.runs["worker-0"].kill()
        code, output = self.now()
        self.assertEqual(code, 138, output)
        self.assertIn("can't be reached: refused", output)

    def test_storage_that_fails_is_said(self):
        self.start()
        self.assertEqual(self.now()[0], 0)
        checkpoints = os.path.join(self.cluster.run_directory, "checkpoints")
        shutil.rmtree(checkpoints)
        with open(checkpoints, "w", encoding="utf-8"):
            pass  # No directory can be made where a file is.
        code, output = self.now()
        self.assertEqual(code, 138, output)
        self.assertIn("was given up", output)


if __name__ == "__main__":
    unittest.main()
