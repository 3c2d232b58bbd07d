"""paramd quantize, as typed: what it makes, who reads it, what it refuses."""

import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest

BINARY = os.path.abspath("cli/paramd")
SIDE = 10
CLASSES = 10
TRAIN = 1500
TEST = 2000


def paramd(*arguments, **environment):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True,
                          check=False, env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


def write_idx(path, shape, content):
    with open(path, "wb") as file:
        file.write(bytes([0, 0, 8, len(shape)]))
        file.write(b"".join(size.to_bytes(4, "big") for size in shape))
        file.write(bytes(content))


def write_images(directory, kind, count, seed):
    """Each class is a picture of its own, under noise."""
    pictures = random.Random(0)
    classes = [[pictures.randrange(256) for _ in range(SIDE * SIDE)]
               for _ in range(CLASSES)]
    noise = random.Random(seed)
    images, labels = [], []
    for _ in range(count):
        label = noise.randrange(CLASSES)
        labels.append(label)
        images += [min(255, max(0, (pixel + noise.randrange(-255, 256)) // 2))
                   for pixel in classes[label]]
    write_idx(f"{directory}/{kind}-images", (count, SIDE, SIDE), images)
    write_idx(f"{directory}/{kind}-labels", (count,), labels)


def job_of(directory, layers, name, epochs=2):
    job = {
        "name": name, "epochs": epochs, "batch_per_replica": 50, "seed": 1,
        "input": {"format": "idx", "directory": directory,
                  "train_images": "train-images",
                  "train_labels": "train-labels",
                  "test_images": "test-images",
                  "test_labels": "test-labels"},
        "model": {"layers": layers, "loss": "softmax_cross_entropy"},
        "optimizer": {"adam": {}, "learning_rate": 0.003},
    }
    path = f"{directory}/{name}.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(job, file)
    return path


DENSE = ["flatten", {"dense": 256}, "relu", {"dense": 10}]
# The batch norm is folded, the pool is of integers; the first convolution is of
# one channel.
CONVOLUTIONS = [
    {"conv2d": {"filters": 8, "kernel": 3}}, "relu",
    {"conv2d": {"filters": 16, "kernel": 3, "bias": False}}, {"batch_norm": {}},
    "relu", {"max_pool": 2}, "flatten", {"dense": 10}]
RESIDUAL = [
    {"conv2d": {"filters": 8, "kernel": 3, "bias": False}}, {"batch_norm": {}},
    "relu",
    {"residual": {"layers": [
        {"conv2d": {"filters": 8, "kernel": 3, "bias": False}},
        {"batch_norm": {}}, "relu", {"conv2d": {"filters": 8, "kernel": 3}}]}},
    "relu", {"max_pool": 2}, "flatten", {"dense": 10}]
# Each row of an image is a place.
TRANSFORMER = [
    {"dense": 32}, "positional_embedding",
    {"residual": {"layers": ["layer_norm", {"attention": {"heads": 4}}]}},
    {"recompute": {"layers": [{"residual": {"layers": [
        "layer_norm", {"dense": 64}, "gelu", {"dense": 32}]}}]}},
    "layer_norm", "flatten", {"dense": 10}]


class QuantizeTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        write_images(cls.directory, "train", TRAIN, 1)
        write_images(cls.directory, "test", TEST, 2)
        cls.jobs, cls.runs = {}, {}
        for name, layers, epochs in (("dense", DENSE, 2),
                                     ("cnn", CONVOLUTIONS, 2),
                                     ("residual", RESIDUAL, 5),
                                     ("transformer", TRANSFORMER, 4)):
            cls.jobs[name] = job_of(cls.directory, layers, name, epochs)
            cls.runs[name] = f"{cls.directory}/run-{name}"
            code, out, err = paramd("run", "--job", cls.jobs[name],
                                    "--run_dir", cls.runs[name])
            assert code == 0, out + err
        cls.made = 0

    def quantize(self, name, *flags, code=0):
        """The directory that is made, and what was printed."""
        type(self).made += 1
        output = f"{self.directory}/made-{self.made}"
        found, out, err = paramd("quantize", self.runs[name], "--job",
                                 self.jobs[name], "--output", output, *flags)
        self.assertEqual(code, found, err)
        if code != 0:
            self.assertFalse(os.path.exists(output))
            self.assertEqual([], [entry for entry in os.listdir(self.directory)
                                  if entry.startswith(".")])
        return output, out + err

    def evaluate(self, name, checkpoint, **environment):
        code, out, err = paramd("evaluate", "--job", self.jobs[name],
                                "--checkpoint", checkpoint, "--json",
                                **environment)
        self.assertEqual(0, code, err)
        return json.loads(out)["metrics"]

    def predict(self, name, checkpoint, **environment):
        code, out, err = paramd("predict", "--job", self.jobs[name],
                                "--checkpoint", checkpoint, **environment)
        self.assertEqual(0, code, err)
        return [[float(value) for value in line.split(",")]
                for line in out.splitlines()[1:]]

    # Ten images: which of those near a border change sides depends on the
    # weights, and these on the processor that trained them.
    def test_every_mode_and_observer_is_within_half_a_point_of_float(self):
        for name in ("dense", "cnn"):
            float_accuracy = self.evaluate(name, self.runs[name])["accuracy"]
            self.assertGreater(float_accuracy, 0.8)
            for flags in (("--calibrate=train",),
                          ("--calibrate=train", "--observer=percentile"),
                          ("--mode=dynamic",), ("--mode=float16",),
                          ("--mode=bfloat16",), (),
                          ("--calibrate=test", "--observer=moving_average",
                           "--batches=5"),
                          ("--calibrate=train", "--observer=histogram"),
                          ("--calibrate=train", "--observer=entropy"),
                          ("--calibrate=train", "--per_tensor"),
                          ("--calibrate=train", "--activation_bits=16"),
                          ("--calibrate=test", "--activation_bits=16",
                           "--observer=histogram", "--weight_bits=7"),
                          ("--calibrate=train", "--weight_bits=7")):
                with self.subTest(name=name, flags=flags):
                    made, out = self.quantize(name, *flags)
                    accuracy = self.evaluate(name, made)["accuracy"]
                    self.assertLessEqual(abs(accuracy - float_accuracy), 0.005,
                                         out)

    # Some more images are near a border there.
    def test_residual_networks_and_transformers_are_within_a_point(self):
        for name in ("residual", "transformer"):
            float_accuracy = self.evaluate(name, self.runs[name])["accuracy"]
            self.assertGreater(float_accuracy, 0.7)
            for flags in (("--calibrate=train",),
                          ("--calibrate=train", "--activation_bits=16"),
                          ("--mode=dynamic",)):
                with self.subTest(name=name, flags=flags):
                    made, out = self.quantize(name, *flags)
                    accuracy = self.evaluate(name, made)["accuracy"]
                    self.assertLessEqual(abs(accuracy - float_accuracy), 0.01,
                                         out)

    def test_layers_inside_of_others_are_named_with_their_range(self):
        made, out = self.quantize("residual", "--calibrate=train")
        self.assertRegex(out, r"conv2d_2 +int8 conv2d with batch_norm_2, input ")
        self.assertRegex(out, r"conv2d_3 +int8 conv2d, input scale ")
        self.assertNotIn("residual_1", out)
        made, out = self.quantize("transformer", "--mode=dynamic")
        for layer, kind in (("attention_1/projection", "attention"),
                            ("attention_1/output", "attention"),
                            ("dense_1", "dense"), ("dense_2", "dense"),
                            ("dense_3", "dense"), ("dense_4", "dense")):
            self.assertRegex(out, rf"(?m)^  {layer} +int8 {kind}$")
        self.assertRegex(out, r"(?m)^  layer_norm_2 +float: it is neither a "
                              r"dense layer nor a convolution nor attention$")
        self.assertEqual(0, paramd("checkpoint", "verify", made)[0])
        self.assertRegex(paramd("checkpoint", "inspect", made, "--values")[1],
                         r"(?m)^attention_1/output +attention ")
        code, out, err = paramd(
            "checkpoint", "export", made, "--job", self.jobs["transformer"],
            "--format=onnx", "--to", f"{made}.onnx")
        self.assertEqual(0, code, out + err)

    def test_what_is_made_is_smaller_and_says_how(self):
        made, out = self.quantize("dense", "--calibrate=train")
        ratio = float(re.search(r"([\d.]+) times smaller", out).group(1))
        self.assertGreater(ratio, 3.5)
        half, out = self.quantize("dense", "--mode=float16")
        ratio = float(re.search(r"([\d.]+) times smaller", out).group(1))
        self.assertGreater(ratio, 1.9)
        self.assertEqual(0, paramd("checkpoint", "verify", made)[0])
        self.assertEqual(0, paramd("checkpoint", "verify", half)[0])

    def test_activations_of_16_bits_change_no_weight(self):
        for name in ("dense", "cnn"):
            files = []
            for bits in ("8", "16"):
                made, out = self.quantize(name, "--calibrate=train",
                                          f"--activation_bits={bits}")
                with open(f"{made}/quantized.safetensors", "rb") as file:
                    file.read(int.from_bytes(file.read(8), "little"))
                    files.append(file.read())
                self.assertEqual(0, paramd("checkpoint", "verify", made)[0])
            self.assertEqual(*files)
            self.assertRegex(out, r"dense_1 +int8 dense, int16 input, scale ")
            self.assertIn("  range: inputs -32767 to 32767, weights -127 to "
                          "127: sums of 64 bits, right on every processor\n",
                          out)
            self.assertRegex(paramd("checkpoint", "inspect", made)[1],
                             r"(?m)^range +inputs -32767 to 32767, weights ")
            code, out, err = paramd(
                "checkpoint", "export", made, "--job", self.jobs[name],
                "--format=onnx", "--to", f"{made}.onnx")
            self.assertEqual((2, ""), (code, out), err)
            self.assertIn("layers get integers of 16 bits, which ONNX "
                          "quantises to from opset 21 on", err)
            self.assertEqual(1, len(err.splitlines()), err)
            self.assertFalse(os.path.exists(f"{made}.onnx"))

    def test_inspect_shows_ranges_scales_and_what_is_left(self):
        made, out = self.quantize("cnn", "--calibrate=train", "--batches=7")
        self.assertIn("conv2d_1         float: of 1 channel it would be slower "
                      "than in float", out)
        code, out, err = paramd("checkpoint", "inspect", made, "--values")
        self.assertEqual(0, code, err)
        self.assertRegex(out, r"(?m)^quantised +static$")
        self.assertRegex(out, r"(?m)^range +inputs 0 to 255, weights -127 to "
                              r"127: sums need 32 bits \(VNNI\)")
        self.assertRegex(out, r"(?m)^calibrated +min_max of 350 examples, train")
        self.assertRegex(out, r"(?m)^conv2d_2 +conv2d +batch_norm_1 +[\d.e-]+ "
                              r"+0 +16 +[\d.e-]+ +[\d.e-]+$")
        self.assertRegex(out, r"(?m)^in float +conv2d_1 +of 1 channel")
        made, _ = self.quantize("cnn", "--calibrate=train", "--weight_bits=7",
                                "--per_tensor")
        out = paramd("checkpoint", "inspect", made)[1]
        self.assertRegex(out, r"(?m)^range .*-63 to 63: right on every")
        self.assertRegex(out, r"(?m)^conv2d_2 +conv2d +batch_norm_1 +[\d.e-]+ "
                              r"+0 +1 ")
        self.assertRegex(paramd("checkpoint", "list", made)[1], "ok, quantised")

    def test_a_processor_without_vnni_computes_the_same(self):
        for name in ("dense", "cnn"):
            for bits in ("weight_bits=8", "weight_bits=7",
                         "activation_bits=16"):
                made, _ = self.quantize(name, "--calibrate=train", f"--{bits}")
                here = self.predict(name, made)
                without = self.predict(name, made, ONEDNN_MAX_CPU_ISA="AVX2")
                # Integers are the same bits; a convolution in float, and so what
                # is made integers of, may be apart by its last ones.
                most = max(abs(a - b) for x, y in zip(here, without)
                           for a, b in zip(x, y))
                self.assertLessEqual(most, 1e-6 if name == "dense" else 0.05)

    def test_threads_and_parts_change_no_number(self):
        made, _ = self.quantize("cnn", "--calibrate=train")
        alone = self.predict("cnn", made)
        code, out, err = paramd("predict", "--job", self.jobs["cnn"],
                                "--checkpoint", made, "--threads=3")
        self.assertEqual(0, code, err)
        self.assertEqual(alone, [[float(value) for value in line.split(",")]
                                 for line in out.splitlines()[1:]])

    def test_dynamic_ranges_leave_convolutions_and_say_so(self):
        _, out = self.quantize("cnn", "--mode=dynamic")
        self.assertRegex(out, r"conv2d_2 +float: a convolution needs static "
                              r"ranges \(--calibrate\)")
        self.assertRegex(out, r"dense_1 +int8 dense")

    def test_training_does_not_go_on_from_it(self):
        made, _ = self.quantize("dense", "--calibrate=train")
        run = f"{self.directory}/gone-on"
        shutil.copytree(self.runs["dense"], run, symlinks=True)
        checkpoints = f"{run}/checkpoints"
        (newest,) = [entry for entry in os.listdir(checkpoints)
                     if entry[0].isdigit()]
        shutil.rmtree(f"{checkpoints}/{newest}")
        shutil.copytree(made, f"{checkpoints}/{newest}")
        for where in (run, made):
            code, _, err = paramd("run", "--job", self.jobs["dense"],
                                  "--run_dir", where, "--epochs=3")
            self.assertEqual(2, code, err)
            self.assertIn("is quantised, and nothing can be trained on from "
                          "it", err)
        # What was there is untouched.
        self.assertEqual(0, paramd("checkpoint", "verify", made)[0])

    def test_others_read_float_of_it(self):
        for name in ("dense", "cnn"):
            made, _ = self.quantize(name, "--calibrate=train")
            run = f"{self.directory}/warm-{name}"
            code, out, err = paramd("run", "--job", self.jobs[name],
                                    "--run_dir", run, "--epochs=1", "--set",
                                    f"warm_start.path={made}")
            self.assertEqual(0, code, out + err)
            self.assertGreater(self.evaluate(name, run)["accuracy"], 0.8)
            run = f"{self.directory}/taught-{name}"
            code, out, err = paramd(
                "run", "--job", self.jobs["dense"], "--run_dir", run,
                "--epochs=1", "--set", f'distill={{"teachers": ["{made}"]}}')
            self.assertEqual(0, code, out + err)
            exported = f"{self.directory}/exported-{name}"
            code, out, err = paramd("checkpoint", "export", made, "--to",
                                    exported)
            self.assertEqual(0, code, err)
            with open(f"{exported}/model.safetensors", "rb") as file:
                header = json.loads(file.read(
                    int.from_bytes(file.read(8), "little")))
            del header["__metadata__"]
            self.assertEqual({"F32"}, {tensor["dtype"]
                                       for tensor in header.values()})

    def test_what_is_wrong_is_one_sentence(self):
        made, _ = self.quantize("dense", "--calibrate=train")
        directory = f"{self.directory}/other"
        os.makedirs(directory, exist_ok=True)
        write_idx(f"{directory}/train-images", (20, SIDE, SIDE),
                  [7] * (20 * SIDE * SIDE))
        write_idx(f"{directory}/train-labels", (20,), [i % 10 for i in range(20)])
        for kind in ("images", "labels"):
            shutil.copy(f"{directory}/train-{kind}", f"{directory}/test-{kind}")
        constant = job_of(directory, DENSE, "constant")
        write_idx(f"{directory}/small-images", (20, 3, 3),
                  [i % 256 for i in range(180)])
        with open(constant, encoding="utf-8") as file:
            small = json.load(file)
        small["input"]["train_images"] = small["input"]["test_images"] = \
            "small-images"
        with open(f"{directory}/small.json", "w", encoding="utf-8") as file:
            json.dump(small, file)
        job = ("--job", self.jobs["dense"])
        run, cnn = self.runs["dense"], self.runs["cnn"]
        for arguments, sentence in (
                ((made, *job, "--calibrate=train"), "is quantised already"),
                ((run, *job, "--calibrate=train", "--observer=median"),
                 "there is no observer 'median'; there are min_max"),
                ((run, *job, "--mode=int4"), "--mode is static, dynamic"),
                ((run, *job, "--mode=static"), "--mode static needs --calibrate"),
                ((run, *job, "--mode=float16", "--calibrate=train"),
                 "--calibrate is of --mode static"),
                ((run, *job, "--mode=dynamic", "--observer=min_max"),
                 "--observer is of --mode static"),
                ((run, *job, "--calibrate=train", "--activation_bits=12"),
                 "--activation_bits is 8 or 16, not 12"),
                ((run, *job, "--calibrate=train", "--activation_bits=17"),
                 "--activation_bits"),
                ((run, *job, "--activation_bits=16"),
                 "--activation_bits 16 is of --mode static; dynamic has no"),
                ((run, *job, "--mode=float16", "--activation_bits=16"),
                 "--activation_bits 16 is of --mode static; float16 has no"),
                ((run, *job, f"--calibrate={constant}"), "is constant: all of "
                 "its 20 examples are"),
                ((run, *job, "--calibrate=train", "--set",
                  'input.stages=[{"filter": {"feature": "label", "max": -1}}]'),
                 "keeps none of the"),
                ((run, *job, f"--calibrate={directory}/small.json"), "3x3"),
                ((run, "--calibrate=train"), "--job"),
                ((cnn, *job, "--calibrate=train"), "conv2d_1"),
                ((run, *job, "--mode=dynamic", "--set",
                  'model.layers=["flatten", {"dense": 256}, "gelu", '
                  '{"dense": 10}]'), "model.layers[1].gelu is {}, was not there"),
                ((f"{self.directory}/nothing", *job), "nothing"),
        ):
            with self.subTest(arguments=arguments):
                output = f"{self.directory}/refused"
                code, out, err = paramd("quantize", *arguments, "--output",
                                        output)
                self.assertEqual((2, ""), (code, out), err)
                self.assertIn(sentence, err)
                self.assertEqual(1, len(err.splitlines()), err)
                self.assertFalse(os.path.exists(output))
        code, _, err = paramd("quantize", run, *job)
        self.assertEqual(2, code, err)
        self.assertIn("missing --output", err)
        code, _, err = paramd("quantize", run, *job, "--output", made)
        self.assertEqual(2, code, err)
        self.assertIn("exists", err)

    def test_a_model_without_such_a_layer_is_refused(self):
        job = job_of(self.directory,
                     [{"conv2d": {"filters": 10, "kernel": 3}},
                      "global_average_pool"], "none")
        run = f"{self.directory}/run-none"
        code, out, err = paramd("run", "--job", job, "--run_dir", run,
                                "--epochs=1")
        self.assertEqual(0, code, out + err)
        for flags in (("--calibrate=train",), ("--mode=dynamic",)):
            code, out, err = paramd("quantize", run, "--job", job, "--output",
                                    f"{self.directory}/none", *flags)
            self.assertEqual((2, ""), (code, out), err)
            self.assertIn("no layer of the model can be quantised: 'conv2d_1': ",
                          err)


if __name__ == "__main__":
    unittest.main()
