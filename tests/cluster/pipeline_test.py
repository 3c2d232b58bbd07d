"""A model in stages has the weights of the model in one piece."""

import array
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

_LAYERS = ["flatten", {"dense": 24}, "relu", {"dense": 20}, "batch_norm",
           {"dropout": 0.2}, {"dense": 16}, "tanh", {"dense": 10}]


def floats(content):
    values = array.array("f")
    values.frombytes(content)
    return list(values)


def gradients(weights, examples):
    """Of the mean cross entropy of flatten, dense_1, tanh, dense_2; by variable."""
    kernel, bias, out_kernel, out_bias = (
        weights[name] for name in ("dense_1/kernel", "dense_1/bias",
                                   "dense_2/kernel", "dense_2/bias"))
    width, classes = len(bias), len(out_bias)
    found = {name: [0.0] * len(values) for name, values in weights.items()}
    for x, label in examples:
        h = [math.tanh(bias[j] + sum(v * kernel[k * width + j]
                                     for k, v in enumerate(x)))
             for j in range(width)]
        z = [out_bias[c] + sum(v * out_kernel[j * classes + c]
                               for j, v in enumerate(h))
             for c in range(classes)]
        e = [math.exp(v - max(z)) for v in z]
        slope = [(v / sum(e) - (c == label)) / len(examples)
                 for c, v in enumerate(e)]
        before = [(1 - h[j] ** 2) * sum(s * out_kernel[j * classes + c]
                                        for c, s in enumerate(slope))
                  for j in range(width)]
        for c, s in enumerate(slope):
            found["dense_2/bias"][c] += s
            for j in range(width):
                found["dense_2/kernel"][j * classes + c] += s * h[j]
        for j, s in enumerate(before):
            found["dense_1/bias"][j] += s
            for k, v in enumerate(x):
                found["dense_1/kernel"][k * width + j] += s * v
    return found


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
                         {"stages": 3, "schedule": "zero_bubble"},
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

    def test_without_a_flush_a_step_lacks_the_updates_that_are_under_way(self):
        self.job["model"]["layers"] = ["flatten", {"dense": 6}, "tanh",
                                       {"dense": 10}]
        self.job["input"]["stages"] = [{"prefetch": 2}]  # Not shuffled.
        self.job["epochs"] = 1
        initial, _ = self.trained("run", optimizer={
            "sgd": {}, "learning_rate": 1e-30})  # Which moves nothing.
        self.job["optimizer"] = {"sgd": {}, "learning_rate": 0.5}
        examples = [([(i * 16 + k) * 7 % 256 / 255 for k in range(16)], i % 10)
                    for i in range(64)]
        for pipeline, lacks in (
                ({"stages": 2, "micro_batches": 4}, 0),
                ({"stages": 2, "micro_batches": 4, "schedule": "2bw"}, 1),
                ({"stages": 3, "micro_batches": 2, "schedule": "2bw"}, 1),
                ({"stages": 2, "schedule": "pipedream"}, 1),
                ({"stages": 4, "schedule": "pipedream"}, 3)):
            code, run = self.run_job(["local", "--servers=2", "--workers=1"],
                                     pipeline=pipeline)
            self.assertEqual(code, 0, run.output)
            versions = [{name: floats(content)
                         for name, content in initial.items()}]
            for step in range(8):
                slopes = gradients(versions[max(0, step - lacks)],
                                   examples[8 * step:8 * step + 8])
                versions.append({
                    name: [v - 0.5 * s for v, s in zip(values, slopes[name])]
                    for name, values in versions[-1].items()})
            for name, content in run.tensors().items():
                for one, other in zip(floats(content), versions[-1][name],
                                      strict=True):
                    self.assertAlmostEqual(one, other, delta=1e-5,
                                           msg=f"{pipeline} {name}")

    def test_without_a_flush_nothing_is_lost_when_a_worker_is_killed(self):
        self.job["epochs"] = 2000
        for pipeline in ({"stages": 2, "micro_batches": 4, "schedule": "2bw"},
                         {"stages": 3, "schedule": "pipedream"}):
            code, run = self.run_job(
                ["local", "--servers=2", "--workers=2", "--kill=worker-1@epoch=2"],
                pipeline=pipeline)
            self.assertEqual(code, 0, run.output)
            self.assertIn("worker-1 is killed in epoch", run.output)
            result = run.result()
            self.assertEqual((0, 0), (int(result["pushes_lost"]),
                                      int(result["pushes_doubled"])))

    def test_without_a_flush_a_running_job_may_be_set_to_any_mode(self):
        self.job["epochs"] = 2000
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.job, "pipeline": {
                "stages": 2, "micro_batches": 4, "schedule": "2bw"}}, file)
        run_dir = os.path.join(self.directory, "run")
        run = paramd.Run("local", "--servers=2", "--workers=2", "--job", path,
                         f"--run_dir={run_dir}", "--kill=worker-1@epoch=2")
        run.wait_for("worker-1 is killed in epoch")
        for staleness in ("sync", "4", "async", "sync"):
            done = subprocess.run(
                [paramd.BINARY, "set", f"staleness={staleness}", "--run_dir",
                 run_dir], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(run.wait(), 0, run.output)

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

    def test_what_is_swapped_to_a_disk_changes_no_bit(self):
        # What takes less time is chosen. Layers are so wide, and the file system
        # is in memory, so that it is to write what they keep, whatever disk the
        # machine has; it is no test where there is none.
        if not os.access("/dev/shm", os.W_OK):
            self.skipTest("there is no /dev/shm")
        self.job["model"]["layers"] = [
            "flatten", *4 * [{"dense": 1024}, "tanh"], {"dense": 10}]
        directory = tempfile.mkdtemp(dir="/dev/shm")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        whole, evaluation = self.trained("run", batch_per_replica=32)
        code, run = self.run_job(
            ["run"], batch_per_replica=32,
            memory={"activation_budget_bytes": 1, "swap_directory": directory})
        self.assertEqual(code, 2, run.output)
        least = int(re.search(r"need (\d+) at least, and ", run.output)[1])
        memory = {"activation_budget_bytes": least,
                  "swap_directory": directory}
        swapped = []
        for command in (["run", "--strategy=one_device"],
                        ["local", "--servers=2", "--workers=1"]):
            code, run = self.run_job(command, memory=memory,
                                     batch_per_replica=32)
            self.assertEqual(code, 0, run.output)
            self.assertEqual(run.tensors(), whole, command)
            self.assertEqual(run.result()["evaluation"], evaluation)
            swapped.append("activations are swapped to a disk" in run.output)
        # Each measures for itself, on a machine that may be busy.
        self.assertTrue(any(swapped), run.output)
        # The file has no name, and goes with its process.
        self.assertEqual([], os.listdir(directory))
        memory["swap_directory"] = "/does/not/exist"
        code, run = self.run_job(["run"], memory=memory, batch_per_replica=32)
        self.assertEqual(code, 2, run.output)
        self.assertIn("memory.swap_directory '/does/not/exist': no file can be "
                      "made there: No such file or directory", run.output)
        code, run = self.run_job(
            ["run"], memory={"swap_directory": directory})
        self.assertEqual(code, 2, run.output)
        self.assertIn("needs memory.activation_budget_bytes", run.output)

    def test_what_cannot_be_cut_is_refused_in_a_sentence(self):
        for pipeline, sentence in (
            ({"stages": 12}, "has 9 layers that can be cut"),
            ({"stages": 2, "begin_at": ["dense_9"]}, "'dense_9'; there is none"),
            ({"stages": 4, "schedule": "interleaved"}, "must be at least 2"),
            ({"stages": 4, "stages_per_device": 2},
             "needs pipeline.schedule \"interleaved\""),
            ({"stages": 2, "schedule": "pipedream", "micro_batches": 4},
             "where a batch is one micro-batch"),
        ):
            code, run = self.run_job(["run"], pipeline=pipeline)
            self.assertEqual(code, 2, run.output)
            self.assertIn(sentence, run.output)
            code, run = self.run_job(["config", "check"], pipeline=pipeline)
            self.assertEqual(code, 2, run.output)
        code, run = self.run_job(
            ["run"], pipeline={"stages": 2, "schedule": "zero_bubble"},
            memory={"activation_budget_bytes": 1 << 30})
        self.assertEqual(code, 2, run.output)
        self.assertIn("not for pipeline.schedule \"zero_bubble\"", run.output)
        code, run = self.run_job(["run"], compute_format="fp16",
                                 pipeline={"stages": 2})
        self.assertEqual(code, 2, run.output)
        self.assertIn("choose bf16", run.output)
        with open(os.path.join(self.directory, "clicks.csv"), "w",
                  encoding="utf-8") as file:
            file.write("user,item,click\na,b,1\nc,d,0\n")
        for changes, sentence in (
            ({"staleness": "sync"}, "needs staleness \"async\"; found \"sync\""),
            ({"staleness": "4"}, "needs staleness \"async\"; found \"4\""),
            ({"strategy": "mirrored"}, "needs strategy \"parameter_server\""),
            ({"accumulate": 2}, "must be 1"),
            ({"replicas": 2}, "must be 1"),
            ({"push_every": 2}, "must be 1"),
            ({"model": {"loss": "binary_cross_entropy", "layers": [
                {"embedding": {"width": 4, "sparse": True}}, "flatten",
                {"dense": 1}]},
              "input": {name: {"directory": self.directory, "csv": {
                  "files": ["clicks.csv"], "label": "click",
                  "hash_buckets": 16}} for name in ("train", "test")}},
             "embedding_1/table is sparse"),
        ):
            code, run = self.run_job(["run"], **changes, pipeline={
                "stages": 2, "schedule": "2bw"})
            self.assertEqual(code, 2, f"{changes} {run.output}")
            self.assertIn(sentence, run.output)


if __name__ == "__main__":
    unittest.main()
