"""Examples with weights, and models with several outputs, under each strategy."""

import csv
import json
import os
import random
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

FEATURES = 6
TRAIN = 96
TEST = 1200  # Three batches of an evaluation.


def write_log(path, examples, seed):
    """Clicks, of which some are purchases, with a weight each."""
    drawn = random.Random(seed)
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["click", "buy", "worth"]
                     + [f"x{i}" for i in range(FEATURES)])
        for _ in range(examples):
            x = [drawn.randint(-8, 8) / 8 for _ in range(FEATURES)]
            click = int(x[0] + x[1] * x[2] + drawn.gauss(0, 0.5) > 0)
            buy = int(click and x[3] + drawn.gauss(0, 0.5) > 0)
            out.writerow([click, buy, drawn.randint(0, 8) / 4] + x)


def output(name, gate, **more):
    return {"name": name, "label": name, "loss": "binary_cross_entropy",
            "metrics": ["accuracy", "auc", "normalised_entropy",
                        "calibration"],
            "layers": [{"select": {"begin": gate, "count": 1}}, "flatten",
                       {"dense": 4}, "tanh", {"dense": 1}], **more}


LAYERS = [{"dense": 8}, "tanh", {"mixture": {"gates": 2, "experts": [
    [{"dense": 6}, "tanh"], [{"dense": 6}, "tanh"], [{"dense": 6}, "tanh"]]}}]
TWO_TASKS = {"layers": LAYERS, "example_weight": "weight",
             "outputs": [output("click", 0), output("buy", 1, weight=0.5)]}


class TasksTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        for name, examples in (("train", TRAIN), ("test", TEST)):
            write_log(os.path.join(cls.root, f"{name}.csv"), examples,
                      seed=examples)

    def job(self, model=None, **settings):
        def source(name):
            return {"directory": self.root, "csv": {
                "files": [f"{name}.csv"], "labels": ["click", "buy"],
                "weight": "worth"}}

        return {"name": "tasks", "epochs": 2, "batch_per_replica": 8,
                "staleness": "sync",
                "input": {"train": source("train"), "test": source("test")},
                "model": model or TWO_TASKS,
                "optimizer": {"adam": {}, "learning_rate": 0.02}, **settings}

    def run_job(self, job, *command):
        directory = tempfile.mkdtemp(dir=self.root)
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = paramd.Run(*command, "--job", path, directory=directory)
        self.addCleanup(run.kill)
        return run.wait(), run

    def train(self, job, *command):
        code, run = self.run_job(job, *command)
        self.assertEqual(code, 0, run.output)
        return run

    def refused(self, job, *command):
        """What it says; nothing is trained."""
        code, run = self.run_job(job, *command or ("run",))
        self.assertEqual(code, 2, run.output)
        return run.output

    def command(self, run, name, *flags):
        return subprocess.run(
            [paramd.BINARY, name, "--job",
             os.path.join(run.directory, "job.json"), "--checkpoint",
             run.run_directory(), *flags],
            check=True, stdout=subprocess.PIPE, text=True,
            cwd=run.directory).stdout

    def test_each_strategy_gives_the_same_bits(self):
        def weights(*command, **settings):
            return self.train(self.job(**settings), *command).tensors()

        whole = weights("run", "--strategy=one_device", accumulate=4)
        self.assertIn("mixture_1/kernel", whole)
        for command in (("local", "--workers=4", "--servers=2"),
                        ("local", "--workers=1", "--servers=1",
                         "--replicas=4"),
                        ("run", "--strategy=central_storage", "--replicas=4"),
                        ("run", "--strategy=mirrored", "--replicas=4")):
            # Not assertEqual, which would print them.
            self.assertTrue(weights(*command) == whole, command)
        self.assertTrue(
            weights("run", "--strategy=one_device", batch_per_replica=32,
                    pipeline={"stages": 3, "micro_batches": 4}) == whole)
        self.assertTrue(
            weights("local", "--strategy=multi_worker_mirrored", "--workers=2")
            == weights("run", "--strategy=mirrored", "--replicas=2"))
        self.train(self.job(staleness="async"), "local", "--workers=2")

    def test_each_task_is_told_by_name_everywhere(self):
        run = self.train(self.job(checkpoint={
            "keep_best": 1, "best_metric": "auc", "best_output": "buy"}),
            "local", "--workers=2", "--servers=2")
        result = run.result()
        found = result["evaluation"]["metrics"]
        self.assertEqual(
            sorted(found),
            sorted(f"{task}/{metric}" for task in ("click", "buy")
                   for metric in ("loss", "accuracy", "auc",
                                  "normalised_entropy", "calibration")))
        self.assertGreater(found["click/auc"], 0.6)
        self.assertAlmostEqual(
            result["evaluation"]["loss"],
            found["click/loss"] + 0.5 * found["buy/loss"], places=6)
        for epoch in result["training"]:
            trained = epoch["metrics"]
            self.assertAlmostEqual(
                epoch["loss"],
                trained["click/loss"] + 0.5 * trained["buy/loss"], places=6)
            self.assertIn("buy/accuracy", trained)
        # The workers shared it; one process finds the same bits, and so do
        # parts of it.
        whole = json.loads(self.command(run, "evaluate", "--json"))["metrics"]
        self.assertEqual(whole.pop("loss"), result["evaluation"]["loss"])
        self.assertEqual(whole, found)
        parts = []
        for i in range(2):
            parts.append(os.path.join(run.directory, f"part-{i}.json"))
            with open(parts[-1], "w", encoding="utf-8") as file:
                file.write(self.command(run, "evaluate", "--json",
                                        f"--shard={i}/2"))
        merged = json.loads(subprocess.check_output(
            [paramd.BINARY, "evaluate", "--merge", "--json", *parts]))
        self.assertEqual({**whole, "loss": result["evaluation"]["loss"]},
                         merged["metrics"])
        predicted = self.command(run, "predict").splitlines()
        self.assertEqual(predicted[0], "click,buy")
        self.assertEqual(len(predicted), 1 + TEST)
        self.check_auc(predicted[1:], found)

    def check_auc(self, predicted, found):
        """Of the weighted pairs, those that are ranked right."""
        with open(os.path.join(self.root, "test.csv"),
                  encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for place, task in enumerate(("click", "buy")):
            scored = [(float(line.split(",")[place]), int(row[task]),
                       float(row["worth"]))
                      for line, row in zip(predicted, rows)]
            right = pairs = 0
            for score, label, weight in scored:
                if label == 0 or weight == 0:
                    continue
                for other, its_label, its_weight in scored:
                    if its_label == 1:
                        continue
                    pairs += weight * its_weight
                    right += weight * its_weight * (
                        1 if other < score else 0.5 if other == score else 0)
            self.assertAlmostEqual(right / pairs, found[f"{task}/auc"],
                                   places=5)

    def test_a_prediction_needs_neither_labels_nor_weights(self):
        run = self.train(self.job(), "run")
        wanted = self.command(run, "predict")
        with open(os.path.join(self.root, "test.csv"),
                  encoding="utf-8") as file:
            rows = [line.split(",", 3)[3] for line in file]
        with open(os.path.join(run.directory, "bare.csv"), "w",
                  encoding="utf-8") as file:
            file.writelines(rows)
        path = os.path.join(run.directory, "job.json")
        with open(path, encoding="utf-8") as file:
            job = json.load(file)
        job["input"]["test"].update(directory=run.directory)
        job["input"]["test"]["csv"]["files"] = ["bare.csv"]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.assertEqual(self.command(run, "predict"), wanted)

    def test_weights_that_all_are_one_change_no_bit(self):
        one_task = {"layers": [{"dense": 8}, "tanh", {"dense": 1}],
                    "loss": "binary_cross_entropy", "label": "click"}
        job = self.job(one_task)
        for source in job["input"].values():
            source["csv"].update(labels=["click"], weight="",
                                 columns=[f"x{i}" for i in range(FEATURES)])
        plain = self.train(job, "run")
        ones = os.path.join(self.root, "ones")
        os.makedirs(ones)
        for name in ("train", "test"):
            with open(os.path.join(self.root, f"{name}.csv"),
                      encoding="utf-8") as file:
                rows = list(csv.reader(file))
            for row in rows[1:]:
                row[2] = 1
            with open(os.path.join(ones, f"{name}.csv"), "w",
                      encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(rows)
            job["input"][name]["directory"] = ones
            job["input"][name]["csv"]["weight"] = "worth"
        job["model"] = {**one_task, "example_weight": "weight"}
        weighted = self.train(job, "run")
        self.assertEqual(weighted.tensors(), plain.tensors())
        self.assertEqual(weighted.result()["evaluation"]["metrics"],
                         plain.result()["evaluation"]["metrics"])

    def test_a_weight_below_zero_is_named_by_file_and_line(self):
        bad = os.path.join(self.root, "bad")
        os.makedirs(bad)
        with open(os.path.join(self.root, "train.csv"),
                  encoding="utf-8") as file:
            lines = file.readlines()
        for weight, sentence in (
                ("-0.5", "train.csv' line 40: the weight 'weight' is -0.5; it "
                         "must be a finite number from 0 on"),
                ("nan", "train.csv' line 40: column 'worth' needs a number "
                        "that is finite in float32; found 'nan'"),
                ("", "train.csv' line 40: column 'worth' needs a number; "
                     "found ''")):
            words = lines[39].split(",")
            words[2] = weight
            with open(os.path.join(bad, "train.csv"), "w",
                      encoding="utf-8") as file:
                file.writelines(lines[:39] + [",".join(words)] + lines[40:])
            job = self.job()
            job["input"]["train"]["directory"] = bad
            for command in (["run"], ["config", "check"]):
                code, run = self.run_job(job, *command)
                self.assertEqual(code, 1, run.output)
                self.assertIn(sentence, run.output)

    def test_what_does_not_go_together_is_one_sentence(self):
        def model(**more):
            return {**TWO_TASKS, **more}

        click, buy = TWO_TASKS["outputs"]
        for found, sentence in (
                (model(loss="mean_squared_error"),
                 "model.loss: is given by each of model.outputs; leave it out "
                 "here"),
                (model(metrics=["auc"]),
                 "model.metrics: is given by each of model.outputs"),
                (model(outputs=[click, {**buy, "name": "click"}]),
                 'model.outputs[1].name: is "click", as another output is '
                 "called"),
                (model(outputs=[{**click, "name": "a/b"}, buy]),
                 "model.outputs[0].name: names metrics and a column"),
                (model(outputs=[{k: v for k, v in click.items()
                                 if k != "label"}, buy]),
                 "model.outputs[0].label: is missing; give it"),
                (model(outputs=[{**click, "label": "tap"}, buy]),
                 "the output 'click': the loss reads the feature 'tap'; the "
                 "input has "),
                (model(outputs=[click, {**buy, "layers": [{"dense": 2}]}]),
                 "the output 'buy': the loss binary_cross_entropy needs a "
                 "float32 label of one number for each output"),
                (model(example_weight="worth"),
                 "example_weight is the feature 'worth'; the input has ")):
            said = self.refused(self.job(found))
            self.assertIn(sentence, said)
        self.assertIn(
            "checkpoint.best_output: must be one of model.outputs (click, "
            'buy); found "sell"',
            self.refused(self.job(checkpoint={"best_output": "sell"})))
        self.assertIn(
            "distill: is for a model with one output",
            self.refused(self.job(distill={"teachers": ["runs/a"]})))


if __name__ == "__main__":
    unittest.main()
