"""A job that fails ends everywhere: each process of its cluster says why, and
ends with the chief's exit code. Nobody supervises them."""

import json
import re
import unittest

from tests.cluster import input_files as files
from tests.cluster import paramd

NO_NUMBER = ("the loss is -?(nan|inf) at step|pushes in a row were refused "
             "for their numbers")


class FailedJobTest(unittest.TestCase):

    def start_all(self, servers, workers, *flags, **changes):
        """All tasks of a cluster on the tiny job, with `changes`."""
        cluster = paramd.Cluster(servers, workers)
        with open(cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update(changes)
        with open(cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        runs = {}
        for task in cluster.tasks:
            runs[task] = cluster.start(task, *flags)
            self.addCleanup(runs[task].kill)
        return runs

    def assert_all_end(self, runs, code, reason):
        for task, run in runs.items():
            self.assertEqual(run.wait(), code, f"{task}\n{run.output}")
            said = re.findall("^paramd: .*$", run.output, re.MULTILINE)
            self.assertEqual(len(said), 1, f"{task}\n{run.output}")
            self.assertRegex(said[0], reason, task)

    # Forever: the end of the input is not what ends it.
    FOR_LONG = {"epochs": 1000000}
    DIVERGES = {"optimizer": {"sgd": {}, "learning_rate": 1e6},
                "model": {"layers": ["flatten", {"dense": 16}, "relu",
                                     {"dense": 16}, "relu", {"dense": 10}],
                          "loss": "softmax_cross_entropy"}}

    def test_a_loss_that_is_no_number(self):
        for staleness in ("async", "sync", "4"):
            with self.subTest(staleness):
                runs = self.start_all(2, 2, f"--staleness={staleness}",
                                      **self.FOR_LONG, **self.DIVERGES)
                self.assert_all_end(runs, 1, NO_NUMBER)

    def test_a_chief_that_works_alone(self):
        runs = self.start_all(3, 1, **self.FOR_LONG, **self.DIVERGES)
        self.assert_all_end(runs, 1, NO_NUMBER)

    def test_servers_of_several_shards(self):
        runs = self.start_all(1, 2, "--shards_per_server=2", **self.FOR_LONG,
                              **self.DIVERGES)
        self.assert_all_end(runs, 1, NO_NUMBER)

    def test_a_worker_that_has_not_come_hears_it_too(self):
        cluster = paramd.Cluster(servers=1, workers=2)
        with open(cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update(**self.FOR_LONG, **self.DIVERGES)
        with open(cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        runs = {}
        for task in ("ps-0", "worker-0"):
            # It is waited for as long as that.
            runs[task] = cluster.start(task, "--finish_timeout_ms=600000")
            self.addCleanup(runs[task].kill)
        runs["worker-0"].wait_for("the job has failed, and every process is "
                                  "told: ")
        runs["worker-1"] = cluster.start("worker-1",
                                         "--finish_timeout_ms=600000")
        self.addCleanup(runs["worker-1"].kill)
        self.assert_all_end(runs, 1, NO_NUMBER)

    def test_a_label_that_is_none_of_the_classes(self):
        rows = files.csv_rows(64)
        rows[40] = "1,2,10"
        cluster = paramd.Cluster(servers=2, workers=2)
        files.write(cluster.directory, "train.csv", files.csv(rows))
        with open(cluster.job, "w", encoding="utf-8") as file:
            json.dump(files.job(cluster.directory, files.CSV), file)
        runs = {}
        for task in cluster.tasks:
            runs[task] = cluster.start(task)
            self.addCleanup(runs[task].kill)
        self.assert_all_end(runs, 1, "train.csv' line 42: ")

    def test_an_evaluator_hears_it_in_the_run_directory(self):
        cluster = paramd.Cluster(servers=1, workers=1)
        cluster.cluster["evaluator"] = paramd.draw_addresses(1)
        with open(cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update(**self.FOR_LONG, **self.DIVERGES)
        with open(cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        runs = {"evaluator-0": cluster.start("evaluator-0")}
        self.addCleanup(runs["evaluator-0"].kill)
        runs["evaluator-0"].wait_for("ready")
        for task in ("ps-0", "worker-0"):
            runs[task] = cluster.start(task)
            self.addCleanup(runs[task].kill)
        self.assert_all_end(runs, 1, NO_NUMBER)

    def test_the_next_start_goes_on(self):
        cluster = paramd.Cluster(servers=1, workers=1)
        with open(cluster.job, encoding="utf-8") as file:
            job = json.load(file)

        def run(code, **changes):
            with open(cluster.job, "w", encoding="utf-8") as file:
                json.dump({**job, **changes}, file)
            runs = {task: cluster.start(task) for task in cluster.tasks}
            for task, process in runs.items():
                self.addCleanup(process.kill)
                self.assertEqual(process.wait(), code,
                                 f"{task}\n{process.output}")

        run(1, epochs=9, **self.DIVERGES)
        run(0, epochs=9, model=self.DIVERGES["model"])


if __name__ == "__main__":
    unittest.main()
