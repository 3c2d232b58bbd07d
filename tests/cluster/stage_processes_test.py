"""Stages of a pipeline in processes of their own have the weights of one process."""

import json
import os
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

_LAYERS = ["flatten", {"dense": 24}, "relu", {"dense": 20}, "batch_norm",
           {"dropout": 0.2}, {"dense": 16}, "tanh", {"dense": 10}]


class StageProcessesTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        job = paramd.tiny_job(self.directory)
        job["model"]["layers"] = _LAYERS
        job["optimizer"] = {"adam": {}, "learning_rate": 0.01}
        job["epochs"] = 3
        self.job = job

    def run_job(self, *flags, **changes):
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.job, **changes}, file)
        run = paramd.Run("local", "--servers=1", *flags, "--job", path)
        return run.wait(), run

    def trained(self, *flags, **changes):
        code, run = self.run_job(*flags, **changes)
        self.assertEqual(code, 0, run.output)
        return run.tensors(), run.result()["evaluation"], run

    def test_processes_change_no_bit_under_any_schedule(self):
        for stages, pipeline in (
                (1, {"stages": 2}),
                (2, {"stages": 3, "schedule": "gpipe"}),
                (1, {"stages": 3}),
                (1, {"stages": 4, "schedule": "interleaved",
                     "stages_per_device": 2}),
                (2, {"stages": 3, "schedule": "zero_bubble"}),
                (3, {"stages": 4, "schedule": "naive"})):
            pipeline["micro_batches"] = 4
            expected, evaluation, _ = self.trained("--workers=1",
                                                   pipeline=pipeline)
            found, its, run = self.trained(
                "--workers=1", f"--stages={stages}", pipeline=pipeline)
            self.assertEqual(found, expected, pipeline)
            self.assertEqual(its, evaluation)
            for stage in range(stages):
                self.assertIn("its worker says that the job has ended",
                              run.log(f"stage-{stage}"))

    def test_each_worker_has_stages_of_its_own(self):
        pipeline = {"stages": 3, "micro_batches": 4}
        expected, _, _ = self.trained("--workers=2", pipeline=pipeline,
                                      staleness="sync")
        found, _, run = self.trained("--workers=2", "--stages=2",
                                     pipeline=pipeline, staleness="sync")
        self.assertEqual(found, expected)
        self.assertIn("computes for worker-1", run.log("stage-3"))

    def test_weights_larger_than_a_piece_arrive_whole(self):
        changes = {
            "model": {**self.job["model"],
                      "layers": ["flatten", {"dense": 1024}, "relu",
                                 {"dense": 1024}, "relu", {"dense": 10}]},
            "pipeline": {"stages": 2, "micro_batches": 2,
                         "begin_at": ["dense_3"]}, "epochs": 1}
        expected, _, _ = self.trained("--workers=1", **changes)
        for flag in ("--shared_memory=true", "--shared_memory=false"):
            found, _, _ = self.trained("--workers=1", "--stages=1", flag,
                                       **changes)
            self.assertEqual(found, expected, flag)

    def test_rows_of_a_table_go_to_the_stage_that_looks_them_up(self):
        features = [{"name": "ids", "type": "int32", "dims": [6],
                     "classes": 5000},
                    {"name": "label", "type": "int32", "classes": 4}]
        self.job["input"] = {
            name: {"synthetic": {"examples": examples, "features": features}}
            for name, examples in (("train", 160), ("test", 32))}
        self.job["model"]["layers"] = [
            {"embedding": {"width": 8, "sparse": True}}, "flatten",
            {"dense": 6}, "relu", {"dense": 4}]
        pipeline = {"stages": 2, "micro_batches": 4}
        expected, evaluation, _ = self.trained("--workers=1",
                                               pipeline=pipeline)
        found, its, _ = self.trained("--workers=1", "--stages=1",
                                     pipeline=pipeline)
        self.assertTrue(found == expected)
        self.assertEqual(its, evaluation)

    def test_a_stage_that_is_killed_costs_time_and_no_bit(self):
        self.job["epochs"] = 100
        self.job["evaluate_every_epochs"] = 50
        pipeline = {"stages": 3, "micro_batches": 4}
        for staleness in ("async", "sync"):
            changes = {"pipeline": pipeline, "staleness": staleness}
            expected, _, _ = self.trained("--workers=1", **changes)
            found, _, run = self.trained(
                "--workers=1", "--stages=2",
                "--kill=stage-0@epoch=1,stage-1@epoch=2", **changes)
            for stage in ("stage-0", "stage-1"):
                self.assertIn(f"{stage} is killed in epoch", run.output)
            self.assertIn("a stage is not there", run.log("worker-0"))
            self.assertEqual(found, expected, staleness)

    def test_a_worker_that_comes_back_takes_its_stages_over(self):
        self.job["epochs"] = 100
        self.job["evaluate_every_epochs"] = 50
        code, run = self.run_job(
            "--workers=2", "--stages=1", "--kill=worker-1@epoch=1",
            pipeline={"stages": 2, "micro_batches": 4})
        self.assertEqual(code, 0, run.output)
        self.assertIn("worker-1 is killed in epoch", run.output)
        self.assertEqual(0, int(run.result()["pushes_lost"]))
        self.assertGreaterEqual(
            run.log("stage-1").count("computes for worker-1"), 2)

    def test_with_certificates_a_stage_shows_its_own(self):
        directory = os.path.join(self.directory, "tls")
        done = subprocess.run(
            [paramd.BINARY, "tls", "init", "--job", "tiny", "--dir", directory,
             "--servers=1", "--workers=1", "--stages=1"],
            text=True, check=False, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        pipeline = {"stages": 2, "micro_batches": 4}
        expected, _, _ = self.trained("--workers=1", pipeline=pipeline)
        found, _, run = self.trained("--workers=1", "--stages=1",
                                     f"--tls_dir={directory}",
                                     pipeline=pipeline)
        self.assertEqual(found, expected)
        self.assertIn("spiffe://paramd/tiny/stage/0", run.log("stage-0"))

    def test_a_stage_of_another_job_is_refused_by_name(self):
        cluster = paramd.Cluster(1, 1)
        cluster.cluster["stage"] = paramd.draw_addresses(1)
        self.job["pipeline"] = {"stages": 2}
        for name in ("tiny", "other"):
            path = os.path.join(self.directory, f"{name}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**self.job, "name": name}, file)
        for task, name in (("stage-0", "other"), ("ps-0", "tiny"),
                           ("worker-0", "tiny")):
            cluster.job = os.path.join(self.directory, f"{name}.json")
            run = cluster.start(task)
            self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 2, run.output)
        self.assertRegex(run.output, r"stage-0 at \S+: another job answers: "
                         r".*'other'")

    def test_what_does_not_fit_is_said_at_the_start(self):
        for changes, stages, sentence in (
                ({"pipeline": {"stages": 2}}, 2,
                 "the pipeline is on 2 devices, the last of which is the "
                 "worker itself; list at most 1"),
                ({}, 1, "the job's pipeline is on one device"),
                ({"pipeline": {"stages": 2, "schedule": "2bw"}}, 1,
                 "a pipeline without a flush has all of its stages in the "
                 "worker"),
                ({"pipeline": {"stages": 2}, "replicas": 2}, 1,
                 "replicas is 2")):
            code, run = self.run_job("--workers=1", f"--stages={stages}",
                                     **changes)
            self.assertEqual(code, 2, run.output)
            self.assertIn(sentence, run.output)


if __name__ == "__main__":
    unittest.main()
