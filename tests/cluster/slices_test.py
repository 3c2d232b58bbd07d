"""Metrics of the examples of which a feature has a value (model.slices)."""

import csv
import json
import math
import os
import random
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

NUMBERS = 4
DEVICES = 4  # Nobody has the last one, and nobody clicks with the one before.
PLACES = 3
TRAIN = 96
TEST = 1200  # Three batches of an evaluation.


def write_log(path, examples, seed):
    """Clicks, of which some are purchases, with a weight each."""
    drawn = random.Random(seed)
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["click", "buy", "worth", "device", "place"]
                     + [f"x{i}" for i in range(NUMBERS)])
        for _ in range(examples):
            x = [drawn.randint(-8, 8) / 8 for _ in range(NUMBERS)]
            device = drawn.randrange(DEVICES - 1)
            place = drawn.randrange(PLACES)
            score = x[0] + x[1] * x[2] - 0.3 * place
            click = int(device < 2 and score + drawn.gauss(0, 0.5) > 0)
            buy = int(x[3] + drawn.gauss(0, 0.5) > 0)
            out.writerow([click, buy, drawn.randint(0, 8) / 4, device, place]
                         + x)


def output(name):
    return {"name": name, "label": name, "loss": "binary_cross_entropy",
            "metrics": ["accuracy", "auc", "normalised_entropy",
                        "calibration"],
            "layers": [{"dense": 4}, "tanh", {"dense": 1}]}


MODEL = {
    "layers": [{"parallel": {"branches": [
        {"input": "x", "layers": [{"dense": 6}, "tanh"]},
        {"input": "place", "layers": [{"embedding": {"width": 2}},
                                      "flatten"]}]}}],
    "outputs": [output("click"), output("buy")],
    "example_weight": "weight", "slices": ["place", "device"]}


def area(scored):
    """Of the weighted pairs, the share that is ranked right."""
    right = pairs = 0
    for score, label, weight in scored:
        for other, its_label, its_weight in scored:
            if label == 1 and its_label == 0:
                pairs += weight * its_weight
                right += weight * its_weight * (
                    1 if other < score else 0.5 if other == score else 0)
    return right / pairs if pairs else None


def measured(scored):
    """By name, of (probability, label, weight) of some examples."""
    nats = sum(-w * math.log(p if y else 1 - p) for p, y, w in scored)
    weights = sum(w for _, _, w in scored)
    positives = sum(w for _, y, w in scored if y)
    share = positives / weights
    known = (-share * math.log(share) - (1 - share) * math.log(1 - share)
             if 0 < share < 1 else None)
    return {
        "loss": nats / len(scored),
        "accuracy": sum(w for p, y, w in scored
                        if (p > 0.5) == bool(y)) / weights,
        "auc": area(scored),
        "calibration": sum(w * p for p, _, w in scored) / positives
                       if positives else None,
        "normalised_entropy": nats / weights / known if known else None,
    }


class SlicesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        for name, examples in (("train", TRAIN), ("test", TEST)):
            write_log(os.path.join(cls.root, f"{name}.csv"), examples,
                      seed=examples)

    def job(self, devices=DEVICES, **model):
        def source(name):
            return {"directory": self.root, "csv": {
                "files": [f"{name}.csv"], "labels": ["click", "buy"],
                "weight": "worth", "features": [
                    {"name": "x",
                     "columns": [f"x{i}" for i in range(NUMBERS)]},
                    {"name": "place", "columns": ["place"],
                     "classes": PLACES},
                    {"name": "device", "columns": ["device"],
                     "classes": devices}]}}

        return {"name": "slices", "epochs": 2, "batch_per_replica": 8,
                "staleness": "sync", "summary": {"every_steps": 1},
                "input": {"train": source("train"), "test": source("test")},
                "model": {**MODEL, **model},
                "optimizer": {"adam": {}, "learning_rate": 0.02}}

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

    def command(self, run, name, *flags):
        return subprocess.run(
            [paramd.BINARY, name, "--job",
             os.path.join(run.directory, "job.json"), "--checkpoint",
             run.run_directory(), *flags],
            check=True, stdout=subprocess.PIPE, text=True,
            cwd=run.directory).stdout

    def found_by_chief(self, run):
        """As paramd evaluate prints them: what is no number is None."""
        def number(value):
            return None if value == "NaN" else value

        return [{"feature": slice_["feature"], "value": slice_["value"],
                 "examples": slice_["examples"],
                 "metrics": {name: number(value) for name, value in
                             [("loss", slice_["loss"]),
                              *slice_["metrics"].items()]}}
                for slice_ in run.result()["evaluation"]["slices"]]

    def test_each_is_what_predictions_of_its_examples_say(self):
        run = self.train(self.job(), "local", "--workers=2", "--servers=2")
        found = self.found_by_chief(run)
        with open(os.path.join(self.root, "test.csv"),
                  encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        predicted = list(csv.DictReader(
            self.command(run, "predict").splitlines()))
        self.assertEqual(len(predicted), TEST)
        self.assertEqual(
            [(one["feature"], one["value"]) for one in found],
            [("device", value) for value in range(DEVICES - 1)]
            + [("place", value) for value in range(PLACES)])
        for one in found:
            here = [i for i, row in enumerate(rows)
                    if int(row[one["feature"]]) == one["value"]]
            self.assertEqual(one["examples"], len(here))
            metrics = one["metrics"]
            loss = 0
            for task in ("click", "buy"):
                wanted = measured([(float(predicted[i][task]),
                                    int(rows[i][task]),
                                    float(rows[i]["worth"])) for i in here])
                loss += wanted["loss"]
                for name, value in wanted.items():
                    said = metrics.pop(f"{task}/{name}")
                    if value is None:
                        self.assertIsNone(said, (one, task, name))
                    else:
                        self.assertAlmostEqual(said, value, places=4,
                                               msg=(one, task, name))
            self.assertAlmostEqual(metrics.pop("loss"), loss, places=4)
            self.assertEqual(metrics, {})

    def test_one_process_and_parts_find_the_bits_of_all_workers(self):
        run = self.train(self.job(), "local", "--workers=2", "--servers=2")
        found = self.found_by_chief(run)
        self.assertIsNone(found[2]["metrics"]["click/auc"])
        whole = json.loads(self.command(run, "evaluate", "--json"))
        self.assertEqual(whole["slices"], found)
        self.assertIn("click/auc", whole["metrics"])
        parts = []
        for i in range(2):
            parts.append(os.path.join(run.directory, f"part-{i}.json"))
            with open(parts[-1], "w", encoding="utf-8") as file:
                file.write(self.command(run, "evaluate", "--json",
                                        f"--shard={i}/2"))
        merged = json.loads(subprocess.check_output(
            [paramd.BINARY, "evaluate", "--merge", "--json", *parts]))
        self.assertEqual(merged, whole)
        text = self.command(run, "evaluate", "--threads=2")
        self.assertIn(f"\ndevice=1, {found[1]['examples']} examples\n  loss ",
                      text)
        summaries = b""
        for path, _, files in os.walk(
                os.path.join(run.run_directory(), "summaries")):
            for name in files:
                with open(os.path.join(path, name), "rb") as file:
                    summaries += file.read()
        self.assertIn(b"evaluation/click/auc/device=1", summaries)

    def test_training_is_the_same_without_them(self):
        sliced = self.train(self.job(), "run")
        job = self.job(slices=[])
        for source in job["input"].values():
            source["csv"]["features"].pop()  # Nothing reads the device.
        plain = self.train(job, "run")
        self.assertTrue(sliced.tensors() == plain.tensors())
        found, wanted = (run.result()["evaluation"] for run in (sliced, plain))
        self.assertEqual(found["metrics"], wanted["metrics"])
        self.assertEqual(found["loss"], wanted["loss"])
        self.assertEqual(wanted.get("slices", []), [])

    def test_a_prediction_needs_what_layers_read_alone(self):
        run = self.train(self.job(), "run")
        wanted = self.command(run, "predict")
        with open(os.path.join(self.root, "test.csv"),
                  encoding="utf-8") as file:
            rows = [line.split(",", 4)[4] for line in file]
        with open(os.path.join(run.directory, "bare.csv"), "w",
                  encoding="utf-8") as file:
            file.writelines(rows)  # Without the device, with the place.
        path = os.path.join(run.directory, "job.json")
        with open(path, encoding="utf-8") as file:
            job = json.load(file)
        job["input"]["test"].update(directory=run.directory)
        job["input"]["test"]["csv"]["files"] = ["bare.csv"]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.assertEqual(self.command(run, "predict"), wanted)

    def test_what_cannot_be_sliced_by_is_one_sentence(self):
        for job, sentence in (
                (self.job(slices=["phone"]),
                 "model.slices names the feature 'phone'; the input has 'x', "),
                (self.job(slices=["click"]),
                 "model.slices names the feature 'click', which is the label"),
                (self.job(slices=["x"]),
                 "model.slices names the feature 'x', which is float32 of 4; "
                 "it needs one whole number for each example"),
                (self.job(slices=["device", "device"]),
                 "model.slices names the feature 'device' twice"),
                (self.job(devices=65),
                 "model.slices names the feature 'device', which has 65 "
                 "values; a slice is of one of at most 64"),
                (self.job(slices=["the device"]),
                 "model.slices[0]: becomes part of the names of metrics")):
            code, run = self.run_job(job, "run")
            self.assertEqual(code, 2, run.output)
            self.assertIn(sentence, run.output)


if __name__ == "__main__":
    unittest.main()
