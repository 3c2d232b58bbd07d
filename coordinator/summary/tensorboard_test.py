"""Event files of paramd as the real TensorBoard reads them."""

import logging
import os
import subprocess
import unittest

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError as missing:
    raise unittest.SkipTest(f"needs tensorboard from PyPI: {missing}")


class TensorBoardTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        logging.disable(logging.WARNING)  # It says what it purges.
        directory = os.path.join(os.environ["TEST_TMPDIR"], "summaries")
        subprocess.run(
            ["coordinator/summary/write_events", directory], check=True)
        cls.files = sorted(os.listdir(directory))
        cls.events = event_accumulator.EventAccumulator(
            directory, purge_orphaned_data=True)
        cls.events.Reload()

    def scalars(self, tag):
        return [(event.step, event.value)
                for event in self.events.Scalars(tag)]

    def test_each_life_has_a_file(self):
        self.assertEqual(len(self.files), 2)
        self.assertEqual(self.events.file_version, 2.0)

    def test_every_tag_is_there(self):
        self.assertEqual(sorted(self.events.Tags()["scalars"]),
                         ["train/loss", "workers"])

    def test_a_restart_purges_the_stale_tail(self):
        self.assertEqual(self.scalars("train/loss"), [
            (10, 1.0), (20, 1.0), (40, 0.5), (50, 0.5), (60, 0.5)])
        self.assertEqual([step for step, _ in self.scalars("workers")],
                         [10, 20, 40, 50, 60])

    def test_times_are_those_of_writing(self):
        self.assertEqual(
            {event.wall_time for event in self.events.Scalars("workers")},
            {1_700_000_000})


if __name__ == "__main__":
    unittest.main()
