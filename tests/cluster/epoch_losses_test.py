"""The training loss of an epoch is over the examples of all workers."""

import json
import os
import tempfile
import unittest

from tests.cluster import input_files as files
from tests.cluster import paramd

EPOCHS = 3
# Half of them are far from what the model says, and stand together: the parts of
# two workers differ.
ROWS = [f"{i % 7},{i % 5},{0 if i < 48 else 100}" for i in range(96)]


class EpochLossesTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        files.write(self.directory, "train.csv", files.csv(ROWS))
        self.job = os.path.join(self.directory, "job.json")
        job = files.job(self.directory,
                        {"csv": {"files": "train.csv", "label": "kind"}})
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump({**job, "batch_per_replica": 4, "epochs": EPOCHS,
                       "portion_batches": 2,
                       "model": {"layers": [{"dense": 1}],
                                 "loss": "mean_squared_error"},
                       # Weights stay what they are.
                       "optimizer": {"sgd": {}, "learning_rate": 1e-20}}, file)

    def train(self, *command):
        run = paramd.Run(*command, "--job", self.job)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        return run

    def losses(self, run):
        training = run.result()["training"]
        self.assertEqual([epoch["epoch"] for epoch in training],
                         list(range(1, EPOCHS + 1)))
        for epoch in training:
            self.assertEqual(int(epoch["examples"]), len(ROWS), training)
        return [epoch["loss"] for epoch in training]

    def test_every_strategy_says_the_same(self):
        alone = self.losses(self.train("run", "--strategy=one_device"))
        self.assertAlmostEqual(alone[0] / alone[2], 1, places=6)
        for command in (
                ["run", "--strategy=mirrored", "--replicas=2"],
                ["local", "--servers=1", "--workers=2"],
                ["local", "--servers=1", "--workers=2", "--staleness=sync"],
                ["local", "--strategy=multi_worker_mirrored", "--workers=2"]):
            with self.subTest(command=command):
                for found, wanted in zip(self.losses(self.train(*command)),
                                         alone):
                    self.assertAlmostEqual(found / wanted, 1, places=6)

    def test_the_log_says_it(self):
        run = self.train("local", "--servers=1", "--workers=2")
        log = run.log("worker-0")
        for epoch in range(1, EPOCHS + 1):
            self.assertRegex(log, f"epoch {epoch} was trained with a loss of "
                                  r"[0-9.]+.* over 96 examples")


if __name__ == "__main__":
    unittest.main()
