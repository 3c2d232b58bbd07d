"""The log of examples/choice_log.py, learned by config/examples/retrieval.json."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

from tests.cluster import paramd


@unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
class RetrievalTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def job(self):
        with open("config/examples/retrieval.json", encoding="utf-8") as file:
            job = json.load(file)
        for source in ("train", "test"):
            job["input"][source]["directory"] = self.directory
        return job

    def export(self, job, name, *command):
        """What the job learns, as it is exported."""
        path = os.path.join(self.directory, f"{name}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = paramd.Run(*command, "--job", path)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        self.metrics = run.result()["evaluation"]["metrics"]
        self.trained, self.path = run.run_directory(), path
        towers = os.path.join(self.directory, name)
        subprocess.check_call([paramd.BINARY, "checkpoint", "export",
                               self.trained, "--to", towers])
        return towers

    def recall(self, towers):
        """recall@10 over all items, and that of the most popular ones."""
        said = subprocess.check_output(
            [sys.executable, "examples/retrieve_items.py", towers,
             self.directory, "--user", "user", "--item", "item",
             "--recall=10"], text=True)
        print(os.path.basename(towers), said, end="")
        words = said.replace(",", "").split()
        self.assertEqual(words[0], "recall@10")
        return float(words[1]), float(words[-1])

    def test_with_the_correction_towers_find_what_users_choose(self):
        best = json.loads(subprocess.check_output(
            [sys.executable, "examples/choice_log.py", self.directory,
             "--train=60000", "--test=10000", "--users=500", "--items=400"],
            text=True))
        corrected, popular = self.recall(self.export(
            self.job(), "corrected", "local", "--servers=2", "--workers=2"))
        self.assertAlmostEqual(popular, best["of_popular"], places=3)
        self.assertGreater(corrected, popular + 0.05)
        self.assertLess(corrected, best["recall"])
        # Of 500 rows a row's own is more often among ten than by chance.
        self.assertGreater(self.metrics["top_10"], 0.1)
        self.check_predictions(os.path.join(self.directory, "corrected"))
        # Without it, items are ranked by how much more often than others a
        # user chooses them, and not by how often.
        job = self.job()
        del job["model"]["sampling_probability"]
        for source in ("train", "test"):
            job["input"][source]["csv"]["features"].pop()
        plain, _ = self.recall(self.export(
            job, "plain", "local", "--servers=2", "--workers=2"))
        self.assertGreater(corrected, plain + 0.05)

    def check_predictions(self, export):
        """That a prediction is the product of the vectors of a pair."""
        predicted = subprocess.check_output(
            [paramd.BINARY, "predict", "--job", self.path,
             "--checkpoint", self.trained], text=True).splitlines()[1:]
        example = importlib.import_module("examples.retrieve_items")
        towers = example.Towers(export, [["user"], ["item"]])
        log = example.read_log(
            os.path.join(self.directory, "test.csv"), towers.fields)
        count = 500

        def scores():
            users, items = (towers.vectors(tower, rows[:count])
                            for tower, rows in enumerate(log))
            return (users * items).sum(1)

        wanted = scores()
        # Each number is a sum over a kernel's rows and a bias, of two layers in
        # each tower, and a score one over a vector: of each term float32 loses
        # 2^-24 of its size at most, here and there.
        kernels = [value for name, value in towers.weights.items()
                   if name.endswith("/kernel")]
        roundings = sum(len(kernel) + 1 for kernel in kernels) + \
            len(towers.weights["user/bias"])
        towers.weights = {name: abs(value)
                          for name, value in towers.weights.items()}
        self.assertEqual(len(predicted), len(log[1]))
        for prediction, score, size in zip(predicted, wanted, scores()):
            self.assertAlmostEqual(float(prediction), float(score),
                                   delta=2 * roundings * 2 ** -24 * size)


if __name__ == "__main__":
    unittest.main()
