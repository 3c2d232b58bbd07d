"""Event files of paramd as the real TensorBoard reads them."""

import json
import logging
import os
import re
import subprocess
import sys
import unittest
import urllib.parse
import urllib.request

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError as missing:
    raise unittest.SkipTest(f"needs tensorboard from PyPI: {missing}")

# What write_events wrote, by tag: the first life to step 50, the second one from
# step 30 to step 40.
POINTS = {
    "evaluation/accuracy": [(20, 0.2), (30, 0.2)],
    "staleness/mean": [(10, 0), (20, 0), (30, 0), (40, 0)],
    "train/loss": [(10, 1), (20, 1), (30, 1), (40, 0.5)],
    "workers": [(10, 2), (20, 2), (30, 2), (40, 2)],
}


def written():
    directory = os.path.join(os.environ["TEST_TMPDIR"], "summaries")
    if not os.path.exists(directory):
        subprocess.run(
            ["coordinator/summary/write_events", directory], check=True)
    return directory


def rounded(points):
    return [(step, round(value, 6)) for step, value in points]


class SlowLoaderTest(unittest.TestCase):
    """--load_fast=false."""

    @classmethod
    def setUpClass(cls):
        logging.disable(logging.WARNING)  # It says what it purges.
        cls.files = sorted(os.listdir(written()))
        cls.events = event_accumulator.EventAccumulator(
            written(), purge_orphaned_data=True)
        cls.events.Reload()

    def test_each_life_has_a_file(self):
        self.assertEqual(len(self.files), 2)
        self.assertEqual(self.events.file_version, 2.0)

    def test_every_tag_has_its_points_and_no_stale_tail(self):
        self.assertEqual(POINTS, {
            tag: rounded((event.step, event.value)
                         for event in self.events.Scalars(tag))
            for tag in self.events.Tags()["scalars"]})

    def test_times_are_those_of_writing(self):
        self.assertEqual(
            {event.wall_time for event in self.events.Scalars("workers")},
            {1_700_000_000})


class ServedTest(unittest.TestCase):
    """TensorBoard as it is called, with the fast loader, over its HTTP API."""

    def ask(self, path, **query):
        query = urllib.parse.urlencode(query)
        with urllib.request.urlopen(
                f"{self.address}/data/plugin/scalars/{path}?{query}") as answer:
            return json.load(answer)

    def test_every_tag_has_its_points_and_no_stale_tail(self):
        board = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir", written(),
             "--host", "127.0.0.1", "--port", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(board.stdout.close)
        self.addCleanup(board.wait)
        self.addCleanup(board.terminate)
        for line in board.stdout:
            serving = re.search(r"http://127\.0\.0\.1:\d+", line)
            if serving:
                break
        self.address = serving[0]
        self.assertEqual(POINTS, {
            tag: rounded((step, value) for _, step, value in
                         self.ask("scalars", run=".", tag=tag))
            for tag in self.ask("tags")["."]})


if __name__ == "__main__":
    unittest.main()
