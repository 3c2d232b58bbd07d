"""The click log of examples/click_log.py, learned by config/examples/clicks*.json."""

import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

from tests.cluster import paramd


def numpy_of(integers):
    """The int64 of these bytes."""
    numpy = importlib.import_module("numpy")
    return numpy.frombuffer(integers, "<i8")


@unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
class ClicksTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def write_log(self, *flags):
        """The best AUC."""
        best = subprocess.check_output(
            [sys.executable, "examples/click_log.py", self.directory,
             "--train=60000", "--test=10000", *flags], text=True)
        return json.loads(best)["auc"]

    def learn(self, example, *command, metric="auc"):
        """The AUC that the job file of this name reaches."""
        with open(f"config/examples/{example}.json", encoding="utf-8") as file:
            job = json.load(file)
        for source in ("train", "test"):
            job["input"][source]["directory"] = self.directory
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = paramd.Run(*command, "--job", path)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        self.metrics = run.result()["evaluation"]["metrics"]
        auc = self.metrics[metric]
        print(f"{example}: auc {auc:.4f}")
        self.trained, self.job = run.run_directory(), path
        return auc

    def test_workers_rank_the_clicks_of_a_log(self):
        best = self.write_log()
        auc = self.learn("clicks", "local", "--servers=2", "--workers=2")
        # 0.769 was seen; of 400,000 examples the job learns 0.799.
        self.assertGreater(auc, 0.75)
        self.assertLess(auc, best)

    def test_keys_that_nobody_knew_before_rank_them_as_well(self):
        self.write_log()
        hashed = self.learn("clicks", "run")
        keyed = self.learn("clicks_keyed", "local", "--servers=2",
                           "--workers=2")
        self.assertGreater(keyed, 0.75)
        # Workers of async mode do not do what one does.
        self.assertAlmostEqual(keyed, hashed, delta=0.01)
        self.check_report()

    def check_report(self):
        """What is said of the table is what its tensors have."""
        table = "embedding_1/table"
        report = json.loads(subprocess.check_output(
            [paramd.BINARY, "checkpoint", "inspect", self.trained,
             "--table", table, "--format=json"], text=True))
        newest = paramd.checkpoints(self.trained)[-1]
        used = numpy_of(paramd.tensors(os.path.join(
            self.trained, "checkpoints", newest))[f"{table}/slot:used"])
        self.assertEqual(report["capacity"], used.size)
        self.assertEqual(report["rows"], (used > 0).sum())
        self.assertEqual(sum(report["ages"].values()), report["rows"])
        norms = [one["norm"] for one in report["norms"]["quantiles"]]
        self.assertEqual(norms, sorted(norms))
        self.assertGreater(norms[-1], 0)

    def test_models_of_interactions_learn_what_a_linear_one_cannot(self):
        best = self.write_log("--keys=20", "--vectors=2")  # 0.866
        linear = self.learn("clicks_logistic", "run")      # 0.784
        self.assertGreater(linear, 0.75)
        for example, at_least in [("clicks_deepfm", 0.845),  # 0.859
                                  ("clicks_dlrm", 0.84),     # 0.854
                                  ("clicks_dcn", 0.84)]:     # 0.855
            auc = self.learn(example, "run")
            self.assertGreater(auc, at_least)
            self.assertGreater(auc, linear)
            self.assertLess(auc, best)

    def test_numbers_beside_keys_say_more_than_keys_alone(self):
        best = self.write_log("--criteo", "--keys=100")
        crossed = self.learn("criteo_dcn", "local", "--servers=2", "--workers=2")
        # 0.896 was seen of one process.
        self.assertGreater(crossed, 0.86)
        self.assertLess(crossed, best)
        auc = self.learn("criteo_dlrm", "local", "--servers=2", "--workers=2")
        # 0.875 was seen of one process.
        self.assertGreater(auc, 0.84)
        self.assertLess(auc, best)
        predicted = subprocess.check_output(
            [paramd.BINARY, "predict", "--job", self.job,
             "--checkpoint", self.trained], text=True).splitlines()[1:]
        self.assertEqual(len(predicted), 10000)
        # The same without its numbers.
        with open(self.job, encoding="utf-8") as file:
            job = json.load(file)
        for source in ("train", "test"):
            job["input"][source]["csv"]["features"].pop(0)
        job["input"]["stages"].pop()
        layers = job["model"]["layers"]
        layers[0]["parallel"]["branches"].pop(0)
        layers[:3] = [
            layers[0]["parallel"]["branches"][0]["layers"][0],
            {"parallel": {"branches": [["flatten"], ["dot_interaction"]]}}]
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        run = paramd.Run("run", "--job", self.job)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        alone = run.result()["evaluation"]["metrics"]["auc"]
        print(f"without numbers: auc {alone:.4f}")
        self.assertGreater(auc, alone + 0.05)

    def test_of_a_log_whose_truth_moves_the_newest_part_says_most(self):
        best = self.write_log("--keys=20", "--drift=1")
        path = os.path.join(self.directory, "train.csv")
        with open(path, encoding="utf-8") as file:
            names, *rows = file
        learned = {}
        for half, part in (("old", rows[:20000]), ("new", rows[-20000:])):
            with open(path, "w", encoding="utf-8") as file:
                file.writelines([names, *part])
            learned[half] = self.learn("clicks_logistic", "run")
            self.assertLess(learned[half], best)
        self.assertGreater(learned["new"], learned["old"] + 0.05)

    def test_clicks_that_come_later_are_those_of_the_log(self):
        self.write_log("--delay=100")
        rows = {}
        clicked, behind = {}, []
        with open(os.path.join(self.directory, "train_events.txt"),
                  encoding="utf-8") as file:
            for place, line in enumerate(file):
                key, value = line.rstrip("\n").split(":", 1)
                if value == "click,":
                    self.assertNotIn(key, clicked)
                    clicked[key] = place
                    behind.append(place - rows[key][0])
                else:
                    rows[key] = place, value
        with open(os.path.join(self.directory, "train.csv"),
                  encoding="utf-8") as file:
            labelled = [line.rstrip("\n") for line in file][1:]
        self.assertEqual(len(rows), len(labelled))
        for number, row in enumerate(labelled):
            click, fields = row.split(",", 1)
            self.assertEqual(rows[str(number)][1], "0," + fields)
            self.assertEqual(str(number) in clicked, click == "1")
        with open(os.path.join(self.directory, "best.json"),
                  encoding="utf-8") as file:
            median, most, nearly_all = json.load(file)["messages_to_click"]
        for window, share in ((median, 0.5), (most, 0.9), (nearly_all, 0.99)):
            within = sum(one <= window for one in behind) / len(behind)
            self.assertAlmostEqual(within, share, delta=0.01)

    def test_a_mixture_of_experts_learns_clicks_and_what_is_bought(self):
        self.write_log("--keys=100", "--buys")
        with open(os.path.join(self.directory, "best.json"),
                  encoding="utf-8") as file:
            best = json.load(file)
        self.learn("mmoe", "local", "--servers=2", "--workers=2",
                   metric="click/auc")
        for task, possible, at_least in (("click", best["auc"], 0.8),
                                         ("buy", best["buy_auc"], 0.82)):
            auc = self.metrics[f"{task}/auc"]
            print(f"{task}: auc {auc:.4f} of {possible:.4f}")
            self.assertGreater(auc, at_least)
            self.assertLess(auc, possible)

    def test_vectors_of_users_and_items_give_what_the_model_predicts(self):
        best = self.write_log("--keys=20", "--vectors=2")  # 0.866
        auc = self.learn("two_tower", "local", "--servers=2", "--workers=2")
        # 0.851 was seen of one process; logistic regression reaches 0.784.
        self.assertGreater(auc, 0.82)
        self.assertLess(auc, best)
        export = os.path.join(self.directory, "towers")
        subprocess.check_call([paramd.BINARY, "checkpoint", "export",
                               self.trained, "--to", export])
        predicted = subprocess.check_output(
            [paramd.BINARY, "predict", "--job", self.job,
             "--checkpoint", self.trained], text=True).splitlines()[1:]
        example = importlib.import_module("examples.retrieve_items")
        towers = example.Towers(export)
        users, items = example.read_log(
            os.path.join(self.directory, "test.csv"))
        scores = (towers.vectors(0, users) * towers.vectors(1, items)).sum(1)
        self.assertEqual(len(predicted), len(scores))
        for prediction, score in zip(predicted, scores):
            self.assertAlmostEqual(float(prediction),
                                   1 / (1 + math.exp(-score)), places=5)
        found = subprocess.check_output(
            [sys.executable, "examples/retrieve_items.py", export,
             self.directory, "--users=1", "--count=3"], text=True)
        self.assertEqual(found.count(","), 2, found)
        self.check_best(found, towers, users[0], set(items))

    def check_best(self, found, towers, user, items):
        """That no item scores higher than the first that was found."""
        line = found.split(": ")
        self.assertEqual(line[0], "user " + " ".join(user))
        first = tuple(line[1].split(",")[0].split()[:-1])
        items = sorted(items)
        scores = (towers.vectors(1, items) @ towers.vectors(0, [user])[0])
        self.assertIn(first, items)
        self.assertAlmostEqual(scores[items.index(first)], max(scores),
                               places=4)


if __name__ == "__main__":
    unittest.main()
