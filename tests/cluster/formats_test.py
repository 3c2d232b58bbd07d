"""Real processes compute in less than float32."""

import json
import unittest

from tests.cluster import paramd

EPOCHS = 2000


class FormatsTest(unittest.TestCase):

    def start(self, *flags):
        self.cluster = paramd.Cluster(servers=1, workers=2)
        runs = {}
        for task in self.cluster.tasks:
            runs[task] = self.cluster.start(
                task, f"--epochs={EPOCHS}", "--evaluate_every_epochs=0", *flags)
            self.addCleanup(runs[task].kill)
        return runs

    def workers(self):
        """Their figures, by task."""
        status = paramd.Run("status", "--format=json",
                            self.cluster.address("worker-0"))
        self.assertEqual(status.wait(), 0, status.output)
        found = {}
        for process in json.loads(status.output)["processes"]:
            answer = process.get("status", {})
            if "worker" in answer:
                found[answer["task"].get("index", 0)] = answer["worker"]
        return found

    def test_workers_of_fp16_tell_their_loss_scales_and_lose_no_example(self):
        # Each first gradient overflows with it.
        runs = self.start("--compute_format=fp16", "--loss_scale=16777216")
        runs["worker-0"].wait_for("worker-0 joined", "worker-1 joined")
        while True:
            workers = self.workers()
            if len(workers) == 2 and all(
                    int(worker.get("overflows", 0)) > 0
                    for worker in workers.values()):
                break
        for worker in workers.values():
            self.assertLess(worker["loss_scale"], 16777216)
            self.assertGreaterEqual(worker["loss_scale"], 1)
            self.assertEqual(int(worker.get("quarantined", 0)), 0)
            self.assertEqual(int(worker.get("given_up", 0)), 0)
        for task, run in runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        with open(f"{self.cluster.run_directory}/result.json",
                  encoding="utf-8") as file:
            result = json.load(file)
        # 64 examples in batches of 8.
        self.assertEqual(int(result["global_step"]), 8 * EPOCHS)


if __name__ == "__main__":
    unittest.main()
