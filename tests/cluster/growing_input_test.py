"""A training set whose files appear while the job runs."""

import json
import os
import signal
import struct
import unittest

from tests.cluster import paramd

TABLE = "embedding_1/table"
BATCH = 4


def batches(rows):
    return -(-rows // BATCH)


class GrowingInputTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(servers=1, workers=2)
        self.clicks = os.path.join(self.cluster.directory, "clicks")
        os.mkdir(self.clicks)
        self.write("test.csv", ["a", "b"])
        self.write_job(self.job())

    def job(self, **table):
        csv = {"label": "click", "columns": ["ad"], "hash_keys": True,
               "classes": 2}
        table = {"width": 2, "sparse": True, "capacity": 16384, **table}
        return {
            "name": "clicks",
            "batch_per_replica": BATCH,
            "portion_batches": 2,
            "lease_ms": 5000,
            "heartbeat_ms": 200,
            "input": {
                "follow": {"poll_ms": 50, "end_file": "_SUCCESS"},
                "train": {"directory": self.clicks,
                          "csv": {"files": "hour-*.csv", **csv}},
                "test": {"directory": self.clicks,
                         "csv": {"files": "test.csv", **csv}},
            },
            "model": {"layers": [{"embedding": table}, "flatten", {"dense": 2}],
                      "loss": "softmax_cross_entropy"},
            "optimizer": {"sgd": {}, "learning_rate": 0.1},
        }

    def write_job(self, job):
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)

    def write(self, name, ads):
        """The file appears when it is complete, as others have to do it."""
        path = os.path.join(self.clicks, name)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            file.write("ad,click\n")
            file.writelines(f"{ad},{i % 2}\n" for i, ad in enumerate(ads))
        os.rename(path + ".tmp", path)

    def start(self, *tasks):
        runs = [self.cluster.start(task) for task in tasks]
        for run in runs:
            self.addCleanup(run.kill)
        return runs if len(runs) > 1 else runs[0]

    def wait(self, *runs):
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)

    def result(self):
        with open(os.path.join(self.cluster.run_directory, "result.json"),
                  encoding="utf-8") as file:
            return json.load(file)

    def newest(self):
        name = paramd.checkpoints(self.cluster.run_directory)[-1]
        return os.path.join(self.cluster.run_directory, "checkpoints", name)

    def keys(self):
        """Those that have a row at the end."""
        tensors = paramd.tensors(self.newest())
        numbers = tensors[f"{TABLE}/slot:key"]
        used = tensors[f"{TABLE}/slot:used"]
        count = len(numbers) // 8
        return [key for key, last in zip(struct.unpack(f"<{count}Q", numbers),
                                         struct.unpack(f"<{count}Q", used))
                if last]

    def pushes(self):
        """How many each block has taken."""
        with open(os.path.join(self.newest(), "manifest.json"),
                  encoding="utf-8") as file:
            manifest = json.load(file)
        return {int(run.get("applied", 0)) for file in manifest["files"]
                for saved in file["slices"] for run in saved["applied"]}

    def test_a_job_that_no_file_came_for_says_so(self):
        self.write("hours-1.csv", ["x"])  # Another name than the job has.
        self.write("_SUCCESS", [])
        runs = self.start("ps-0", "worker-0", "worker-1")
        self.wait(*runs)
        self.assertRegex(" ".join(self.result()["warnings"]),
                         "nothing was trained on: no file with examples came")

    def test_promise1_each_file_is_trained_on_once(self):
        server, chief, worker = self.start("ps-0", "worker-0", "worker-1")
        chief.wait_for("all 1 servers are filled")
        self.write("hour-1.csv", [f"x{i}" for i in range(13)])
        chief.wait_for("epoch 1: 1 new files from 'hour-1.csv' on, with 13")
        self.write("hour-2.csv", [f"y{i}" for i in range(9)])
        self.write("_SUCCESS", [])
        self.wait(server, chief, worker)
        self.assertEqual(self.result()["epochs"], 2)
        self.assertEqual(self.result()["evaluation"]["epoch"], 2)
        self.assertEqual(int(self.result()["global_step"]),
                         batches(13) + batches(9))
        self.assertEqual(self.pushes(), {batches(13) + batches(9)})
        self.assertEqual(len(self.keys()), 13 + 9)

    def test_promise1_killed_processes_lose_no_file(self):
        hours = [2001, 1001, 501]

        def add(hour):
            self.write(f"hour-{hour}.csv",
                       [f"{hour}.{i}" for i in range(hours[hour - 1])])

        server, chief, worker = self.start("ps-0", "worker-0", "worker-1")
        chief.wait_for("worker-1 joined")
        add(1)
        worker.wait_for("first push of generation")
        worker.signal(signal.SIGKILL)
        worker.wait()
        add(2)
        worker = self.start("worker-1")
        chief.wait_for("epoch 2: 1 new files from 'hour-2.csv' on")
        chief.signal(signal.SIGKILL)
        chief.wait()
        add(3)
        chief = self.start("worker-0")
        chief.wait_for("epoch 3: 1 new files from 'hour-3.csv' on")
        self.write("_SUCCESS", [])
        self.wait(server, chief, worker)
        self.assertEqual(self.result()["epochs"], 3)
        self.assertEqual(len(self.keys()), sum(hours))
        least = sum(map(batches, hours))
        self.assertGreaterEqual(min(self.pushes()), least)
        # A worker that is killed has three portions of two batches at most.
        self.assertLessEqual(max(self.pushes()), least + 2 * 3 * 2)
        self.assertEqual(int(self.result()["pushes_lost"]), 0)
        self.assertEqual(int(self.result()["pushes_doubled"]), 0)

    def run_alone(self):
        run = paramd.Run("run", "--job", self.cluster.job, "--run_dir",
                         self.cluster.run_directory,
                         directory=self.cluster.directory)
        self.addCleanup(run.kill)
        return run

    def test_a_file_that_is_no_good_is_named_and_can_be_replaced(self):
        self.write("hour-1.csv", ["a"])
        run = self.run_alone()
        run.wait_for("epoch 1: 1 new files")
        bad = os.path.join(self.clicks, "hour-2.csv")
        with open(bad, "w", encoding="utf-8") as file:
            file.write("ad,clock\nb,1\n")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn(f"'{bad}' has no column 'click'", run.output)
        os.remove(bad)
        self.write("hour-2.csv", ["b"])
        self.write("_SUCCESS", [])
        self.wait(self.run_alone())
        self.assertEqual(self.result()["epochs"], 2)
        self.assertEqual(len(self.keys()), 2)

    def test_rows_of_keys_that_no_file_names_any_more_go(self):
        self.write_job(self.job(expire_after=20))
        self.write("hour-1.csv", [f"old{i}" for i in range(30)])
        run = self.run_alone()
        run.wait_for("epoch 1: 1 new files")
        self.write("hour-2.csv", [f"new{i % 10}" for i in range(800)])
        self.write("_SUCCESS", [])
        self.wait(run)
        self.assertEqual(len(self.keys()), 10)


if __name__ == "__main__":
    unittest.main()
