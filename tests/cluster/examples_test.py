"""The job files of config/examples learn what docs/models.md says.

Without arguments each is trained for some seconds on a part of its examples;
with the names of some, those are trained whole.
"""

import collections
import json
import math
import os
import sys
import unittest

from tests.cluster import paramd

LICENCES = "/usr/share/common-licenses"

# Examples that are taken, in one epoch, and what the job then reaches on as
# many of the test set: at least so much accuracy, or at most so much loss.
SHORT = {
    "linear_softmax": (6400, "accuracy", 0.72),
    "fashion_mnist": (6400, "accuracy", 0.75),
    "cnn": (4000, "accuracy", 0.70),
    "residual": (2560, "accuracy", 0.65),
    "autoencoder": (6400, "loss", 0.045),
    "gpt": (640, "loss", 3.0),
}
# Of the whole job.
WHOLE = {
    "linear_softmax": ("accuracy", 0.835),
    "fashion_mnist": ("accuracy", 0.88),
    "cnn": ("accuracy", 0.905),
    "residual": ("accuracy", 0.925),
    "autoencoder": ("loss", 0.015),
    "gpt": ("loss", 1.28),
}


def job_of(example):
    with open(f"config/examples/{example}.json", encoding="utf-8") as file:
        return json.load(file)


class ExamplesTest(unittest.TestCase):

    def train(self, example, job=None):
        """The run's evaluation: loss and, of classes, accuracy."""
        needs = LICENCES if example == "gpt" else paramd.DATA
        if not os.path.isdir(needs):
            self.skipTest(f"{needs} is not installed")
        path = os.path.abspath(f"config/examples/{example}.json")
        if job is not None:
            path = os.path.join(os.environ["TEST_TMPDIR"], f"{example}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(job, file)
        run = paramd.Run("run", "--job", path)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        found = run.result()["evaluation"]
        found["accuracy"] = (int(found["correct"]) /
                             max(1, int(found["labels"])))
        print(f"{example}: loss {found['loss']:.4f}, "
              f"accuracy {found['accuracy']:.4f}, "
              f"{run.result()['seconds']:.0f} s", flush=True)
        return found

    def check(self, found, what, bound):
        if what == "loss":
            self.assertLess(found[what], bound)
        else:
            self.assertGreater(found[what], bound)

    @unittest.skipIf(len(sys.argv) > 1, "whole jobs were asked for")
    def test_each_example_learns_in_some_seconds(self):
        for example, (examples, what, bound) in SHORT.items():
            with self.subTest(example=example):
                job = job_of(example)
                job["epochs"] = 1
                job["batch_per_replica"] = min(job["batch_per_replica"], 32)
                job["optimizer"].pop("warmup_steps", None)
                stages = job["input"].get("stages", ["shuffle"])
                job["input"]["stages"] = [{"take": examples}, *stages]
                self.check(self.train(example, job), what, bound)

    @unittest.skipIf(len(sys.argv) == 1, "no whole job was asked for")
    def test_a_whole_job_reaches_what_it_promises(self):
        for example in sys.argv[1:]:
            with self.subTest(example=example):
                found = self.train(example)
                self.check(found, *WHOLE[example])
                if example == "gpt":
                    self.check_beats_trigrams(found["loss"])

    def check_beats_trigrams(self, loss):
        bits = loss / math.log(2)
        files = job_of("gpt")["input"]
        bigram = bits_per_byte(files, 2)
        trigram = bits_per_byte(files, 3)
        print(f"bits per byte: gpt {bits:.3f}, bigrams {bigram:.3f}, "
              f"trigrams {trigram:.3f}", flush=True)
        self.assertLess(trigram, bigram)
        self.assertLess(bits, trigram)


def bits_per_byte(files, n):
    """What an n-gram model of the training text needs for the test text.

    Interpolated with all shorter ones after Witten and Bell (1991).
    """
    counts, contexts, kinds = (collections.Counter() for _ in range(3))
    for name in files["train"]["text"]["files"]:
        text = read(name)
        for k in range(n):
            for i in range(k, len(text)):
                gram = text[i - k:i + 1]
                kinds[gram[:-1]] += gram not in counts
                counts[gram] += 1
                contexts[gram[:-1]] += 1
    text = read(files["test"]["text"]["files"])
    bits = 0
    for i in range(1, len(text)):
        probability = 1 / 256
        for k in range(min(n, i + 1)):
            gram = text[i - k:i + 1]
            seen, new = contexts[gram[:-1]], kinds[gram[:-1]]
            if seen > 0:
                probability = ((counts[gram] + new * probability) /
                               (seen + new))
        bits -= math.log2(probability)
    return bits / (len(text) - 1)


def read(name):
    with open(os.path.join(LICENCES, name), "rb") as file:
        return file.read()


if __name__ == "__main__":
    unittest.main()
