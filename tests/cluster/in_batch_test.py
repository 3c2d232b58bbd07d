"""Two towers that learn from the other items of a batch, under each strategy."""

import csv
import json
import os
import random
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

TRAIN = 108  # Of steps of 32, the last has a batch of 8 and one of 4.
TEST = 1200  # Three batches of an evaluation.
KINDS = 4

LAYERS = [
    {"parallel": {"branches": [
        {"input": "user", "layers": [{"embedding": 6}, "flatten",
                                     {"dense": 5}]},
        {"input": "item", "layers": [{"embedding": 6}, "flatten",
                                     {"dense": 5}]}]}},
    {"reshape": {"dims": [2, 5]}}]
MODEL = {"layers": LAYERS, "loss": "in_batch_softmax", "label": "id",
         "sampling_probability": "count", "example_weight": "worth",
         "temperature": 0.5, "metrics": ["accuracy", "top_k"], "top_k": 3}


def write_log(path, examples, seed):
    """Users choose items of their own kind, mostly; some rows weigh nothing."""
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["user", "item", "count", "worth"])
        for _ in range(examples):
            user = draw.randrange(20)
            kind = user % KINDS if draw.random() < 0.9 else draw.randrange(
                KINDS)
            item = kind + KINDS * min(int(draw.expovariate(0.5)), 9)
            out.writerow([f"u{user}", f"i{item}", 1 + 40 // (1 + item),
                          draw.choice([0, 1, 1, 2])])


class InBatchTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        for name, examples in (("train", TRAIN), ("test", TEST)):
            write_log(os.path.join(cls.root, f"{name}.csv"), examples,
                      seed=examples)

    def job(self, model=None, features=None, **settings):
        def source(name):
            return {"directory": self.root, "csv": {
                "files": [f"{name}.csv"], "features": features or [
                    {"name": "user", "columns": ["user"], "hash_buckets": 64},
                    {"name": "item", "columns": ["item"], "hash_buckets": 128},
                    {"name": "id", "columns": ["item"], "hash_keys": True},
                    {"name": "count", "columns": ["count"]},
                    {"name": "worth", "columns": ["worth"]}]}}

        return {"name": "pairs", "epochs": 2, "batch_per_replica": 8,
                "staleness": "sync",
                "input": {"train": source("train"), "test": source("test")},
                "model": {**MODEL, **(model or {})},
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
        for command in (("local", "--workers=4", "--servers=2"),
                        ("local", "--workers=1", "--servers=1",
                         "--replicas=4"),
                        ("run", "--strategy=mirrored", "--replicas=4")):
            # Not assertEqual, which would print them.
            self.assertTrue(weights(*command) == whole, command)
        # A batch of as many examples has more negatives.
        self.assertFalse(
            weights("run", "--strategy=one_device", batch_per_replica=32)
            == whole)

    def test_an_evaluation_is_the_same_whoever_shares_it(self):
        run = self.train(self.job(epochs=8), "local", "--workers=3",
                         "--servers=2")
        metrics = run.result()["evaluation"]["metrics"]
        self.assertEqual(sorted(metrics), ["accuracy", "top_3"])
        self.assertGreater(metrics["accuracy"], 0)
        self.assertGreaterEqual(metrics["top_3"], metrics["accuracy"])
        whole = json.loads(self.command(run, "evaluate", "--json"))
        self.assertEqual(
            whole["metrics"],
            {**metrics, "loss": run.result()["evaluation"]["loss"]})
        parts = []
        for part in range(2):
            parts.append(os.path.join(run.directory, f"part-{part}.json"))
            with open(parts[-1], "w", encoding="utf-8") as file:
                file.write(self.command(run, "evaluate", "--json",
                                        f"--shard={part}/2"))
        merged = subprocess.run(
            [paramd.BINARY, "evaluate", "--merge", *parts, "--json"],
            check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(json.loads(merged)["metrics"], whole["metrics"])

    def test_an_item_may_be_read_and_be_right(self):
        layers = [
            {"parallel": {"branches": [
                {"input": name, "layers": [
                    {"embedding": {"width": 8, "sparse": True,
                                   "capacity": 100000, "name": name}},
                    "flatten"]} for name in ("user", "item")]}},
            {"reshape": {"dims": [2, 8]}}]
        features = [{"name": "user", "columns": ["user"], "hash_keys": True},
                    {"name": "item", "columns": ["item"], "hash_keys": True}]
        job = self.job({"layers": layers, "label": "item",
                        "sampling_probability": "", "example_weight": ""},
                       features)
        run = self.train(job, "local", "--workers=2", "--servers=2")
        lines = self.command(run, "predict").splitlines()
        self.assertEqual(lines[0], "prediction")
        self.assertEqual(len(lines), 1 + TEST)
        with open(os.path.join(self.root, "test.csv"),
                  encoding="utf-8") as file:
            pairs = [tuple(row[:2]) for row in csv.reader(file)][1:]
        # The score of a pair is its own, whatever it is beside.
        scores = {}
        for pair, line in zip(pairs, lines[1:]):
            self.assertEqual(scores.setdefault(pair, line), line)
        self.assertGreater(len(set(scores.values())), 50)

    def test_a_probability_of_zero_is_named_by_file_and_line(self):
        bad = os.path.join(self.root, "bad")
        os.makedirs(bad)
        with open(os.path.join(self.root, "train.csv"),
                  encoding="utf-8") as file:
            lines = file.readlines()
        words = lines[39].split(",")
        words[2] = "0"
        lines[39] = ",".join(words)
        with open(os.path.join(bad, "train.csv"), "w",
                  encoding="utf-8") as file:
            file.writelines(lines)
        job = self.job()
        job["input"]["train"]["directory"] = bad
        code, run = self.run_job(job, "run")
        self.assertEqual(code, 1, run.output)
        self.assertIn("train.csv' line 40: the sampling probability 'count' "
                      "is 0; it must be a finite number above 0", run.output)

    def test_what_does_not_go_together_is_one_sentence(self):
        narrow = [*LAYERS[:1], {"dense": 16}]
        features = [{"name": name, "columns": [name], "hash_buckets": 64}
                    for name in ("user", "item")]
        alone = {"label": "item", "sampling_probability": "",
                 "example_weight": ""}
        for job, sentence in (
                (self.job({"layers": narrow}),
                 "the loss in_batch_softmax needs two vectors of one length"),
                (self.job(alone, features),
                 "the loss in_batch_softmax needs one int64 as the label"),
                (self.job({"label": "sku"}),
                 "the loss reads the feature 'sku'; the input has "),
                (self.job({"sampling_probability": "share"}),
                 "sampling_probability is the feature 'share'; the input has "),
                (self.job({"temperature": 0}),
                 "model.temperature: must be greater than 0"),
                (self.job({"metrics": ["auc"]}),
                 "the metric auc can't be had of the loss in_batch_softmax"),
                (self.job(batch_per_replica=1),
                 "batch_per_replica: must be at least 2 with model.loss"),
                (self.job(pipeline={"stages": 2}),
                 "pipeline: computes parts of a batch by themselves"),
                (self.job(distill={"teachers": ["runs/a"]}),
                 "distill: is for the loss softmax_cross_entropy")):
            code, run = self.run_job(job, "run")
            self.assertEqual(code, 2, run.output)
            self.assertIn(sentence, run.output)


if __name__ == "__main__":
    unittest.main()
