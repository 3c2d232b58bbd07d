"""Training on files while workers are killed: every block takes each batch of
the input once, whatever the format, and also where examples are left out."""

import os
import tempfile
import unittest

from tests.cluster import chaos
from tests.cluster import input_files as files
from tests.cluster import paramd

EXAMPLES = 64
BATCHES_PER_EPOCH = 8
EPOCHS = 40
PORTION_BATCHES = 3
PORTIONS = 3  # That a worker has at most.


class InputChaosTest(unittest.TestCase):

    def setUp(self):
        self.data = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def job(self, source, *stages, **more):
        return {**files.job(self.data, source, ["shuffle", *stages], **more),
                "epochs": EPOCHS, "evaluate_every_epochs": 0,
                "portion_batches": PORTION_BATCHES, "lease_ms": 1000,
                "heartbeat_ms": 200, "checkpoint": {"every_steps": 100}}

    def cluster(self, job, workers):
        cluster = chaos.ChaosCluster(job, workers, seed=1)
        self.addCleanup(cluster.close)
        return cluster

    def check_counts(self, job):
        """Kills workers; see chaos_test for what is known of the counts."""
        cluster = self.cluster(job, 3)
        kill = chaos.Kind("kill", lambda c, task, _: c.kill(task),
                          ["worker-1", "worker-2"])
        cluster.run([kill], faults=2)
        self.assertTrue(cluster.struck, cluster.last_words())
        batches = BATCHES_PER_EPOCH * EPOCHS
        most = batches + cluster.fences() * PORTIONS * PORTION_BATCHES
        said = f"{cluster.fences()} ends\n{cluster.last_words()}"
        for file in cluster.manifest()["files"]:
            for saved in file["slices"]:
                for run in saved["applied"]:
                    count = int(run.get("applied", 0))
                    self.assertGreaterEqual(count, batches, said)
                    self.assertLessEqual(count, most, said)
        self.assertEqual(int(cluster.result()["pushes_lost"]), 0, said)
        self.assertEqual(int(cluster.result()["pushes_doubled"]), 0, said)

    def write_csv(self):
        """Of so many rows a filter keeps EXAMPLES: kinds 0 to 6 of 10."""
        files.write(self.data, "train.csv", files.csv(files.csv_rows(91)))

    def test_rows_of_which_a_filter_leaves_some_out(self):
        self.write_csv()
        self.check_counts(self.job(files.CSV, {"filter": {"max": 6}}))

    def test_whole_batches_of_what_is_drawn_from_two_files(self):
        rows = files.csv_rows(67)
        files.write(self.data, "a.csv", files.csv(rows[:40]))
        files.write(self.data, "b.csv", files.csv(rows[40:]))
        self.check_counts(self.job(
            {"sample_from": {"sources": [
                {"csv": {**files.CSV["csv"], "files": "a.csv"},
                 "stages": ["shuffle"]},
                {"csv": {**files.CSV["csv"], "files": "b.csv"}}],
                "weights": [1, 3]}},
            {"batch": {"drop_remainder": True}}))

    def test_records_of_which_broken_ones_are_skipped(self):
        records = files.examples(EXAMPLES)
        records[40] = records[40].replace(b"label", b"libel")
        for part in range(4):
            files.write(self.data, f"{part}.tfrecord",
                        b"".join(records[16 * part:16 * (part + 1)]))
        self.check_counts(self.job(
            files.TFRECORD, {"interleave": {"cycle_length": 2}},
            on_error="skip"))

    def test_images_of_which_a_filter_leaves_some_out(self):
        for i in range(160):  # Of which EXAMPLES are kept.
            files.write(self.data, f"kind-{i % 10}/{i}.png",
                        files.png(4, 4, i))
        self.check_counts(self.job(files.IMAGES, files.AS_FLOATS,
                                   {"filter": {"values": [0, 2, 3, 8]}}))

    def test_a_step_of_what_a_filter_leaves_is_the_same_with_two_workers(self):
        self.write_csv()
        job = {**self.job(files.CSV, {"filter": {"max": 6}}),
               "staleness": "sync", "lease_ms": 60000,
               "optimizer": {"adam": {}, "learning_rate": 0.001}}
        calm = self.cluster(job, 2)
        alone = paramd.Run("run", "--job", calm.job, "--set=accumulate=2",
                           directory=calm.directory)
        self.addCleanup(alone.kill)
        self.assertEqual(alone.wait(), 0, alone.output)
        calm.run_directory = alone.run_directory()
        cluster = self.cluster(job, 2)
        kill = chaos.Kind("kill", lambda c, task, _: c.kill(task), ["ps-0"])
        cluster.run([kill], faults=1)
        self.assertEqual(paramd.tensors(cluster.newest_checkpoint()),
                         paramd.tensors(calm.newest_checkpoint()),
                         cluster.last_words())


if __name__ == "__main__":
    unittest.main()
