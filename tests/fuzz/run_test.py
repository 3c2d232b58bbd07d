"""Every fuzz target has a corpus and a row in the list, and crashes are seen."""

import re
import unittest

from tests.fuzz import run

LEAST_TARGETS = 15
LEAST_INPUTS = 5
STATS = """#2 DONE
stat::number_of_executed_units: 1234567
stat::average_exec_per_sec:     20576
stat::new_units_added:          17
stat::slowest_unit_time_sec:    0
stat::peak_rss_mb:              66
"""


class OutcomeTest(unittest.TestCase):

    def test_a_run_without_a_crash(self):
        outcome = run.outcome_of(STATS, 0)
        self.assertEqual(run.Outcome(1234567, 20576, 17, 66, ""), outcome)
        self.assertRegex(outcome.line("idx"), r"^idx +1234567 .*no crash$")

    def test_a_crash_names_the_input(self):
        outcome = run.outcome_of(
            "==1== ERROR\nartifact_prefix='x'; Test unit written to /a/idx-crash-1\n"
            + STATS, 77)
        self.assertEqual("CRASH: /a/idx-crash-1", outcome.crash)
        self.assertEqual(1234567, outcome.runs)

    def test_a_program_that_did_not_run_is_no_success(self):
        self.assertIn("exit code 127", run.outcome_of("not found", 127).crash)
        self.assertNotEqual("", run.outcome_of("", 0).crash)


class TargetsTest(unittest.TestCase):

    def setUp(self):
        self.targets = run.targets()

    def test_there_are_many_and_each_has_a_name_of_its_own(self):
        names = [target.name for target in self.targets]
        self.assertGreaterEqual(len(names), LEAST_TARGETS)
        self.assertEqual(len(names), len(set(names)))

    def test_each_has_a_corpus(self):
        for target in self.targets:
            with self.subTest(target.name):
                self.assertGreaterEqual(
                    len(list(target.corpus.iterdir())), LEAST_INPUTS)

    def test_each_has_a_row_in_the_list(self):
        page = (run.ROOT / "tests/fuzz/README.md").read_text(encoding="utf-8")
        self.assertEqual([target.name for target in self.targets],
                         sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)))


if __name__ == "__main__":
    unittest.main()
