"""A server that does not see the directory of the checkpoints."""

import json
import os
import signal
import unittest

from tests.cluster import paramd

EPOCHS = 4
# Enough to be in the middle of.
LONG = 200


class BlindServerTest(unittest.TestCase):

    def run_job(self, *flags_of_ps_1):
        """Runs a job to its end; what the chief printed, and the tensors."""
        cluster = paramd.Cluster(servers=2, workers=1)
        with open(cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job["epochs"] = EPOCHS
        job["checkpoint"] = {"every_steps": 8}
        with open(cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        runs = {}
        for task in cluster.tasks:
            flags = flags_of_ps_1 if task == "ps-1" else ()
            runs[task] = cluster.start(task, *flags)
            self.addCleanup(runs[task].kill)
        for task, run in runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        root = os.path.join(cluster.run_directory, "checkpoints")
        newest = paramd.checkpoints(cluster.run_directory)[-1]
        self.assertNotIn("nonce", os.listdir(os.path.join(root, newest)))
        return (runs["worker-0"].output,
                paramd.tensors(os.path.join(root, newest)))

    def test_its_part_goes_through_the_chief_to_the_last_bit(self):
        # Its own directory is there, and is another one.
        elsewhere = os.path.join(os.environ["TEST_TMPDIR"], "elsewhere")
        os.makedirs(elsewhere)
        output, tensors = self.run_job(
            f"--set=checkpoint.directory={elsewhere}")
        told = [line for line in output.splitlines() if "does not see" in line]
        self.assertEqual(len(told), 1, output)
        self.assertIn("ps-1 does not see '", told[0])
        self.assertIn("its part goes through the chief", told[0])
        self.assertGreater(output.count("checkpoint committed"), 1)
        self.assertEqual(os.listdir(elsewhere), [])

        output, seen = self.run_job()
        self.assertNotIn("does not see", output)
        self.assertEqual(tensors, seen)


class BlindRestoreTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(servers=2, workers=1)
        with open(self.cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update({"epochs": LONG, "evaluate_every_epochs": 0,
                    "optimizer": {"adam": {}, "learning_rate": 0.001},
                    "checkpoint": {"every_steps": 50}})
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.elsewhere = os.path.join(self.cluster.directory, "elsewhere")
        os.makedirs(self.elsewhere)
        self.runs = {}

    def start(self, task):
        flags = ()
        if task == "ps-1":
            flags = (f"--set=checkpoint.directory={self.elsewhere}",)
        self.runs[task] = self.cluster.start(task, *flags)
        self.addCleanup(self.runs[task].kill)

    def finish(self):
        for task, run in self.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        self.assertIn("its slices come through the chief",
                      self.runs["ps-1"].output)
        self.assertEqual(os.listdir(self.elsewhere), [])

    def test_Promise5_killed_it_gets_its_slices_from_the_chief(self):
        for task in self.cluster.tasks:
            self.start(task)
        self.runs["worker-0"].wait_for("checkpoint committed")
        self.runs["ps-1"].signal(signal.SIGKILL)
        self.assertEqual(self.runs["ps-1"].wait(), -signal.SIGKILL)
        self.start("ps-1")
        self.finish()

    def test_Promise3_the_whole_cluster_goes_on_from_the_checkpoint(self):
        for task in self.cluster.tasks:
            self.start(task)
        self.runs["worker-0"].wait_for("checkpoint committed")
        for run in self.runs.values():
            run.kill()
        for task in self.cluster.tasks:
            self.start(task)
        self.finish()
        self.assertIn("going on from checkpoint", self.runs["worker-0"].output)


if __name__ == "__main__":
    unittest.main()
