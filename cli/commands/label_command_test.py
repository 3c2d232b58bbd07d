"""paramd label, as typed: what it writes, who reads it, what it refuses."""

import json
import os
import struct
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

_HEADER = 1024
_CLASSES = 10


def call(*arguments):
    return subprocess.run([paramd.BINARY, *arguments], capture_output=True,
                          text=True, check=False)


def read(path):
    """The header, and of each record (example, label, probabilities)."""
    with open(path, "rb") as file:
        content = file.read()
    header = json.loads(content[:_HEADER])
    form = f"<ii{header['classes']}f"
    records = [(numbers[0], numbers[1], list(numbers[2:]))
               for numbers in struct.iter_unpack(form, content[_HEADER:])]
    return header, records


class LabelCommandTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        # Of 64 examples; those to train on and to test on are the same.
        cls.job = paramd.tiny_job(cls.directory)
        cls.job["epochs"] = 3
        cls.run_dir = os.path.join(cls.directory, "run")
        done = call("run", "--job", cls.write(cls.job), "--run_dir",
                    cls.run_dir)
        assert done.returncode == 0, done.stderr

    @classmethod
    def write(cls, job):
        handle, path = tempfile.mkstemp(suffix=".json", dir=cls.directory)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def out(self):
        return os.path.join(tempfile.mkdtemp(dir=self.directory), "labels")

    def label(self, *flags, job=None):
        path = self.out()
        done = call("label", "--job", self.write(job or self.job),
                    "--checkpoint", self.run_dir, "--to", path, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path, done.stdout

    def with_stages(self, *stages):
        return {**self.job, "input": {**self.job["input"],
                                      "stages": list(stages)}}

    def predictions(self):
        done = call("predict", "--job", self.write(self.job), "--checkpoint",
                    self.run_dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [[float(text) for text in line.split(",")]
                for line in done.stdout.splitlines()[1:]]

    def test_labels_are_what_predict_says(self):
        path, said = self.label()
        header, records = read(path)
        self.assertEqual((header["examples"], header["records"]), (64, 64))
        self.assertIn(f"model: {header['model']}", said)
        for i, (record, predicted) in enumerate(
                zip(records, self.predictions(), strict=True)):
            self.assertEqual(record[0], i)
            self.assertEqual(record[1], predicted.index(max(predicted)))
            for one, other in zip(record[2], predicted, strict=True):
                self.assertAlmostEqual(one, other, delta=1e-7)

    def test_the_unsure_are_left_out_and_the_known_stay(self):
        sure = sorted(max(p) for p in self.predictions())
        threshold = (sure[39] + sure[40]) / 2  # The same four times each.
        _, records = read(self.label(f"--threshold={threshold}")[0])
        for _, _, probabilities in records:
            self.assertGreaterEqual(max(probabilities), threshold)
        self.assertEqual(len(records), 24)
        _, records = read(
            self.label(f"--threshold={threshold}", "--known=10")[0])
        for i in range(10):
            wanted = [0.0] * _CLASSES
            wanted[i % 10] = 1.0
            self.assertEqual(records[i], (i, i % 10, wanted))
        for example, _, probabilities in records[10:]:
            self.assertGreaterEqual(example, 10)
            self.assertGreaterEqual(max(probabilities), threshold)

    def test_each_class_has_as_many_as_was_said(self):
        _, every = read(self.label()[0])
        _, records = read(self.label("--per_class=5")[0])
        labels = [label for _, label, _ in records]
        for label in {label for _, label, _ in every}:
            self.assertEqual(labels.count(label), 5)

    def test_training_reads_them(self):
        path, _ = self.label("--known=32", "--per_class=8",
                             job=self.with_stages("shuffle"))
        header, _ = read(path)
        student = self.with_stages({"relabel": path}, "shuffle")
        student["epochs"] = 1
        run_dir = os.path.join(self.out(), "run")
        done = call("run", "--job", self.write(student), "--run_dir", run_dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(run_dir, "result.json"),
                  encoding="utf-8") as file:
            steps = json.load(file)["global_step"]
        self.assertEqual(int(steps), -(-header["records"] // 8))
        # The same stage says what is labelled: it is read without the file.
        student["input"]["stages"][0] = {"relabel": "/nowhere"}
        again, _ = self.label("--known=32", "--per_class=8", job=student)
        with open(path, "rb") as one, open(again, "rb") as other:
            self.assertEqual(one.read(), other.read())
        # As records of their own, too.
        records = {**student, "input": {"train": {"records": {
            "files": path, "header_bytes": _HEADER, "features": [
                {"name": "example", "type": "int32"},
                {"name": "label", "type": "int32", "classes": _CLASSES},
                {"name": "soft", "dims": [_CLASSES]}]}}}}
        records["model"] = {**student["model"], "input": "soft",
                            "layers": [{"dense": _CLASSES}]}
        done = call("run", "--job", self.write(records), "--run_dir",
                    os.path.join(self.out(), "run"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_soft_labels_are_learned_by_their_divergence(self):
        path, _ = self.label()
        student = self.with_stages("one_hot", {"relabel": path}, "shuffle")
        student["model"] = {**student["model"], "loss": "kl_divergence"}
        done = call("run", "--job", self.write(student), "--run_dir",
                    os.path.join(self.out(), "run"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def csv_job(self, *names, **more):
        """Two classes that a number tells apart, named in this order."""
        path = os.path.join(self.directory, "rows.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write("x,y\n")
            for i in range(64):
                file.write(f"{i % 7 - 3},{'yes' if i % 7 > 3 else 'no'}\n")
        source = {"directory": self.directory, "csv": {
            "files": "rows.csv", "label": "y", "class_names": list(names)}}
        return {**self.job, "epochs": 1,
                "input": {"train": source, "test": source, **more},
                "model": {**self.job["model"], "layers": [{"dense": 2}]}}

    def test_classes_that_are_named_in_another_order_are_other_classes(self):
        job = self.csv_job("no", "yes")
        run_dir = os.path.join(self.out(), "run")
        done = call("run", "--job", self.write(job), "--run_dir", run_dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = self.out()
        done = call("label", "--job", self.write(job), "--checkpoint", run_dir,
                    "--to", path, "--known=8")
        self.assertEqual(done.returncode, 0, done.stderr)
        taught = {"distill": {"teachers": [path]}}
        relabelled = {"stages": [{"relabel": path}, "shuffle"]}
        for names, code in ((("no", "yes"), 0), (("yes", "no"), 2)):
            for student in ({**self.csv_job(*names), **taught},
                            self.csv_job(*names, **relabelled)):
                done = call("run", "--job", self.write(student), "--run_dir",
                            os.path.join(self.out(), "run"))
                self.assertEqual(done.returncode, code, done.stderr)
                if code == 2:
                    self.assertIn(
                        "is of classes with other names than class_names of "
                        "the input has, or of these in another order",
                        done.stderr)
        turned = self.write(self.csv_job("yes", "no"))
        done = call("label", "--job", turned, "--checkpoint", run_dir, "--to",
                    path, "--known=8")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("they have csv.class_names yes, no, not no, yes",
                      done.stderr)

    def test_what_cannot_be_is_refused_in_a_sentence(self):
        job = self.write(self.job)
        path, _ = self.label()
        few = self.with_stages({"take": 60}, {"relabel": path})
        moved = self.with_stages({"skip": 2}, {"relabel": path})
        some, _ = self.label(job=self.with_stages({"take": 62}))
        moved_file = self.with_stages({"skip": 2}, {"relabel": some})
        other = self.with_stages({"relabel": {"file": path, "model": "abc"}})
        narrow = self.with_stages({"one_hot": {"classes": 12}},
                                  {"relabel": path})
        use = ["--job", job, "--checkpoint", self.run_dir]
        for arguments, sentence in (
                (["label", *use], "missing --to FILE"),
                (["label", "--job", job, "--to", self.out()],
                 "--checkpoint PATH is missing"),
                (["label", *use, "--to", self.out(), "--threshold=2"],
                 "--threshold is a number from 0 to 1, not '2'"),
                (["label", *use, "--to", self.out(), "--threshold=1"],
                 "no example is labelled: the surest prediction is"),
                (["label", *use, "--to", self.out(), "--known=65"],
                 "known is 65, and there are 64 examples"),
                (["label", *use, "--to", self.out(), "--shard=0/2"],
                 "--shard is not for labels"),
                (["run", "--job", self.write(few)],
                 "is of 64 examples, and here are 60"),
                (["run", "--job", self.write(moved)],
                 "is of 64 examples, and here are 62"),
                (["run", "--job", self.write(moved_file)],
                 "is of other examples than these"),
                (["run", "--job", self.write(other)], "not of abc"),
                (["run", "--job", self.write(narrow)],
                 "has 10 classes, and 'label' is float32 12"),
                (["run", "--job", self.write(
                    self.with_stages({"relabel": job}))],
                 "is not what paramd label writes"),
                (["run", "--job", self.write(
                    self.with_stages({"relabel": "/nowhere"}))],
                 "there is no file '/nowhere': paramd label writes it"),
        ):
            if arguments[0] == "run":
                arguments += ["--run_dir", os.path.join(self.out(), "run")]
            done = call(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            said = [line for line in done.stderr.splitlines()
                    if line.startswith("paramd: ")]
            self.assertEqual(len(said), 1, done.stderr)
            self.assertIn(sentence, said[0])


if __name__ == "__main__":
    unittest.main()
