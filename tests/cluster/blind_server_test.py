"""A server that does not see the directory of the checkpoints."""

import json
import os
import unittest

from tests.cluster import paramd

EPOCHS = 4


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


if __name__ == "__main__":
    unittest.main()
