"""At the end of a job its workers share the test set, and find what one command
finds that evaluates all of it."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

WORKERS = 3
TESTED = 100200  # 201 batches.


def job(sparse, **settings):
    features = [
        {"name": "ids", "type": "int32", "dims": [3], "classes": 5000},
        {"name": "label", "type": "int32", "classes": 2}]

    def source(examples):
        return {"synthetic": {"examples": examples, "features": features}}

    return {"name": "shared", "batch_per_replica": 16,
            "evaluate_every_epochs": 0,
            "input": {"train": source(960), "test": source(TESTED)},
            "model": {"layers": [{"embedding": {"width": 4, "sparse": sparse}},
                                 "flatten", {"dense": 2}],
                      "loss": "softmax_cross_entropy",
                      "metrics": ["accuracy", "auc", "normalised_entropy",
                                  "calibration"]},
            "optimizer": {"sgd": {}, "learning_rate": 0.1}, **settings}


class SharedEvaluationTest(unittest.TestCase):

    def train(self, settings, *flags):
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        run = paramd.Run("local", "--job", path, *flags, directory=directory)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        return run

    def evaluated(self, run):
        """By the command, from the last checkpoint."""
        said = subprocess.run(
            [paramd.BINARY, "evaluate", "--json", "--job",
             os.path.join(run.directory, "job.json"), "--checkpoint",
             run.run_directory()],
            check=True, stdout=subprocess.PIPE, text=True,
            cwd=run.directory).stdout
        return json.loads(said)

    def parts(self, run, worker):
        return [(int(begin), int(end)) for begin, end in re.findall(
            r"evaluated batches \[(\d+), (\d+)\) of the test set",
            run.log(f"worker-{worker}"))]

    def check(self, run):
        whole = self.evaluated(run)
        shared = run.result()["evaluation"]
        self.assertTrue(shared["final"])
        self.assertEqual(int(shared["examples"]), TESTED)
        self.assertEqual(whole["examples"], TESTED)
        metrics = dict(whole["metrics"])
        self.assertEqual(shared["loss"], metrics.pop("loss"))
        self.assertEqual(shared["metrics"], metrics)
        self.assertIn("auc", metrics)
        self.assertEqual(shared["calibration_buckets"],
                         whole["calibration_buckets"])
        self.check_buckets(whole)

    def check_buckets(self, whole):
        """They have all examples, and add up to the metric."""
        (of_label,) = whole["calibration_buckets"]
        buckets = of_label["buckets"]
        self.assertEqual(sum(b["count"] for b in buckets), TESTED)
        for bucket in buckets:
            self.assertLessEqual(bucket["from"], bucket["predicted"])
            self.assertLessEqual(bucket["predicted"], bucket["to"])
        predicted, observed = (
            sum(b["count"] * b[name] for b in buckets)
            for name in ("predicted", "observed"))
        self.assertAlmostEqual(predicted / observed,
                               whole["metrics"]["calibration"])

    def test_workers_share_and_find_what_one_process_does(self):
        took_part = []  # How many workers, in each run.
        for sparse in (False, True):
            for staleness in ("async", "sync"):
                with self.subTest(sparse=sparse, staleness=staleness):
                    run = self.train(
                        job(sparse, staleness=staleness), "--servers=2",
                        f"--workers={WORKERS}")
                    self.check(run)
                    parts = [self.parts(run, w) for w in range(WORKERS)]
                    took_part.append(sum(part != [] for part in parts))
                    batches = [batch for part in sum(parts, [])
                               for batch in range(*part)]
                    self.assertEqual(sorted(batches), list(range(201)))
        # Parts go to whoever asks: where others have no processor just then,
        # one worker may have asked for all of them.
        self.assertGreater(max(took_part), 1, took_part)

    def test_one_worker_evaluates_all_at_once(self):
        run = self.train(job(False), "--servers=1", "--workers=1")
        self.check(run)
        self.assertEqual(self.parts(run, 0), [])


if __name__ == "__main__":
    unittest.main()
