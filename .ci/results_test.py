"""What ./test.sh counts, on result files made for the purpose."""

import importlib.util
import io
import json
import os
import pathlib
import tempfile
import unittest

_SPEC = importlib.util.spec_from_file_location("results", ".ci/results.py")
results = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(results)

PASSED = '<testcase classname="S" name="A"/>'
FAILED = '<testcase classname="S" name="B"><failure message="no"/></testcase>'
SKIPPED = ('<testcase classname="S" name="C"><skipped message="no&#10;GPU"/>'
           '</testcase>')


class ResultsTest(unittest.TestCase):

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)
        self.addCleanup(self._folder.cleanup)
        self.events = []

    def add_result(self, label, cases, status="PASSED", shard=1, attempt=1):
        path = self.folder / f"{len(self.events)} %.xml"
        path.write_text(f"<testsuites><testsuite>{cases}</testsuite>"
                        "</testsuites>")
        self.events.append({
            "id": {"testResult": {"label": label, "shard": shard,
                                  "attempt": attempt}},
            "testResult": {"status": status, "testActionOutput": [
                {"name": "test.xml", "uri": path.as_uri()}]}})

    def report(self, *expected, left_out=()):
        (self.folder / "plain.expected").write_text("\n".join(expected))
        (self.folder / "plain.json").write_text(
            "".join(json.dumps(e) + "\n" for e in self.events))
        out = io.StringIO()
        code = results.tally_of(str(self.folder)).report(left_out, out)
        return code, out.getvalue().splitlines()

    def test_cases_are_counted_not_targets(self):
        self.add_result("//a:b", PASSED + PASSED)
        self.add_result("//a:c", PASSED)
        self.assertEqual((0, ["3 passed, 0 failed"]),
                         self.report("//a:b", "//a:c"))

    def test_a_failed_case_is_named_and_fails_the_run(self):
        self.add_result("//a:b", PASSED + FAILED, status="FAILED")
        self.assertEqual(
            (1, ["FAILED: plain //a:b S.B", "1 passed, 1 failed"]),
            self.report("//a:b"))

    def test_a_skipped_case_is_listed_with_its_reason_and_counts_as_neither(
            self):
        self.add_result("//a:b", PASSED + SKIPPED)
        self.assertEqual(
            (0, ["skipped: plain //a:b S.C: no GPU", "1 passed, 0 failed"]),
            self.report("//a:b"))

    def test_a_test_that_was_not_built_failed(self):
        self.add_result("//a:b", PASSED)
        code, lines = self.report("//a:b", "//a:c")
        self.assertEqual(1, code)
        self.assertEqual(
            ["FAILED: plain //a:c was not built or not run",
             "1 passed, 1 failed"], lines)

    def test_a_test_that_fails_without_a_failed_case_failed(self):
        self.add_result("//a:b", PASSED, status="TIMEOUT")
        self.assertEqual(
            (1, ["FAILED: plain //a:b timeout", "1 passed, 1 failed"]),
            self.report("//a:b"))

    def test_a_test_without_a_result_file_failed(self):
        self.add_result("//a:b", PASSED)
        os.remove(self.folder / "0 %.xml")
        self.assertEqual(1, self.report("//a:b")[0])

    def test_a_wanted_test_for_which_there_was_no_time_is_listed(self):
        self.add_result("//a:b", PASSED)
        (self.folder / "asan.wanted").write_text("//a:b\n//a:c\n")
        (self.folder / "asan.json").write_text(
            "".join(json.dumps(e) + "\n" for e in self.events))
        self.assertEqual(
            (0, ["skipped: asan //a:c: the time for it was up",
                 "2 passed, 0 failed"]), self.report("//a:b"))

    def test_nothing_run_is_not_a_success(self):
        self.assertEqual((1, ["0 passed, 0 failed"]), self.report())

    def test_all_shards_count_and_of_each_the_last_attempt(self):
        self.add_result("//a:b", PASSED, shard=1)
        self.add_result("//a:b", FAILED, status="FAILED", shard=2)
        self.add_result("//a:b", PASSED, shard=2, attempt=2)
        self.assertEqual((0, ["2 passed, 0 failed"]), self.report("//a:b"))

    def test_what_is_not_a_test_can_fail_too(self):
        self.add_result("//a:b", PASSED)
        (self.folder / "failed").write_text("clang: the build ended with 1\n")
        self.assertEqual(
            (1, ["FAILED: clang: the build ended with 1",
                 "1 passed, 1 failed"]), self.report("//a:b"))

    def test_what_was_left_out_is_listed_above_the_count(self):
        self.add_result("//a:b", PASSED)
        (self.folder / "skipped").write_text("//a:c plain slow\n")
        code, lines = self.report("//a:b", left_out=["asan: only with --all"])
        self.assertEqual(0, code)
        self.assertEqual(
            ["skipped: plain //a:c: slow tests run with --all, without "
             "sanitizers", "skipped: asan: only with --all",
             "1 passed, 0 failed"], lines)

    def test_a_planted_bug_that_is_found_passed_and_another_failed(self):
        (self.folder / "planted").write_text("01-a\n02-b\n03-c\n")
        (self.folder / "found").write_text("01-a\n03-c\n")
        (self.folder / "skipped").write_text("04-d planted time\n")
        self.assertEqual(
            (1, ["FAILED: planted bug 02-b was not found",
                 "skipped: planted 04-d: the time for it was up",
                 "2 passed, 1 failed"]), self.report())

    def test_an_interrupted_bazels_half_line_is_no_result(self):
        self.assertEqual({}, results.results_of(['{"id": {"testRes']))
