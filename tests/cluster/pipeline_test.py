"""A model in stages has the weights of the model in one piece."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

_LAYERS = ["flatten", {"dense": 24}, "relu", {"dense": 20}, "batch_norm",
           {"dropout": 0.2}, {"dense": 16}, "tanh", {"dense": 10}]


class PipelineTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        job = paramd.tiny_job(self.directory)
        job["model"]["layers"] = _LAYERS
        job["optimizer"] = {"adam": {}, "learning_rate": 0.01}
        job["epochs"] = 3
        self.job = job

    def run_job(self, command, *flags, **changes):
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.job, **changes}, file)
        run = paramd.Run(*command, "--job", path, *flags)
        return run.wait(), run

    def trained(self, *command, **changes):
        code, run = self.run_job(command, **changes)
        self.assertEqual(code, 0, run.output)
        return run.tensors(), run.result()["evaluation"]

    def test_stages_change_no_bit_under_any_strategy(self):
        # Micro-batches of two examples.
        whole, evaluation = self.trained("run", batch_per_replica=2,
                                         accumulate=4)
        for pipeline in ({"stages": 2}, {"stages": 3, "schedule": "gpipe"},
                         {"stages": 4, "schedule": "interleaved",
                          "stages_per_device": 2},
                         {"stages": 2, "schedule": "naive",
                          "begin_at": ["dense_2"]}):
            pipeline["micro_batches"] = 4
            for command in (["run", "--strategy=one_device"],
                            ["local", "--servers=2", "--workers=1"]):
                found, its = self.trained(*command, pipeline=pipeline)
                self.assertEqual(found, whole, f"{pipeline} {command}")
                self.assertEqual(its, evaluation)
        replicas, _ = self.trained("run", "--strategy=central_storage",
                                   "--replicas=2", batch_per_replica=2,
                                   accumulate=2)
        for strategy in ("central_storage", "mirrored"):
            found, _ = self.trained(
                "run", f"--strategy={strategy}", "--replicas=2",
                batch_per_replica=4,
                pipeline={"stages": 3, "micro_batches": 2})
            self.assertEqual(found, replicas, strategy)

    def test_another_cut_goes_on_with_the_run_and_evaluates_it(self):
        cut = {"micro_batches": 4}
        whole, _ = self.trained("run", pipeline={**cut, "stages": 2})
        run_dir = os.path.join(self.directory, "run")
        for epochs, stages in ((1, 2), (2, 1), (3, 4)):
            code, run = self.run_job(
                ["run", f"--run_dir={run_dir}"], epochs=epochs,
                pipeline={**cut, "stages": stages})
            self.assertEqual(code, 0, run.output)
        newest = os.path.join(run_dir, "checkpoints",
                              paramd.checkpoints(run_dir)[-1])
        self.assertEqual(paramd.tensors(newest), whole)
        metrics = set()
        for stages in (1, 3):
            done = subprocess.run(
                [paramd.BINARY, "evaluate", "--job",
                 os.path.join(self.directory, "job.json"), "--checkpoint",
                 run_dir, f"--set=pipeline.stages={stages}"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            metrics.add(done.stdout)
        self.assertEqual(len(metrics), 1, metrics)

    def test_a_budget_for_activations_changes_no_bit(self):
        block = [{"dense": 48}, "batch_norm", "tanh", {"dropout": 0.1}]
        self.job["model"]["layers"] = ["flatten", *6 * block, {"dense": 10}]
        budget = {"activation_budget_bytes": 1}
        for changes, pipeline in (
            ({"batch_per_replica": 8}, {}),
            ({"batch_per_replica": 2, "accumulate": 4},
             {"stages": 2, "micro_batches": 4}),
        ):
            whole, evaluation = self.trained("run", **changes)
            if pipeline:
                changes = {"batch_per_replica": 8, "pipeline": pipeline}
            code, run = self.run_job(["run"], memory=budget, **changes)
            self.assertEqual(code, 2, run.output)
            # Of the stage that it says; the other one needs less.
            least = re.search(r"need (\d+) at least, and (\d+) if", run.output)
            self.assertLess(int(least[1]), 0.9 * int(least[2]))
            enough = {"activation_budget_bytes": int(least[1])}
            for command in (["run", "--strategy=one_device"],
                            ["local", "--servers=2", "--workers=1"]):
                found, its = self.trained(*command, memory=enough, **changes)
                self.assertEqual(found, whole, f"{pipeline} {command}")
                self.assertEqual(its, evaluation)
            code, run = self.run_job(
                ["run"], **changes,
                memory={"activation_budget_bytes": int(least[1]) - 1})
            self.assertEqual(code, 2, run.output)

    def test_what_cannot_be_cut_is_refused_in_a_sentence(self):
        for pipeline, sentence in (
            ({"stages": 12}, "has 9 layers that can be cut"),
            ({"stages": 2, "begin_at": ["dense_9"]}, "'dense_9'; there is none"),
            ({"stages": 4, "schedule": "interleaved"}, "must be at least 2"),
            ({"stages": 4, "stages_per_device": 2},
             "needs pipeline.schedule \"interleaved\""),
        ):
            code, run = self.run_job(["run"], pipeline=pipeline)
            self.assertEqual(code, 2, run.output)
            self.assertIn(sentence, run.output)
            code, run = self.run_job(["config", "check"], pipeline=pipeline)
            self.assertEqual(code, 2, run.output)
        code, run = self.run_job(["run"], compute_format="fp16",
                                 pipeline={"stages": 2})
        self.assertEqual(code, 2, run.output)
        self.assertIn("choose bf16", run.output)


if __name__ == "__main__":
    unittest.main()
