"""A batch of which no example is left changes nothing, whatever the strategy, the
mode and the optimizer: a job is what it is without those batches. Behind a filter
there is none."""

import array
import json
import os
import tempfile
import unittest

from tests.cluster import input_files as files
from tests.cluster import paramd

# With what a step does beside adding its gradient.
OPTIMIZERS = [
    {"sgd": {"momentum": 0.9}, "weight_decay": 0.1},
    {"adam": {}, "weight_decay": 0.1, "decay": "l2"},
    {"adagrad": {}, "weight_decay": 0.1},
    {"adamw": {}},
    {"rmsprop": {"momentum": 0.9}, "weight_decay": 0.1},
    {"ftrl": {}, "weight_decay": 0.1},
    {"adadelta": {}, "weight_decay": 0.1},
    {"lamb": {"weight_decay": 0.1}},
]
OF_ONE = {
    "one_device": ["run", "--strategy=one_device"],
    "central_storage": ["run", "--strategy=central_storage"],
    "mirrored": ["run", "--strategy=mirrored"],
    "async": ["run", "--staleness=async"],
    "bounded": ["run", "--staleness=1"],
    "sync": ["run", "--staleness=sync"],
}
OF_TWO = {
    "central_storage": ["run", "--strategy=central_storage", "--replicas=2"],
    "mirrored": ["run", "--strategy=mirrored", "--replicas=2"],
    "async": ["run", "--staleness=async", "--replicas=2"],
    "sync": ["local", "--servers=2", "--workers=2", "--staleness=sync"],
    "multi_worker_mirrored": ["local", "--strategy=multi_worker_mirrored",
                              "--workers=2"],
}
GOOD = ["1,2,0.5", "-1,1,-1", "2,0,1.5", "0.5,-1,2", "-2,1,0", "1,1,-0.5"]
BAD = "1,none,2"


class EmptiedTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def train(self, command, optimizer, rows, *stages, steps=None, csv=None,
              **more):
        """What a job of batches of one row has trained on them, in order."""
        data = tempfile.mkdtemp(dir=self.directory)
        files.write(data, "train.csv", files.csv(rows))
        path = os.path.join(data, "job.json")
        job = files.job(data, {"csv": {"files": "train.csv", "label": "kind",
                                       **(csv or {})}},
                        [{"prefetch": 2}, *stages], on_error="skip")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**job, "batch_per_replica": 1,
                       "evaluate_every_epochs": 0, "epochs": 2,
                       "model": {"layers": [{"dense": 1}],
                                 "loss": "mean_squared_error"},
                       "optimizer": {**optimizer, "learning_rate": 0.05,
                                     "schedule": "exponential",
                                     "decay_steps": 4}, **more}, file)
        run = paramd.Run(*command, "--job", path)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        if steps is not None:
            self.assertEqual(int(run.result()["global_step"]), steps)
        return run.tensors()

    def check(self, commands, rows, good):
        for optimizer in OPTIMIZERS:
            wanted = None
            for name, command in commands.items():
                with self.subTest(strategy=name, optimizer=optimizer):
                    found = self.train(command, optimizer, rows)
                    if wanted is None:
                        wanted = self.train(command, optimizer, good)
                        self.assertTrue(any(name.endswith("/kernel")
                                            for name in wanted), wanted)
                    self.assertEqual(found, wanted)

    def assert_close(self, found, wanted):
        self.assertEqual(sorted(found), sorted(wanted))
        for name, values in wanted.items():
            for a, b in zip(array.array("f", found[name]),
                            array.array("f", values)):
                self.assertAlmostEqual(a, b, places=5, msg=name)

    def test_one_replica(self):
        rows = [BAD, GOOD[0], GOOD[1], BAD, BAD, GOOD[2], BAD, *GOOD[3:], BAD]
        self.check(OF_ONE, rows, GOOD)

    def test_two_replicas(self):
        rows = [*GOOD[:2], BAD, BAD, *GOOD[2:4], BAD, BAD, BAD, BAD, *GOOD[4:]]
        self.check(OF_TWO, rows, GOOD)

    def test_a_share_without_examples_is_as_one_that_is_not_there(self):
        # In each step one replica has no row: the other one's counts alone.
        rows = [row for i, good in enumerate(GOOD)
                for row in ([good, BAD] if i % 2 else [BAD, good])]
        for optimizer in OPTIMIZERS:
            alone = self.train(OF_ONE["one_device"], optimizer, GOOD)
            for name, command in OF_TWO.items():
                with self.subTest(strategy=name, optimizer=optimizer):
                    self.assertEqual(self.train(command, optimizer, rows),
                                     alone)

    def test_what_a_filter_leaves_out_is_as_what_is_not_there(self):
        rows = [row for i, good in enumerate(GOOD)
                for row in [*["1,1,9"] * (i % 3), good]]
        for commands, steps in ((OF_ONE, 10), (OF_TWO, 6)):
            for name, command in commands.items():
                with self.subTest(strategy=name, steps=steps):
                    self.assertEqual(
                        self.train(command, OPTIMIZERS[1], rows,
                                   {"filter": {"max": 8}}, {"take": 5},
                                   steps=steps),
                        self.train(command, OPTIMIZERS[1], GOOD[:5],
                                   steps=steps))

    def test_an_example_that_is_ignored_is_as_one_that_is_not_there(self):
        model = {"layers": [{"dense": 3}], "loss": "softmax_cross_entropy",
                 "ignore_label": 2}
        good = ["1,2,0", "-1,1,1", "2,0,1", "0.5,-1,0"]
        rows = [row for one in good for row in [one, "3,1,2"]]
        for name, command in OF_ONE.items():
            with self.subTest(strategy=name):
                # A product over two rows may round in another order.
                self.assert_close(
                    self.train(command, OPTIMIZERS[1], rows, model=model,
                               csv={"classes": 3}, batch_per_replica=2),
                    self.train(command, OPTIMIZERS[1], good, model=model,
                               csv={"classes": 3}))
        # Now one of two replicas has all that counts.
        alone = self.train(OF_ONE["one_device"], OPTIMIZERS[1], good,
                           model=model, csv={"classes": 3})
        for name, command in OF_TWO.items():
            with self.subTest(strategy=name, replicas=2):
                self.assertEqual(
                    self.train(command, OPTIMIZERS[1], rows, model=model,
                               csv={"classes": 3}), alone)


if __name__ == "__main__":
    unittest.main()
