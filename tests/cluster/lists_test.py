"""Lists of any length: DIN over histories, logistic regression over LIBSVM's lines."""

import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest

from tests.cluster import paramd

# Of one-hot columns, 123 in all, as LIBSVM's a9a has them.
A9A = (5, 8, 6, 16, 7, 14, 6, 5, 2, 3, 2, 5, 2, 42)


class ListsTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = os.path.join(self.directory, "job.json")

    def example(self, name):
        """A job file that reads what this test writes."""
        with open(f"config/examples/{name}.json", encoding="utf-8") as file:
            job = json.load(file)
        for source in ("train", "test"):
            job["input"][source]["directory"] = self.directory
        return job

    def learn(self, job, *command):
        """The run, and its metrics of the test set."""
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = paramd.Run(*command, "--job", self.job)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        metrics = run.result()["evaluation"]["metrics"]
        print(command, metrics)
        return run, metrics

    def write_lines(self, name, count, draw, weights):
        """Lines of indices, with a true weight each."""
        with open(os.path.join(self.directory, name), "w",
                  encoding="utf-8") as file:
            for _ in range(count):
                indices, first = [], 1
                for size in A9A:
                    if draw.random() < 0.95:
                        drawn = min(int(2 * draw.expovariate(1.2)), size - 1)
                        indices.append(first + drawn)
                    first += size
                score = sum(weights[i] for i in indices) - 1
                clicked = draw.random() < 1 / (1 + math.exp(-score))
                file.write(" ".join(["+1" if clicked else "-1",
                                     *(f"{i}:1" for i in indices)]) + "\n")

    def test_ftrl_learns_from_lines_of_libsvm(self):
        draw = random.Random(3)
        weights = [draw.gauss(0, 0.8) for _ in range(sum(A9A) + 1)]
        self.write_lines("a9a", 8000, draw, weights)
        self.write_lines("a9a.t", 2000, draw, weights)
        job = self.example("libsvm_logistic")
        _, lists = self.learn(job, "local", "--servers=2", "--workers=2")
        # 0.915 was seen; by the true weights it is 0.925.
        self.assertGreater(lists["auc"], 0.9)
        self.assertGreater(lists["accuracy"], 0.8)
        # The same model over vectors of zeros and ones.
        for source in ("train", "test"):
            libsvm = job["input"][source]["libsvm"]
            del libsvm["list_length"]
            libsvm["columns"] = 123
        job["model"]["layers"] = [{"dense": 1}]
        _, vectors = self.learn(job, "run")
        self.assertAlmostEqual(vectors["auc"], lists["auc"], delta=0.01)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
    def test_attention_over_a_history_ranks_better_than_its_mean(self):
        best = json.loads(subprocess.check_output(
            [sys.executable, "examples/click_history.py", self.directory,
             "--train=60000", "--test=10000"], text=True))
        job = self.example("din")
        job["model"].update(metrics=["auc", "group_auc", "recall_at_k"],
                            top_k=3)
        run, attention = self.learn(job, "local", "--servers=2", "--workers=2")
        context, history = job["model"]["layers"][0]["parallel"]["branches"]
        items = history[1]
        job["model"]["layers"][0]["parallel"]["branches"] = [
            context, [{"select": {"begin": 2, "count": 1}}, items, "flatten"],
            [{"select": {"begin": 3}}, items, {"bag_pool": "mean"}]]
        # 0.856 and 0.712 were seen, the best possible is 0.883.
        for name in ("auc", "group_auc"):
            self.assertGreater(attention[name], 0.83)
            self.assertLess(attention[name], best[name])
        predicted = subprocess.check_output(
            [paramd.BINARY, "predict", "--job", self.job, "--checkpoint",
             run.run_directory()], text=True).splitlines()[1:]
        self.assertAlmostEqual(
            self.area_of_users([float(line) for line in predicted]),
            attention["group_auc"], places=5)
        # Probabilities may be equal where scores are not.
        self.assertAlmostEqual(
            self.recall_of_users([float(line) for line in predicted], 3),
            attention["recall_at_3"], delta=0.005)
        _, mean = self.learn(job, "run")
        self.assertLess(mean["auc"], attention["auc"] - 0.1)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
    def test_workers_in_sync_mode_learn_what_one_does(self):
        subprocess.check_call(
            [sys.executable, "examples/click_history.py", self.directory,
             "--train=8000", "--test=2000"], stdout=subprocess.DEVNULL)
        job = self.example("din")
        job.update(epochs=1, staleness="sync", batch_per_replica=32)
        runs = []
        for command in (("run", "--set=accumulate=2"),
                        ("local", "--servers=3", "--workers=2")):
            run, metrics = self.learn(job, *command)
            runs.append((run.run_directory(), metrics))
        self.assertEqual(runs[0][1], runs[1][1])
        found = subprocess.check_output(
            [paramd.BINARY, "checkpoint", "diff", *(run for run, _ in runs)],
            text=True)
        self.assertIn("every number is the same", found)

    def users_and_clicks(self):
        with open(os.path.join(self.directory, "test.csv"),
                  encoding="utf-8") as file:
            return [line.split(",")[:2] for line in file][1:]

    def recall_of_users(self, scores, k):
        """recall_at_k of these, by the definition."""
        users = {}
        for (user, click), score in zip(self.users_and_clicks(), scores):
            users.setdefault(user, []).append((score, int(click)))
        recalls = []
        for ranked in users.values():
            clicks = [click for _, click in sorted(ranked, reverse=True)]
            if any(clicks):
                recalls.append(sum(clicks[:k]) / sum(clicks))
        return sum(recalls) / len(recalls)

    def area_of_users(self, scores):
        """group_auc of these, by the definition."""
        rows = self.users_and_clicks()
        self.assertEqual(len(rows), len(scores))
        users = {}
        for (user, click), score in zip(rows, scores):
            users.setdefault(user, ([], []))[int(click)].append(score)
        total = counted = 0
        for below, above in users.values():
            if below and above:
                pairs = [(a > b) + (a == b) / 2 for a in above for b in below]
                size = len(below) + len(above)
                total += size * sum(pairs) / len(pairs)
                counted += size
        return total / counted


if __name__ == "__main__":
    unittest.main()
