"""What is seen and shown of a job."""

import os
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.abspath("python"))

import paramd
from paramd.progress import History, Progress


def report(step=120, epochs=1.5, clocks=(7, 4, 90), loss=(0.5, 0.25)):
    """As `paramd status --format=json` writes it: 64-bit numbers are texts. Of the
    last worker nothing is heard any more."""
    states = ["ALIVE"] * (len(clocks) - 1) + ["LOST"]
    members = [{"task": {"type": "PS", "index": 0}, "state": "ALIVE", "clock": "0"}]
    members += [{"task": {"type": "WORKER", "index": index}, "state": state,
                 "clock": str(clock)}
                for index, (clock, state) in enumerate(zip(clocks, states))]
    processes = [{"name": "ps-0", "status": {"server": {}}}, {"name": "worker-2"}]
    processes += [{"name": f"worker-{index}", "status": {"worker": {
        "examples_per_second": 100.0, "loss": value, "pushes": "9"}}}
                  for index, value in enumerate(loss)]
    return {"job": {"global_step": str(step), "epochs_done": epochs, "epochs": 3,
                    "members": members}, "processes": processes}


class Bar:
    """In place of tqdm's."""
    made = []

    def __init__(self, total, **_):
        self.total, self.n, self.said, self.is_open = total, 0, {}, True
        Bar.made.append(self)

    def set_postfix(self, refresh, **said):
        self.said = said

    def refresh(self):
        pass

    def close(self):
        self.is_open = False


def with_tqdm():
    auto = types.ModuleType("tqdm.auto")
    auto.tqdm = Bar
    Bar.made.clear()
    return mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"),
                                         "tqdm.auto": auto})


class HistoryTest(unittest.TestCase):

    def test_a_sample_is_of_those_who_live(self):
        history = History()
        history.add(report(), 10.0)
        sample = history.add(report(step=200), 12.5)
        self.assertEqual((sample.seconds, sample.step, sample.epochs), (2.5, 200, 1.5))
        self.assertEqual(sample.rate, 200)
        self.assertEqual(sample.loss, 0.375)
        self.assertEqual(sample.staleness, 3)
        self.assertEqual(len(history), 2)

    def test_without_a_chief_or_workers_nothing_is_invented(self):
        history = History()
        self.assertIsNone(history.add({"job_error": "refused"}, 1.0))
        self.assertEqual(history, [])
        sample = history.add(report(clocks=(5,), loss=()), 2.0)
        self.assertIsNone(sample.loss)
        self.assertEqual((sample.rate, sample.staleness), (0, 0))

    def test_a_plot_needs_samples_and_matplotlib(self):
        history = History()
        with self.assertRaisesRegex(paramd.Error, "nothing was seen"):
            history.plot()
        history.add(report(), 1.0)
        with mock.patch.dict(sys.modules, {"matplotlib.pyplot": None,
                                           "matplotlib": None}):
            with self.assertRaisesRegex(paramd.Error, "pip install matplotlib"):
                history.plot()


class ProgressTest(unittest.TestCase):

    def test_a_bar_is_full_when_the_job_has_finished(self):
        history = History()
        with with_tqdm():
            progress = Progress(report, history, show=True)
        progress.look()
        progress.look()  # Too early for another.
        self.assertEqual(len(history), 1)
        (bar,) = Bar.made
        self.assertEqual((bar.n, bar.total), (1.5, 3))
        self.assertEqual(bar.said, {"step": 120, "loss": "0.375", "rate": "200/s",
                                    "staleness": 3})
        progress.close(finished=True)
        self.assertEqual((bar.n, bar.is_open), (3, False))

    def test_a_job_that_failed_leaves_the_bar_as_it_is(self):
        with with_tqdm():
            progress = Progress(report, History(), show=True)
        progress.look()
        progress.close(finished=False)
        self.assertEqual((Bar.made[0].n, Bar.made[0].is_open), (1.5, False))

    def test_what_can_not_be_reached_is_asked_later(self):
        def status():
            raise paramd.Unavailable("not yet")

        history = History()
        progress = Progress(status, history, show=False)
        progress.look()
        self.assertEqual(history, [])
        progress.close(finished=True)

    def test_where_nobody_looks_samples_are_kept_all_the_same(self):
        history = History()
        with with_tqdm(), mock.patch("sys.stderr.isatty", return_value=False,
                                     create=True):
            progress = Progress(report, history)
        progress.look()
        self.assertEqual((len(history), Bar.made), (1, []))

    def test_a_bar_that_was_asked_for_needs_tqdm(self):
        with mock.patch.dict(sys.modules, {"tqdm.auto": None, "tqdm": None}):
            Progress(report, History(), show=None)
            with self.assertRaisesRegex(paramd.Error, "pip install tqdm"):
                Progress(report, History(), show=True)


if __name__ == "__main__":
    unittest.main()
