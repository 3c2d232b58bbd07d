"""A small model learns from larger ones, by the formula and under each strategy."""

import array
import gzip
import json
import math
import os
import shutil
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

_CLASSES = 4
_PIXELS = 16
_TEACHER = ["flatten", {"dense": 12}, "batch_norm", "tanh", {"dropout": 0.2},
            {"dense": _CLASSES}]
_STUDENT = ["flatten", {"dense": _CLASSES}]
_TEMPERATURE = 3
_ALPHA = 0.7


def example(i):
    """Pixels and label: the label is a quarter of the image that is bright."""
    label = (i * 7 + i // 5) % _CLASSES
    pixels = bytes((i * 31 + p * 17) % 97 + (150 if p // 4 == label else 0)
                   for p in range(_PIXELS))
    return pixels, label


def write_data(directory, train, test=64):
    """Files of so many examples, and those of the test set."""
    os.makedirs(directory)
    for data_set, indices in (("train", range(train)),
                              ("t10k", range(1000, 1000 + test))):
        examples = [example(i) for i in indices]
        for name, dimensions, content in (
                ("images-idx3", (len(examples), 4, 4),
                 b"".join(pixels for pixels, _ in examples)),
                ("labels-idx1", (len(examples),),
                 bytes(label for _, label in examples))):
            path = os.path.join(directory, f"{data_set}-{name}-ubyte.gz")
            with gzip.open(path, "wb") as file:
                file.write(paramd.idx(dimensions, content))
    return directory


def floats(content):
    values = array.array("f")
    values.frombytes(content)
    return list(values)


def dense(x, kernel, bias):
    width = len(bias)
    return [bias[j] + sum(v * kernel[k * width + j] for k, v in enumerate(x))
            for j in range(width)]


def softmax(z, temperature=1):
    e = [math.exp((v - max(z)) / temperature) for v in z]
    return [v / sum(e) for v in e]


def teacher_says(weights, x):
    """Its outputs, as in an evaluation."""
    h = dense(x, weights["dense_1/kernel"], weights["dense_1/bias"])
    h = [math.tanh(scale * (v - mean) / math.sqrt(variance + 1e-5) + shift)
         for v, mean, variance, scale, shift in zip(h, *(
             weights[f"batch_norm_1/{name}"]
             for name in ("mean", "variance", "scale", "shift")))]
    return dense(h, weights["dense_2/kernel"], weights["dense_2/bias"])


class DistillTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.many = write_data(os.path.join(cls.root, "many"), train=160)
        cls.few = write_data(os.path.join(cls.root, "few"), train=24)
        cls.teachers = []
        for seed in (1, 2):
            run_dir = os.path.join(cls.root, f"teacher-{seed}")
            code, run = cls.run_job(
                cls.job(_TEACHER, cls.many, seed=seed, epochs=4,
                        optimizer={"adam": {}, "learning_rate": 0.02}),
                "run", f"--run_dir={run_dir}")
            assert code == 0, run.output
            cls.teachers.append(run_dir)

    @staticmethod
    def job(layers, data, **settings):
        return {
            "name": "tiny", "batch_per_replica": 24,
            "input": {"format": "idx", "directory": data},
            "model": {"layers": layers, "loss": "softmax_cross_entropy"},
            "optimizer": {"sgd": {}, "learning_rate": 0.5},
            **settings,
        }

    def student(self, layers=_STUDENT, data=None, distill=None, **settings):
        return self.job(layers, data or self.few, distill={
            "teachers": self.teachers, "temperature": _TEMPERATURE,
            "alpha": _ALPHA, **(distill or {})}, **settings)

    @classmethod
    def run_job(cls, job, *command):
        directory = tempfile.mkdtemp(dir=cls.root)
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = paramd.Run(*command, "--job", path, directory=directory)
        return run.wait(), run

    def trained(self, job, *command):
        code, run = self.run_job(job, *command)
        self.assertEqual(code, 0, run.output)
        return run

    @staticmethod
    def newest(run_dir):
        return os.path.join(run_dir, "checkpoints",
                            paramd.checkpoints(run_dir)[-1])

    def taught(self):
        """Of each of the few examples its pixels, label and what it is taught."""
        weights = [{name: floats(content) for name, content
                    in paramd.tensors(self.newest(run_dir)).items()}
                   for run_dir in self.teachers]
        for i in range(24):
            pixels, label = example(i)
            x = [p / 255 for p in pixels]
            said = [softmax(teacher_says(one, x), _TEMPERATURE)
                    for one in weights]
            yield x, label, [sum(p) / len(said) for p in zip(*said)]

    def steps(self):
        """Weights after one step, which is of all the examples, and after six."""
        found = []
        for epochs in (1, 6):
            run = self.trained(self.student(epochs=epochs), "local",
                               "--servers=2", "--workers=1", "--staleness=sync")
            found.append({name: floats(content)
                          for name, content in run.tensors().items()})
        return found

    def test_a_students_steps_are_those_of_the_formula(self):
        first, sixth = self.steps()
        kernel, bias = first["dense_1/kernel"], first["dense_1/bias"]
        examples = list(self.taught())
        for _ in range(5):
            slopes = []
            for x, label, p in examples:
                z = dense(x, kernel, bias)
                hard, soft = softmax(z), softmax(z, _TEMPERATURE)
                slopes.append([
                    ((1 - _ALPHA) * (hard[c] - (c == label)) +
                     _ALPHA * _TEMPERATURE * (soft[c] - p[c])) / len(examples)
                    for c in range(_CLASSES)])
            for c in range(_CLASSES):
                bias[c] -= 0.5 * sum(slope[c] for slope in slopes)
                for k in range(_PIXELS):
                    kernel[k * _CLASSES + c] -= 0.5 * sum(
                        slope[c] * x[k]
                        for slope, (x, _, _) in zip(slopes, examples))
        for found, wanted in ((sixth["dense_1/kernel"], kernel),
                              (sixth["dense_1/bias"], bias)):
            for one, other in zip(found, wanted, strict=True):
                self.assertAlmostEqual(one, other, delta=2e-6)

    def test_a_students_steps_are_those_of_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        first, sixth = self.steps()
        examples = list(self.taught())
        x = torch.tensor([one for one, _, _ in examples])
        labels = torch.tensor([label for _, label, _ in examples])
        p = torch.tensor([one for _, _, one in examples])
        kernel = torch.tensor(first["dense_1/kernel"]).reshape(
            _PIXELS, _CLASSES).requires_grad_()
        bias = torch.tensor(first["dense_1/bias"]).requires_grad_()
        optimizer = torch.optim.SGD([kernel, bias], lr=0.5)
        functional = torch.nn.functional
        for _ in range(5):
            optimizer.zero_grad()
            z = x @ kernel + bias
            soft = functional.kl_div(
                functional.log_softmax(z / _TEMPERATURE, dim=1), p,
                reduction="batchmean")
            loss = ((1 - _ALPHA) * functional.cross_entropy(z, labels) +
                    _ALPHA * _TEMPERATURE ** 2 * soft)
            loss.backward()
            optimizer.step()
        for found, wanted in (
                (sixth["dense_1/kernel"], kernel.detach().flatten().tolist()),
                (sixth["dense_1/bias"], bias.detach().tolist())):
            for one, other in zip(found, wanted, strict=True):
                self.assertAlmostEqual(one, other, delta=1e-5)

    def test_the_evaluation_is_of_the_labels_and_needs_no_teacher(self):
        run = self.trained(self.student(epochs=6), "run")
        job = self.student()
        job["distill"]["teachers"] = ["/nowhere"]
        path = os.path.join(run.directory, "later.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        for command in ("evaluate", "predict"):
            done = subprocess.run(
                [paramd.BINARY, command, "--job", path, "--checkpoint",
                 run.run_directory()], check=False, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)
        # Of the last predictions.
        loss = correct = 0
        rows = done.stdout.splitlines()[1:]
        for i, row in enumerate(rows):
            p = [float(value) for value in row.split(",")]
            label = example(1000 + i)[1]
            loss -= math.log(p[label]) / len(rows)
            correct += p.index(max(p)) == label
        evaluation = run.result()["evaluation"]
        self.assertAlmostEqual(evaluation["loss"], loss, places=5)
        self.assertEqual(int(evaluation["correct"]), correct)

    def test_every_strategy_has_the_same_bits(self):
        layers = ["flatten", {"dense": 8}, "relu", {"dropout": 0.3},
                  {"dense": _CLASSES}]

        def weights(*command, **settings):
            return self.trained(
                self.student(layers=layers, epochs=3,
                             **{"batch_per_replica": 4, **settings}),
                *command).tensors()

        sync = ("local", "--servers=2", "--staleness=sync")
        whole = weights("run", "--strategy=one_device", accumulate=3)
        for command in ((*sync, "--workers=1", "--accumulate=3"),
                        (*sync, "--workers=3"),
                        (*sync, "--workers=1", "--replicas=3"),
                        ("run", "--strategy=central_storage", "--replicas=3"),
                        ("run", "--strategy=mirrored", "--replicas=3")):
            self.assertEqual(weights(*command), whole, command)
        self.assertEqual(
            weights("run", "--strategy=one_device", batch_per_replica=12,
                    pipeline={"stages": 2, "micro_batches": 3}), whole)
        self.assertEqual(
            weights("local", "--strategy=multi_worker_mirrored", "--workers=2"),
            weights("run", "--strategy=mirrored", "--replicas=2"))
        self.trained(self.student(epochs=3, batch_per_replica=4), "local",
                     "--workers=2", "--staleness=async")

    def label(self, run_dir, *flags, data=None, layers=_TEACHER):
        """A file of what the run's model says of the data."""
        directory = tempfile.mkdtemp(dir=self.root)
        job = os.path.join(directory, "job.json")
        with open(job, "w", encoding="utf-8") as file:
            json.dump(self.job(layers, data or self.few), file)
        path = os.path.join(directory, "labels.records")
        done = subprocess.run(
            [paramd.BINARY, "label", "--job", job, "--checkpoint", run_dir,
             "--to", path, *flags], check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return path

    def test_a_file_of_labels_teaches_what_its_model_does(self):
        first, second = (self.label(one) for one in self.teachers)
        for temperature in (1, _TEMPERATURE):
            found = []
            for teachers in (self.teachers, [first, second],
                             [first, self.teachers[1]]):
                tensors = self.trained(
                    self.student(epochs=6, distill={
                        "teachers": teachers, "temperature": temperature}),
                    "run", "--staleness=sync").tensors()
                found.append([value for _, content in sorted(tensors.items())
                              for value in floats(content)])
            for other in found[1:]:
                for one, value in zip(found[0], other, strict=True):
                    self.assertAlmostEqual(one, value, delta=1e-5)

    def test_every_strategy_reads_the_same_labels(self):
        labels = [self.label(one) for one in self.teachers]

        def weights(*command, **settings):
            return self.trained(
                self.student(epochs=3, distill={"teachers": labels},
                             **{"batch_per_replica": 4, **settings}),
                *command).tensors()

        sync = ("local", "--servers=2", "--staleness=sync")
        whole = weights("run", "--strategy=one_device", accumulate=3)
        for command in ((*sync, "--workers=3"),
                        (*sync, "--workers=1", "--replicas=3"),
                        ("run", "--strategy=mirrored", "--replicas=3")):
            self.assertEqual(weights(*command), whole, command)
        layers = ["flatten", {"dense": 8}, "relu", {"dense": _CLASSES}]
        self.assertEqual(
            weights("run", "--strategy=one_device", batch_per_replica=12,
                    model={"layers": layers, "loss": "softmax_cross_entropy"},
                    pipeline={"stages": 2, "micro_batches": 3}),
            weights("run", "--strategy=one_device", accumulate=3,
                    model={"layers": layers, "loss": "softmax_cross_entropy"}))

    def test_labels_that_cannot_teach_are_refused_in_a_sentence(self):
        good = self.label(self.teachers[0])
        damaged = good + ".damaged"
        with open(good, "rb") as file:
            content = bytearray(file.read())
        content[-1] ^= 1
        with open(damaged, "wb") as file:
            file.write(content)
        short = good + ".short"
        with open(short, "wb") as file:
            file.write(content[:-10])
        other = good + ".other"
        with open(other, "wb") as file:
            file.write(b"x" * 4000)
        some = self.label(self.teachers[0], "--per_class", "2")
        wider = os.path.join(self.root, "wide-run")
        self.trained(self.job(["flatten", {"dense": 6}], self.few), "run",
                     f"--run_dir={wider}")
        wide = self.label(wider, layers=["flatten", {"dense": 6}])
        for path, sentence in (
                (damaged, f"'{damaged}' is damaged"),
                (short, f"'{short}' has "),
                (other, f"'{other}' is not what paramd label writes"),
                (self.label(self.teachers[0], data=self.many),
                 "is of 160 examples, and here are 24"),
                (some, f"'{some}' says nothing of "),
                (wide, f"'{wide}' gives 6 values for an example, and this "
                 "model 4"),
                ("/nowhere.records", "there is no file '/nowhere.records'")):
            job = self.student(distill={"teachers": [good, path]})
            for command in (("run",), ("config", "check")):
                code, run = self.run_job(job, *command)
                self.assertEqual(code, 2, run.output)
                self.assertIn(f"distill.teachers: {sentence}"
                              if sentence.startswith("'") else sentence,
                              run.output)

    def test_a_run_goes_on_and_a_checkpoint_is_a_teacher_too(self):
        teachers = [self.newest(one) for one in self.teachers]
        whole = self.trained(
            self.student(epochs=4, distill={"teachers": teachers}),
            "run").tensors()
        run_dir = os.path.join(tempfile.mkdtemp(dir=self.root), "run")
        for epochs in (2, 4):
            self.trained(
                self.student(epochs=epochs, distill={"teachers": teachers}),
                "run", f"--run_dir={run_dir}")
        self.assertEqual(paramd.tensors(self.newest(run_dir)), whole)

    def test_a_run_goes_on_with_the_teacher_that_it_began_with(self):
        directory = tempfile.mkdtemp(dir=self.root)
        teacher = os.path.join(directory, "teacher")
        first, second = self.teachers
        for epochs, run_dir, wanted in ((2, first, 0), (3, first, 0),
                                        (4, second, 2)):
            if os.path.islink(teacher):
                os.remove(teacher)
            os.symlink(run_dir, teacher)
            code, run = self.run_job(
                self.student(epochs=epochs, distill={"teachers": [teacher]}),
                "run", f"--run_dir={os.path.join(directory, 'run')}")
            self.assertEqual(code, wanted, run.output)
        self.assertRegex(run.output, r"teachers step \d+ of run .*, not step ")

    def test_a_run_goes_on_with_the_labels_that_it_began_with(self):
        first, second = (self.label(one) for one in self.teachers)
        directory = tempfile.mkdtemp(dir=self.root)
        labels = os.path.join(directory, "labels.records")
        for epochs, file, wanted in ((2, first, 0), (3, first, 0),
                                     (4, second, 2)):
            shutil.copy(file, labels)
            code, run = self.run_job(
                self.student(epochs=epochs, distill={"teachers": [labels]}),
                "run", f"--run_dir={os.path.join(directory, 'run')}")
            self.assertEqual(code, wanted, run.output)
        self.assertIn("other labels (crc32c ", run.output)

    def test_what_cannot_be_taught_is_refused_in_a_sentence(self):
        run_dir = self.teachers[0]
        damaged = os.path.join(self.root, "damaged")
        shutil.copytree(run_dir, damaged)
        shards = [os.path.join(self.newest(damaged), name)
                  for name in os.listdir(self.newest(damaged))
                  if name.endswith(".safetensors")]
        with open(shards[0], "r+b") as file:
            file.seek(-3, os.SEEK_END)
            last = file.read(1)
            file.seek(-3, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        unfinished = os.path.join(self.root, "unfinished")
        shutil.copytree(run_dir, unfinished)
        for name in paramd.checkpoints(unfinished)[1:]:
            shutil.rmtree(os.path.join(unfinished, "checkpoints", name))
        wider = os.path.join(self.root, "wider")
        self.trained(self.job(["flatten", {"dense": 6}], self.many), "run",
                     f"--run_dir={wider}")
        numbers = os.path.join(self.root, "numbers")
        self.trained(self.job(
            ["flatten", {"dense": 1}], self.many,
            input={"format": "idx", "directory": self.many,
                   "stages": [{"cast": {"feature": "label",
                                        "type": "float32"}}]},
            model={"layers": ["flatten", {"dense": 1}],
                   "loss": "mean_squared_error"}), "run",
            f"--run_dir={numbers}")
        own = os.path.join(self.root, "own")
        for distill, changes, sentence in (
                ({"temperature": 0}, {},
                 "distill.temperature: must be greater than 0"),
                ({"temperature": -1}, {},
                 "distill.temperature: must be greater than 0"),
                ({"alpha": 1.5}, {}, "distill.alpha: must be at most 1"),
                ({"alpha": -0.5}, {}, "distill.alpha: must be at least 0"),
                ({"teachers": []}, {}, "distill.teachers: must have"),
                ({}, {"model": {"layers": _STUDENT, "loss": "kl_divergence"}},
                 "distill: is for the loss softmax_cross_entropy, which has "
                 "classes; model.loss is kl_divergence"),
                ({"teachers": ["/nowhere"]}, {}, "'/nowhere'"),
                ({"teachers": [damaged]}, {}, shards[0]),
                ({"teachers": [run_dir, damaged]}, {}, shards[0]),
                ({"teachers": [own]}, {},
                 "a run can't be its own teacher"),
                ({"teachers": [own + "/checkpoints"]}, {},
                 "a run can't be its own teacher"),
                ({"teachers": [wider]}, {},
                 "it gives 6 values for an example, and this model 4"),
                ({"teachers": [numbers]}, {},
                 "read differently from what checkpoint"),
                ({}, {"input": {"format": "idx", "directory": self.few,
                                "stages": [{"resize": {"height": 2,
                                                       "width": 2}}]}},
                 "read differently from what checkpoint"),
        ):
            job = {**self.student(distill=distill), **changes}
            code, run = self.run_job(job, "run", f"--run_dir={own}")
            self.assertEqual(code, 2, f"{distill} {run.output}")
            said = [line for line in run.output.splitlines()
                    if line.startswith("paramd: ")]
            self.assertEqual(len(said), 1, run.output)
            self.assertIn(sentence, said[0])
            code, run = self.run_job(job, "config", "check",
                                     f"--run_dir={own}")
            self.assertEqual(code, 2, f"{distill} {run.output}")
            self.assertIn(sentence, run.output)


if __name__ == "__main__":
    unittest.main()
