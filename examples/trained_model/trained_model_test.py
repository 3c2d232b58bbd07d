"""The example's model, trained, evaluated and used."""

import csv
import json
import math
import os
import random
import subprocess
import tempfile
import unittest

BINARY = os.path.abspath("examples/trained_model/poisson")
EXAMPLES, WEIGHTS, BIAS = 400, (0.8, -0.5, 0.3), 0.4


def expected(x):
    return math.exp(sum(w * value for w, value in zip(WEIGHTS, x)) + BIAS)


class TrainedModelTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = directory.name
        draw = random.Random(1)
        cls.rows = [[draw.uniform(-1, 1) for _ in WEIGHTS]
                    for _ in range(EXAMPLES)]
        cls.write([[*x, expected(x)] for x in cls.rows], "counts.csv")

    @classmethod
    def write(cls, rows, name):
        with open(f"{cls.directory}/{name}", "w", encoding="utf-8") as file:
            csv.writer(file).writerows([["x", "y", "z", "count"], *rows])

    def job(self, name, counts="counts.csv", label="count", stages=()):
        job = {"name": name, "epochs": 30, "batch_per_replica": 20, "seed": 1,
               "log_level": "error", "model": {"custom": True},
               "optimizer": {"sgd": {}, "learning_rate": 0.2},
               "run_dir": f"{self.directory}/{name}",
               "input": {"train": {"csv": {"files": f"{self.directory}/{counts}",
                                           "label": label,
                                           "columns": ["x", "y", "z"]}},
                         "stages": list(stages)}}
        path = f"{self.directory}/{name}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def run_binary(self, *words):
        return subprocess.run([BINARY, *words], capture_output=True, text=True,
                              cwd=self.directory, check=False)

    def train(self, *words):
        trained = self.run_binary(*words)
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)

    def predictions(self, name):
        said = self.run_binary("predict", f"--job={name}.json",
                               f"--checkpoint={name}", )
        self.assertEqual(said.returncode, 0, said.stderr)
        return [float(line.split(",")[-1]) for line in
                said.stdout.splitlines()[1:]]

    def test_its_input_passes_a_map_that_the_program_brings(self):
        self.write([[*map(math.expm1, x), expected(x)] for x in self.rows],
                   "exponents.csv")
        self.train("run", "--job", self.job(
            "mapped", "exponents.csv",
            stages=["shuffle", {"map": "log1p"}]))
        for x, rate in zip(self.rows, self.predictions("mapped")):
            self.assertAlmostEqual(rate / expected(x), 1, delta=0.02)
        other = self.run_binary("config", "check", "--job", self.job(
            "unknown", stages=[{"map": "log2p"}]))
        self.assertEqual(other.returncode, 2, other.stdout + other.stderr)
        self.assertIn("this program has no map 'log2p' ('log1p')",
                      other.stdout + other.stderr)

    def test_it_trains_and_predicts_in_one_process(self):
        self.train("run", "--job", self.job("alone"))
        found = self.predictions("alone")
        self.assertEqual(len(found), EXAMPLES)
        for x, rate in zip(self.rows, found):
            self.assertAlmostEqual(rate / expected(x), 1, delta=0.02)

    def test_it_trains_in_a_cluster_of_processes(self):
        self.train("local", "--job", self.job("cluster"), "--servers=2", "--workers=2")
        said = self.run_binary("evaluate", "--job=cluster.json",
                               "--checkpoint=cluster", "--json")
        self.assertEqual(said.returncode, 0, said.stderr)
        best = sum(expected(x) * (1 - math.log(expected(x))) for x in self.rows)
        self.assertAlmostEqual(json.loads(said.stdout)["metrics"]["loss"],
                               best / EXAMPLES, delta=1e-3)

    def test_replicas_have_the_weights_of_one_that_accumulates(self):
        self.train("run", "--job", self.job("accumulated"), "--epochs=3",
                   "--strategy=one_device", "--accumulate=3")
        expected = self.predictions("accumulated")
        for strategy in ("mirrored", "central_storage", "parameter_server"):
            with self.subTest(strategy=strategy):
                self.train("run", "--job", self.job(strategy), "--epochs=3",
                           f"--strategy={strategy}", "--replicas=3",
                           "--staleness=sync")
                self.assertEqual(self.predictions(strategy), expected)

    def test_what_does_not_fit_is_one_sentence(self):
        said = self.run_binary("run", "--job", self.job("unfit", label=""))
        self.assertEqual(said.returncode, 2)
        self.assertIn("Poisson regression wants 'features', and counts",
                      said.stderr)
        self.write([[*x, -1] for x in self.rows], "negative.csv")
        said = self.run_binary("run", "--job",
                               self.job("negative", counts="negative.csv"))
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("is -1; it is a count", said.stderr)


if __name__ == "__main__":
    unittest.main()
