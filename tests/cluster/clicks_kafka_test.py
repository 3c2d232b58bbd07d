"""config/examples/clicks_kafka.json on a topic that has the log of examples/click_log.py."""

import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

from tests.cluster import paramd
from tests.cluster.kafka import Kafka

EXAMPLES = 60000


@unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
class ClicksKafkaTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.kafka = Kafka()
        self.addCleanup(self.kafka.end)

    def write_log(self):
        """What is best, and the rows to train on."""
        best = subprocess.check_output(
            [sys.executable, "examples/click_log.py", self.directory,
             f"--train={EXAMPLES}", "--test=10000", "--keys=100"], text=True)
        with open(os.path.join(self.directory, "train.csv"),
                  encoding="utf-8") as file:
            return json.loads(best), file.read().splitlines()[1:]

    def write_job(self):
        """The example, but for where the topic and the test set are."""
        with open("config/examples/clicks_kafka.json", encoding="utf-8") as file:
            job = json.load(file)
        job["input"]["train"]["kafka"]["brokers"] = self.kafka.brokers
        job["input"]["test"]["directory"] = self.directory
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def clicked(self):
        """The share of the test set."""
        with open(os.path.join(self.directory, "test.csv"),
                  encoding="utf-8") as file:
            clicks = [line.startswith("1,") for line in file][1:]
        return sum(clicks) / len(clicks)

    def test_a_job_learns_from_each_message_once(self):
        best, rows = self.write_log()
        self.assertEqual(len(rows), EXAMPLES)
        self.kafka.produce(rows)
        run = paramd.Run("local", "--servers=2", "--workers=2", "--job",
                         self.write_job(), directory=self.directory)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        result = run.result()
        self.assertEqual(sum(epoch["examples"] for epoch in result["training"]),
                         EXAMPLES)
        self.assertEqual((result["pushes_lost"], result["pushes_doubled"]),
                         (0, 0))
        self.assertEqual(result["warnings"], [])
        evaluation = result["evaluation"]
        self.assertEqual(evaluation["examples"], 10000)
        auc, loss = evaluation["metrics"]["auc"], evaluation["loss"]
        share = self.clicked()
        constant = -(share * math.log(share)
                     + (1 - share) * math.log(1 - share))
        print(f"auc {auc:.4f} of {best['auc']:.4f}, "
              f"loss {loss:.4f} of {constant:.4f}")
        # 0.830 of 0.843, and 0.439 of 0.588, were seen.
        self.assertGreater(auc, 0.81)
        self.assertLess(auc, best["auc"])
        self.assertLess(loss, 0.8 * constant)


if __name__ == "__main__":
    unittest.main()
