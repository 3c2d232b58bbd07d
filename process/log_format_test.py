"""The log of a process that lives, as text and as JSON."""

import json
import re
import unittest

from tests.cluster.paramd import Cluster

# A job as tiny learns nothing, which is a warning.
LEVELS = ("info", "warning")
# Conventions ask for this order.
START = ["starting", "configured", "listening", "recovered", "ready"]


class LogFormatTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(servers=1, workers=1)

    def train(self, *flags):
        """Runs the job to its end. Returns what each task printed."""
        runs = {task: self.start(task, *flags) for task in self.cluster.tasks}
        for run in runs.values():
            self.assertEqual(run.wait(), 0, run.output)
        return {task: run.output.splitlines() for task, run in runs.items()}

    def start(self, task, *flags):
        run = self.cluster.start(task, *flags)
        self.addCleanup(run.kill)
        return run

    def assert_starts_in_order(self, messages):
        self.assertEqual([m for m in messages if m in START], START)
        self.assertLess(messages.index("ready"), messages.index("ended"))

    def test_text_begins_and_ends_as_promised(self):
        line = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} (?:info|warning) "
                          r"(ps|worker)-0 (\w+)")
        for task, lines in self.train().items():
            matches = [line.match(text) for text in lines]
            self.assertNotIn(None, matches, (task, lines))
            self.assert_starts_in_order([m[2] for m in matches])
            self.assertRegex(lines[0], r" version=\S+ commit=\S+$")
            self.assertRegex(lines[1], r" job=tiny digest=[0-9a-f]{16} ")
            self.assertTrue(lines[-1].endswith(" ended exit_code=0"))

    def test_json_is_one_object_a_line_with_types(self):
        for task, lines in self.train("--log_format=json").items():
            events = [json.loads(line) for line in lines]
            for event in events:
                self.assertEqual(list(event)[:4],
                                 ["time", "level", "task", "message"])
                self.assertEqual(event["task"], task)
                self.assertIn(event["level"], LEVELS)
            self.assert_starts_in_order([e["message"] for e in events])
            by_message = {e["message"]: e for e in events}
            self.assertEqual(by_message["listening"]["address"],
                             self.cluster.address(task))
            self.assertEqual(by_message["configured"]["servers"], 1)
            self.assertEqual(by_message["recovered"]["log_entries"], 0)
            self.assertEqual(by_message["ended"]["exit_code"], 0)
            self.assertEqual(events[-1]["message"], "ended")

    def test_json_has_what_a_sentence_says_as_fields(self):
        events = [json.loads(line)
                  for line in self.train("--log_format=json")["worker-0"]]

        def event(beginning):
            return [e for e in events if e["message"].startswith(beginning)][-1]

        evaluation = event("evaluation after epoch")
        self.assertEqual(
            {key: type(evaluation[key]) for key in ("epoch", "accuracy", "loss")},
            {"epoch": int, "accuracy": float, "loss": float})
        self.assertEqual(evaluation["core"], "worker-0")
        committed = event("checkpoint committed")
        self.assertEqual(
            committed["message"], "checkpoint committed at step "
            f"{committed['step']}: {committed['path']}")
        self.assertEqual(event("worker-0 joined")["worker"], 0)

    def test_a_chief_that_starts_again_says_what_it_found(self):
        self.train()
        again = self.train("--log_format=json")
        recovered = [json.loads(line) for line in again["worker-0"]
                     if '"recovered"' in line][0]
        self.assertGreater(recovered["log_entries"], 2)
        self.assertIs(recovered["finished"], True)

    def test_an_error_is_a_line_of_the_log_too(self):
        first = self.start("ps-0")
        first.wait_for("ready")
        second = self.start("ps-0", "--log_format=json")
        self.assertEqual(second.wait(), 2)
        event = json.loads(second.output.splitlines()[-1])
        self.assertEqual(event["level"], "error")
        self.assertIn("Address already in use", event["message"])


if __name__ == "__main__":
    unittest.main()
