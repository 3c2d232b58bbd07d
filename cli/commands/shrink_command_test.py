"""paramd shrink, as typed: a net that was trained with pruned channels becomes smaller
and predicts the same."""

import gzip
import json
import os
import random
import re
import subprocess
import tempfile
import unittest

BINARY = os.path.abspath("cli/paramd")
SIDE = 10
CLASSES = 10


def paramd(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True,
                          check=False)
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


# Of each model the variables whose channels are pruned, and what is left of the
# layers at a half.
MODELS = {
    "dense": (["flatten", {"dense": 64}, "relu", {"dense": 32}, "tanh",
               {"dense": 10}],
              "dense_1/*,dense_2/kernel", {"dense_1": 32, "dense_2": 16}),
    # Padding makes zeros, so the shift behind a pruned filter is pruned with it.
    "cnn": ([{"conv2d": 8}, "relu",
             {"conv2d": {"filters": 16, "bias": False}}, "batch_norm", "relu",
             {"max_pool": 2}, {"conv2d": {"filters": 8, "padding": "valid"}},
             "relu", "flatten", {"dense": 10}],
            "conv2d_*,batch_norm_*",
            {"conv2d_1": 4, "conv2d_2": 8, "conv2d_3": 4}),
}


class ShrinkTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        write_images(cls.directory, "train", 1500, 1)
        write_images(cls.directory, "test", 1000, 2)
        cls.jobs, cls.runs = {}, {}
        for name, (layers, variables, _) in MODELS.items():
            cls.train(name, layers, variables)
        cls.made = 0

    @classmethod
    def train(cls, name, layers, variables):
        job = {
            "name": name, "epochs": 4, "batch_per_replica": 50, "seed": 1,
            "staleness": "sync",
            "input": {"format": "idx", "directory": cls.directory,
                      "train_images": "train-images",
                      "train_labels": "train-labels",
                      "test_images": "test-images",
                      "test_labels": "test-labels"},
            "model": {"layers": layers, "loss": "softmax_cross_entropy"},
            "optimizer": {
                "adam": {}, "learning_rate": 0.003,
                "pruning": [{"variables": variables, "structure": "channels",
                             "sparsity": 0.5, "begin_step": 20, "end_step": 80,
                             "every_steps": 10}]},
        }
        cls.jobs[name] = f"{cls.directory}/{name}.json"
        with open(cls.jobs[name], "w", encoding="utf-8") as file:
            json.dump(job, file)
        cls.runs[name] = f"{cls.directory}/run-{name}"
        code, out, err = paramd("run", "--job", cls.jobs[name], "--run_dir",
                                cls.runs[name])
        assert code == 0, out + err

    def shrink(self, name, *flags, code=0):
        """The directory that is made, and what was printed."""
        type(self).made += 1
        to = f"{self.directory}/made-{self.made}"
        found, out, err = paramd("shrink", self.runs[name], "--job",
                                 self.jobs[name], "--to", to, *flags)
        self.assertEqual(found, code, out + err)
        self.assertEqual(os.path.exists(to), code == 0)
        return to, out + err

    def evaluate(self, job, checkpoint):
        code, out, err = paramd("evaluate", "--job", job, "--checkpoint",
                                checkpoint, "--json")
        self.assertEqual(code, 0, err)
        return json.loads(out)["metrics"]

    def predict(self, job, checkpoint):
        code, out, err = paramd("predict", "--job", job, "--checkpoint",
                                checkpoint)
        self.assertEqual(code, 0, err)
        return [[float(value) for value in line.split(",")]
                for line in out.splitlines()[1:]]

    def test_the_smaller_model_predicts_the_same(self):
        for name, (_, _, left) in MODELS.items():
            with self.subTest(model=name):
                to, said = self.shrink(name)
                for layer, outputs in left.items():
                    self.assertRegex(
                        said, rf"{layer} +{outputs} of {2 * outputs} outputs")
                after, before = map(int, re.search(
                    r"(\d+) parameters, of (\d+)", said).groups())
                self.assertLess(after, 0.6 * before)
                job = f"{to}/job.json"
                was = self.predict(self.jobs[name], self.runs[name])
                now = self.predict(job, to)
                self.assertEqual(len(was), len(now))
                # Probabilities, whose logits are sums of at most some hundred
                # products of the size of ten.
                for one, other in zip(was, now):
                    for a, b in zip(one, other):
                        self.assertAlmostEqual(a, b, delta=1000 * 2 ** -24)
                accuracy = self.evaluate(self.jobs[name],
                                         self.runs[name])["accuracy"]
                self.assertGreater(accuracy, 0.3, "by chance: a tenth")
                # A thousand images, of which one may be on the border.
                self.assertAlmostEqual(self.evaluate(job, to)["accuracy"],
                                       accuracy, delta=0.0015)

    def test_the_result_is_a_checkpoint_like_any_other(self):
        to, _ = self.shrink("cnn")
        job = f"{to}/job.json"
        code, out, err = paramd("checkpoint", "verify", to)
        self.assertEqual(code, 0, out + err)
        quantised = to + "-int8"
        code, out, err = paramd("quantize", to, "--job", job, "--calibrate",
                                "train", "--output", quantised)
        self.assertEqual(code, 0, out + err)
        exported = to + "-exported"
        code, out, err = paramd("checkpoint", "export", to, "--to", exported)
        self.assertEqual(code, 0, out + err)
        # Trained on, with its weights.
        code, out, err = paramd("run", "--job", job, "--epochs", "1",
                                "--run_dir", to + "-tuned")
        self.assertEqual(code, 0, out + err)
        with open(job, encoding="utf-8") as file:
            written = json.load(file)
        self.assertNotIn("pruning", written["optimizer"])
        self.assertEqual(written["warm_start"]["path"], to)

    def test_its_job_begins_with_it_whatever_the_other_began_with(self):
        # Of a file of PyTorch's, and with directories of its own.
        to, _ = self.shrink(
            "dense", "--set", "warm_start.path=/models/base.safetensors",
            "--set", "warm_start.variables=dense_*/kernel",
            "--set", "warm_start.from=linear_*.weight",
            "--set", "warm_start.transpose=dense_*/kernel",
            "--set", "warm_start.allow_missing=*",
            "--set", "summary.directory=/runs/one/summaries",
            "--set", "checkpoint.directory=/runs/one/checkpoints")
        with open(f"{to}/job.json", encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual(written["warm_start"], {"path": to})
        self.assertNotIn("/runs/one", json.dumps(written))

    def test_export_says_how_small_a_pruned_model_is_when_compressed(self):
        to = f"{self.directory}/exported"
        code, out, err = paramd("checkpoint", "export", self.runs["dense"],
                                "--to", to)
        self.assertEqual(code, 0, err)
        found = re.search(r"% of the weights are zero: the files have (\d+) "
                          r"bytes, and (\d+) compressed as gzip -9", out)
        self.assertTrue(found, out)
        size = sum(os.path.getsize(f"{to}/{name}") for name in os.listdir(to))
        self.assertEqual(int(found[1]), size)
        self.assertLess(int(found[2]), size)
        code, out, err = paramd("checkpoint", "export", self.runs["dense"],
                                "--job", self.jobs["dense"], "--format=onnx",
                                "--to", f"{to}.onnx")
        self.assertEqual(code, 0, err)
        found = re.search(r"% of the weights are zero: the file has (\d+) "
                          r"bytes, and (\d+) compressed as gzip -9", out)
        self.assertTrue(found, out)
        self.assertEqual(int(found[1]), os.path.getsize(f"{to}.onnx"))
        with open(f"{to}.onnx", "rb") as file:
            compressed = len(gzip.compress(file.read(), 9))
        self.assertAlmostEqual(int(found[2]), compressed, delta=64)

    def test_what_cannot_be_cut_is_refused_in_a_sentence(self):
        code, out, err = paramd("shrink", self.runs["dense"], "--job",
                                self.jobs["dense"])
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn("missing --to FOLDER", err)
        to, _ = self.shrink("dense")
        code, _, err = paramd("shrink", to, "--job", f"{to}/job.json", "--to",
                              to + "-again")
        self.assertEqual(code, 2)
        self.assertIn("has an output whose weights are all zero", err)
        code, _, err = paramd("shrink", self.runs["dense"], "--job",
                              self.jobs["dense"], "--to", to)
        self.assertEqual(code, 2)
        self.assertIn("exists; a checkpoint is a new directory", err)
        self.train("residual",
                   ["flatten", {"dense": 16},
                    {"residual": {"layers": [{"dense": 16}, "relu"]}},
                    {"dense": 10}], "dense_1/kernel")
        _, said = self.shrink("residual", code=2)
        self.assertEqual(said, "paramd: the 8 pruned outputs of 'dense_1' can't "
                         "be cut: 'residual_1', which reads them, is no layer "
                         "that passes channels on one by one; leave that layer "
                         "out of optimizer.pruning\n")


if __name__ == "__main__":
    unittest.main()
