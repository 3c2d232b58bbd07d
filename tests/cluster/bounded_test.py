"""Bounded staleness between real processes: who is too far ahead waits."""

import json
import os
import signal
import unittest

from tests.cluster import paramd

EPOCHS = 600


class BoundedTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(servers=1, workers=2)
        self.runs = {}
        for task in self.cluster.tasks:
            self.runs[task] = self.cluster.start(
                task, f"--epochs={EPOCHS}", "--staleness=4",
                "--park_timeout_ms=200", "--lease_ms=600000",
                "--evaluate_every_epochs=0", "--set=portion_batches=1")
            self.addCleanup(self.runs[task].kill)

    def test_whom_the_others_wait_for_is_named_and_then_they_go_on(self):
        stopped = self.runs["worker-1"]
        stopped.wait_for("joined as generation")
        stopped.signal(signal.SIGSTOP)
        waiting = r"waiting for worker-1 generation ([0-9.]+): worker-0 "
        self.runs["worker-0"].wait_for("waiting for worker-1 generation ")
        self.assertRegex(self.runs["worker-0"].output, waiting)
        self.assertIn("more than 4 ahead of worker-1 generation ",
                      self.runs["worker-0"].output)
        stopped.signal(signal.SIGCONT)
        for task, run in self.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        path = os.path.join(self.cluster.run_directory, "result.json")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(int(json.load(file)["global_step"]), 8 * EPOCHS)


if __name__ == "__main__":
    unittest.main()
