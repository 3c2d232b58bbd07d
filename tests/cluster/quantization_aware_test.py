"""Networks that are trained to be quantised: everywhere with the same bits, and
what paramd quantize makes of them."""

import array
import filecmp
import json
import math
import os
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

_AWARE = {"weight_bits": 4, "momentum": 0.8, "begin_step": 4}
_RANGES = ("dense_1/input_range", "dense_2/input_range")


def floats(content):
    values = array.array("f")
    values.frombytes(content)
    return list(values)


class QuantizationAwareTest(unittest.TestCase):

    def setUp(self):
        self.root = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        with open(os.path.join(self.root, "data.csv"), "w",
                  encoding="utf-8") as file:
            file.write("a,b,c,d,e,f,y\n")
            for i in range(96):
                x = [math.sin(i * (k + 1)) for k in range(6)]
                file.write(",".join(f"{value:.4f}" for value in x) +
                           f",{int(x[0] > x[3])}\n")

    def job(self, model=None, aware=True, classes=2, **settings):
        data = {"directory": self.root,
                "csv": {"files": "data.csv", "label": "y", "classes": classes}}
        return {
            "name": "aware", "batch_per_replica": 4, "epochs": 10,
            "input": {"train": data, "test": data},
            "model": {"layers": [{"dense": 16}, {"batch_norm": {}}, "relu",
                                 {"dense": 2}],
                      "loss": "softmax_cross_entropy",
                      **({"quantization_aware": _AWARE} if aware else {}),
                      **(model or {})},
            "optimizer": {"adam": {}, "learning_rate": 0.02},
            **settings,
        }

    def write(self, **settings):
        directory = tempfile.mkdtemp(dir=self.root)
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.job(**settings), file)
        return path

    def run_job(self, *command, **settings):
        path = self.write(**settings)
        run = paramd.Run(*command, "--job", path,
                         directory=os.path.dirname(path))
        return run.wait(), run

    def trained(self, *command, **settings):
        code, run = self.run_job(*command, **settings)
        self.assertEqual(code, 0, run.output)
        return run

    def paramd(self, *command, code=0):
        done = subprocess.run([paramd.BINARY, *command], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def test_every_strategy_has_the_same_bits(self):
        def weights(*command, **settings):
            return self.trained(*command, **settings).tensors()

        sync = ("local", "--staleness=sync")
        whole = weights("run", "--strategy=one_device", accumulate=3)
        for name in _RANGES:
            least, greatest, weight, progress = floats(whole[name])
            self.assertLess(least, greatest)
            self.assertAlmostEqual(weight, 1 - 0.8 ** 80, places=4)
            self.assertAlmostEqual(progress, 1, places=5)
        self.assertLess(floats(whole[_RANGES[0]])[0], -0.5)
        self.assertEqual(floats(whole[_RANGES[1]])[0], 0)  # Behind a relu.
        for command in ((*sync, "--servers=2", "--workers=3"),
                        (*sync, "--servers=3", "--workers=1", "--accumulate=3"),
                        ("run", "--strategy=central_storage", "--replicas=3"),
                        ("run", "--strategy=mirrored", "--replicas=3")):
            self.assertEqual(weights(*command), whole, command)

    def test_in_mode_async_ranges_are_learned_on_the_servers(self):
        run = self.trained("local", "--servers=2", "--workers=2")
        least, greatest, weight, progress = floats(
            run.tensors()["dense_1/input_range"])
        self.assertAlmostEqual(least / weight, -1, delta=0.15)
        self.assertAlmostEqual(greatest / weight, 1, delta=0.15)
        self.assertGreaterEqual(progress, 0.99)

    def test_a_run_goes_on_from_its_ranges(self):
        whole = self.trained("run", epochs=6).tensors()
        run_dir = os.path.join(self.root, "run")
        for epochs in (3, 6):
            self.trained("local", "--servers=2", "--workers=1",
                         "--staleness=sync", f"--run_dir={run_dir}",
                         *(["--resume"] if epochs > 3 else []), epochs=epochs)
        newest = os.path.join(run_dir, "checkpoints",
                              paramd.checkpoints(run_dir)[-1])
        self.assertEqual(paramd.tensors(newest), whole)

    def test_a_trained_network_learns_to_be_quantised(self):
        plain = self.trained("run", aware=False)
        run = self.trained(
            "run", epochs=2,
            warm_start={"path": plain.run_directory(),
                        "allow_missing": "*/input_range"})
        self.assertEqual(set(run.tensors()),
                         set(plain.tensors()) | set(_RANGES))

    def test_what_is_quantised_predicts_as_training_evaluated(self):
        path = self.write(epochs=20)
        run = paramd.Run("run", "--job", path, directory=os.path.dirname(path))
        self.assertEqual(run.wait(), 0, run.output)
        job = ("--job", path)
        made = os.path.join(self.root, "made")
        said = self.paramd("quantize", run.run_directory(), *job, "--output",
                           made)
        self.assertIn("learned in training, no calibration set was read", said)
        self.assertIn("weights -7 to 7", said)
        self.assertRegex(self.paramd("checkpoint", "inspect", made),
                         r"(?m)^calibrated +learned in training$")
        found = []
        for checkpoint in (run.run_directory(), made):
            lines = self.paramd("predict", *job, "--checkpoint",
                                checkpoint).splitlines()
            found.append([[float(value) for value in line.split(",")]
                          for line in lines[1:]])
        self.assertEqual(len(found[0]), 96)
        for wanted, by_integers in zip(*found):
            self.assertEqual(wanted.index(max(wanted)),
                             by_integers.index(max(by_integers)))
            for one, other in zip(wanted, by_integers):
                self.assertAlmostEqual(one, other, delta=0.02)
        for flags, sentence in (
                (("--calibrate=train",), "--calibrate is not for a model with "
                 "quantization_aware, whose ranges training has learned"),
                (("--observer=min_max",), "--observer is not for a model with"),
                (("--batches=5",), "--batches belongs to --calibrate"),
                (("--per_tensor",), "--per_tensor is not for a model with"),
                (("--activation_bits=16",),
                 "--activation_bits is not for a model with"),
                (("--mode=dynamic",), "--mode dynamic is not for a model with "
                 "quantization_aware, which was trained for static ranges"),
                (("--weight_bits=8",), "--weight_bits is 8, and the model was "
                 "trained for 4 (quantization_aware.weight_bits)")):
            said = self.paramd("quantize", run.run_directory(), *job,
                               "--output", os.path.join(self.root, "refused"),
                               *flags, code=2)
            self.assertIn(sentence, said)
            self.assertEqual(len(said.splitlines()), 1, said)
        # What was trained may be said.
        again = os.path.join(self.root, "again")
        self.paramd("quantize", run.run_directory(), *job, "--mode=static",
                    "--weight_bits=4", "--output", again)
        self.assertTrue(filecmp.cmp(f"{made}/quantized.safetensors",
                                    f"{again}/quantized.safetensors",
                                    shallow=False))

    def test_a_stage_quantises_what_an_earlier_one_has_learned(self):
        run_dir = os.path.join(self.root, "chain")
        self.trained("run", f"--run_dir={run_dir}", epochs=2, stages=[
            {"name": "aware"},
            {"name": "small", "from": "aware", "quantize": "static"}])
        checkpoints = os.path.join(run_dir, "small", "checkpoints")
        said = self.paramd("checkpoint", "inspect", checkpoints)
        self.assertRegex(said, r"(?m)^calibrated +learned in training$")
        self.assertIn("weights -7 to 7", said)

    def test_what_cant_be_trained_so_is_refused_in_a_sentence(self):
        aware = "model.quantization_aware"
        for settings, sentence in (
                ({"device": "cuda"}, "device: must be \"cpu\" with " + aware),
                ({"device": "pjrt:/plugin.so:0"},
                 "device: must be \"cpu\" with " + aware),
                ({"compute_format": "bf16"},
                 "compute_format: must be \"fp32\" with " + aware),
                ({"model": {"quantization_aware": {"weight_bits": 9}}},
                 aware + ".weight_bits: must be at most 8"),
                ({"model": {"quantization_aware": {"weight_bits": 1}}},
                 aware + ".weight_bits: must be at least 2"),
                ({"model": {"quantization_aware": {"momentum": 1}}},
                 aware + ".momentum: must be less than 1"),
                ({"model": {"layers": [{"residual": {"layers": [{"dense": 6}]}}]},
                  "classes": 6},
                 "quantization_aware: no layer of the model can be quantised: "
                 "'residual_1': it holds layers")):
            with self.subTest(settings=settings):
                code, run = self.run_job("run", **settings)
                self.assertEqual(code, 2, run.output)
                said = [line for line in run.output.splitlines()
                        if line.startswith("paramd: ")]
                self.assertEqual(len(said), 1, run.output)
                self.assertIn(sentence, said[0])


if __name__ == "__main__":
    unittest.main()
