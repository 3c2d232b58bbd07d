"""A job whose embedding has its rows by key, and what it trained."""

import json
import os
import struct
import tempfile
import unittest

from tests.cluster import paramd

KEYS = 100000
WIDTH = 10  # A bucket has 26,214 rows, four elements less than a block can have.
TABLE = "embedding_1/table"


def job(optimizer="adagrad", capacity=KEYS, examples=640, keyed=True,
        policy=(), **settings):
    features = [{"name": "ids", "type": "int64" if keyed else "int32",
                 "dims": [6], "classes": KEYS},
                {"name": "label", "type": "int32", "classes": 4}]
    table = {"width": WIDTH, "sparse": True}
    if keyed:
        table["capacity"] = capacity
    table.update(policy)
    return {
        "name": "keyed",
        "batch_per_replica": 16,
        "input": {"train": {"synthetic": {"examples": examples,
                                          "features": features}},
                  "test": {"synthetic": {"examples": 32,
                                         "features": features}}},
        "model": {"layers": [{"embedding": table}, "flatten", {"dense": 4}],
                  "loss": "softmax_cross_entropy"},
        "optimizer": {optimizer: {}, "learning_rate": 0.1},
        **settings,
    }


def rows_of(tensors, slot=""):
    """The bytes of each key's row in the table, or in a slot of it."""
    keys = tensors[f"{TABLE}/slot:key"]
    used = tensors[f"{TABLE}/slot:used"]
    values = tensors[TABLE + slot]
    size = len(values) // (len(keys) // 8)
    return {key: values[row * size:(row + 1) * size]
            for row, (key, last) in enumerate(zip(
                struct.unpack(f"<{len(keys) // 8}Q", keys),
                struct.unpack(f"<{len(used) // 8}Q", used))) if last}


def by_key(tensors):
    """What was trained, wherever keys have their rows."""
    found = {name: values for name, values in tensors.items()
             if not name.startswith(TABLE)}
    for name in tensors:
        slot = name[len(TABLE):]
        if name.startswith(TABLE) and slot not in ("/slot:key", "/slot:used"):
            found[name] = rows_of(tensors, slot)
    return found


class KeyedCase(unittest.TestCase):

    def start(self, settings, *command):
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        run = paramd.Run(*command, "--job", path)
        run.job = path
        self.addCleanup(run.kill)
        return run

    def train(self, settings, *command):
        run = self.start(settings, *command)
        self.assertEqual(run.wait(), 0, run.output)
        return run

    def resume(self, run, settings, *flags):
        """Goes on with that run of `paramd local`, with other settings."""
        with open(run.job, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        resumed = paramd.Run("local", *flags, "--resume", "--job", run.job,
                             directory=run.directory)
        resumed.job = run.job
        self.addCleanup(resumed.kill)
        return resumed

    def assert_same(self, found, expected, where):
        self.assertEqual(sorted(found), sorted(expected), where)
        for name, values in expected.items():
            # Not assertEqual, which would print megabytes.
            self.assertTrue(found[name] == values, f"{name} {where}")
