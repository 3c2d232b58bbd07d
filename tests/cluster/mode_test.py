"""The mode of a job between real processes is changed while it trains."""

import json
import os
import re
import unittest

from tests.cluster import paramd

EPOCHS = 4000
BATCHES = 8 * EPOCHS
# A worker has up to three portions, of one batch each here; steps take what is
# left of each by itself, and at the end of the epoch that is begun.
MOST_SHORT_STEPS = 2 * 3 + 1
CHANGED = re.compile(r"an operator changed staleness from (\w+) to (\w+), after "
                     r"step (\d+),")


class ModeTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(servers=2, workers=2)
        self.runs = {}
        for task in self.cluster.tasks:
            self.runs[task] = self.cluster.start(
                task, f"--epochs={EPOCHS}", "--lease_ms=600000",
                "--evaluate_every_epochs=0", "--set=portion_batches=1")
            self.addCleanup(self.runs[task].kill)

    def set(self, value):
        command = paramd.Run("set", f"staleness={value}", "--run_dir",
                             self.cluster.run_directory)
        self.assertEqual(command.wait(), 0, command.output)

    def global_step(self):
        status = paramd.Run("status", "--format=json",
                            self.cluster.address("worker-0"))
        self.assertEqual(status.wait(), 0, status.output)
        return int(json.loads(status.output)["job"].get("global_step", 0))

    def wait_for_a_step(self):
        before = self.global_step()
        while self.global_step() == before:
            pass

    def test_every_example_is_used_once_through_async_sync_4_and_async(self):
        chief = self.runs["worker-0"]
        chief.wait_for("worker-0 joined", "worker-1 joined")
        for value in ("sync", "4", "async"):
            self.set(value)
            if value == "sync":
                chief.wait_for("are of 2 workers")
                self.wait_for_a_step()
        for task, run in self.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        changes = CHANGED.findall(chief.output)
        self.assertEqual([(before, after) for before, after, _ in changes],
                         [("async", "sync"), ("sync", "4"), ("4", "async")])
        begin, end = (int(step) for _, _, step in changes[:2])
        self.assertGreater(end, begin)
        path = os.path.join(self.cluster.run_directory, "result.json")
        with open(path, encoding="utf-8") as file:
            steps = int(json.load(file)["global_step"])
        # A step of sync mode is of two batches.
        short = steps + (end - begin) - BATCHES
        self.assertGreaterEqual(short, 0)
        self.assertLessEqual(short, MOST_SHORT_STEPS)


if __name__ == "__main__":
    unittest.main()
