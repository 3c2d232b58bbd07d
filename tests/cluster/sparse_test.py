"""An embedding whose rows travel by themselves, in real processes."""

import copy
import json
import os
import tempfile
import unittest

from tests.cluster import paramd

ROWS = 100000  # Of 8 values: four blocks; of 12 values: five.
FEATURES = [{"name": "ids", "type": "int32", "dims": [6], "classes": ROWS},
            {"name": "label", "type": "int32", "classes": 4}]


def job(optimizer, sparse=True, examples=640, width=8, **settings):
    source = {"synthetic": {"examples": examples, "features": FEATURES}}
    return {
        "name": "sparse",
        "batch_per_replica": 16,
        "input": {"train": source,
                  "test": {"synthetic": {"examples": 32,
                                         "features": FEATURES}}},
        "model": {"layers": [{"embedding": {"width": width,
                                            "sparse": sparse}},
                             "flatten", {"dense": 4}],
                  "loss": "softmax_cross_entropy"},
        "optimizer": {optimizer: {}, "learning_rate": 0.1},
        **settings,
    }


class SparseTest(unittest.TestCase):

    def train(self, settings, *command):
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        run = paramd.Run(*command, "--job", path)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        return run

    def assert_same(self, found, expected, where):
        self.assertEqual(sorted(found), sorted(expected), where)
        for name, values in expected.items():
            # Not assertEqual, which would print megabytes.
            self.assertTrue(found[name] == values, f"{name} {where}")

    def test_with_sgd_rows_give_what_whole_variables_give(self):
        for width in (8, 12):
            dense = self.train(job("sgd", sparse=False, width=width),
                               "run").tensors()
            sparse = self.train(job("sgd", width=width), "run").tensors()
            self.assertIn("embedding_1/table", dense)
            self.assert_same(sparse, dense, f"sparse, of width {width}")

    def test_tables_side_by_side_are_trained_and_evaluated(self):
        found = []
        for sparse in (False, True):
            settings = job("sgd", sparse=sparse)
            settings["model"]["layers"] = [
                {"parallel": {"branches": [
                    [{"embedding": {"width": width, "sparse": sparse}},
                     "flatten"] for width in (1, 10)]}},
                {"dense": 4}]
            run = self.train(settings, "local", "--workers=1", "--servers=2")
            found.append((run.tensors(), run.result()["evaluation"]))
        (dense, of_dense), (sparse, of_sparse) = found
        self.assert_same(sparse, dense, "sparse")
        # Of the rows that the test set reads, or of the whole tables.
        self.assertEqual(of_sparse, of_dense)
        self.assertGreater(of_sparse["loss"], 0)

    def test_no_transport_and_no_number_of_servers_changes_a_bit(self):
        settings = job("adam", width=12)
        alone = self.train(settings, "run").tensors()
        self.assertEqual(len(alone), 3 * 3 + 1)  # Steps of rows, too.
        for servers in (1, 3):
            over_grpc = self.train(settings, "local", "--workers=1",
                                   f"--servers={servers}").tensors()
            self.assert_same(over_grpc, alone, f"{servers} servers")

    def test_promise6_sync_workers_give_what_one_that_accumulates_gives(self):
        settings = job("adagrad", staleness="sync")
        three = self.train(settings, "local", "--workers=3",
                           "--servers=2").tensors()
        alone = copy.deepcopy(settings)
        alone["accumulate"] = 3
        one = self.train(alone, "local", "--workers=1",
                         "--servers=1").tensors()
        self.assert_same(three, one, "of three workers")

    def test_promise5_a_killed_worker_loses_and_doubles_nothing(self):
        settings = job("adagrad", examples=40000, lease_ms=1000,
                       heartbeat_ms=100,
                       checkpoint={"every_steps": 300})
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        run = paramd.Run("local", "--job", path)
        self.addCleanup(run.kill)
        run.wait_for("checkpoint committed at step")
        run.kill_task("worker-1")
        self.assertEqual(run.wait(), 0, run.output)
        result = run.result()
        self.assertEqual(
            (result["pushes_lost"], result["pushes_doubled"]), (0, 0))


if __name__ == "__main__":
    unittest.main()
