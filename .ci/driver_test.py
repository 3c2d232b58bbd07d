"""What ./test.sh counts and chooses, on results and trees made for the purpose."""

import importlib.util
import io
import json
import os
import pathlib
import tempfile
import unittest

_SPEC = importlib.util.spec_from_file_location("driver", ".ci/driver.py")
driver = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(driver)

PASSED = '<testcase classname="S" name="A"/>'
FAILED = ('<testcase classname="S" name="B">'
          '<failure message="s.cc:7&#10;no&#10;more"/></testcase>')
MENDED = '<testcase classname="S" name="B"/>'
SKIPPED = ('<testcase classname="S" name="C">'
           '<skipped message="a/s.cc:8&#10;no GPU&#10;"/></testcase>')


class FakeBuild:
    """Answers each run of tests from what was made ready for it."""

    def __init__(self, folder):
        self.folder = folder
        self.runs = []      # What each run leaves: (events, exit code).
        self.asked = []     # What each was asked: (labels, options).
        self.limit = None
        self.cached = ["--disk_cache=c"]

    def add_run(self, *results, code=0):
        events = []
        for label, cases, *more in results:
            more = more[0] if more else {}
            path = self.folder / f"{len(self.runs)}-{len(events)} %.xml"
            if cases is not None:
                path.write_text("<testsuites><testsuite>" + cases +
                                "</testsuite></testsuites>")
            events.append(json.dumps({
                "id": {"testResult": {"label": label,
                                      "shard": more.get("shard", 1),
                                      "attempt": more.get("attempt", 1)}},
                "testResult": {
                    "status": more.get("status",
                                       "FAILED" if "failure" in (cases or "")
                                       else "PASSED"),
                    "testActionOutput": [
                        {"name": "test.xml", "uri": path.as_uri()}]}}))
        self.runs.append((driver.outcomes_of(events), code))

    def test(self, config, labels, *options):
        self.asked.append((labels, options))
        return self.runs.pop(0)


class RunTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = FakeBuild(pathlib.Path(folder.name))
        self.tally = driver.Tally()

    def report(self, *labels, verbose=False, **how):
        """(exit code, lines) of a run of these tests."""
        driver.Run(self.build, self.tally).tests("plain", list(labels), **how)
        out = io.StringIO()
        code = self.tally.report(verbose, out)
        return code, out.getvalue().splitlines()

    def test_cases_are_counted_not_targets(self):
        self.build.add_run(("//a:b", PASSED + PASSED), ("//a:c", PASSED))
        self.assertEqual((0, ["3 passed, 0 failed"]),
                         self.report("//a:b", "//a:c"))

    def test_what_fails_twice_has_failed_and_is_named_last(self):
        self.build.add_run(("//a:b", PASSED + FAILED), ("//a:c", SKIPPED), code=3)
        self.build.add_run(("//a:b", PASSED + FAILED), code=3)
        self.assertEqual(
            (1, ["skipped: 1: no GPU", "FAILED: plain //a:b S.B (s.cc:7: no)",
                 "1 passed, 1 failed"]), self.report("//a:b", "//a:c"))

    def test_what_passes_alone_is_flaky_and_counts_as_passed(self):
        self.build.add_run(("//a:b", PASSED + FAILED), ("//a:c", PASSED), code=3)
        self.build.add_run(("//a:b", PASSED + MENDED))
        self.assertEqual(
            (0, ["flaky: plain //a:b S.B (s.cc:7: no)", "3 passed, 0 failed"]),
            self.report("//a:b", "//a:c"))
        labels, options = self.build.asked[1]
        self.assertEqual(["//a:b"], labels)
        self.assertIn("--local_test_jobs=1", options)

    def test_a_crash_that_does_not_come_again_is_flaky(self):
        self.build.add_run(("//a:b", PASSED, {"status": "TIMEOUT"}), code=3)
        self.build.add_run(("//a:b", PASSED + PASSED))
        self.assertEqual(
            (0, ["flaky: plain //a:b (timeout)", "2 passed, 0 failed"]),
            self.report("//a:b"))

    def test_many_that_fail_do_not_run_again(self):
        labels = [f"//a:{i}" for i in range(driver.MOST_AGAIN + 1)]
        self.build.add_run(*[(label, FAILED) for label in labels], code=3)
        code, lines = self.report(*labels)
        self.assertEqual(1, code)
        self.assertEqual(f"0 passed, {len(labels)} failed", lines[-1])

    def test_a_test_that_was_not_built_failed(self):
        self.build.add_run(("//a:b", PASSED), code=1)
        code, lines = self.report("//a:b", "//a:c")
        self.assertEqual(1, code)
        self.assertEqual("FAILED: plain //a:c was not built or not run", lines[0])
        self.assertEqual("1 passed, 2 failed", lines[-1])

    def test_a_test_that_fails_without_a_failed_case_failed(self):
        for _ in range(2):
            self.build.add_run(("//a:b", PASSED, {"status": "TIMEOUT"}), code=3)
        self.assertEqual((1, ["FAILED: plain //a:b (timeout)",
                              "1 passed, 1 failed"]), self.report("//a:b"))

    def test_a_test_without_a_result_file_failed(self):
        for _ in range(2):
            self.build.add_run(("//a:b", None))
        self.assertEqual(1, self.report("//a:b")[0])

    def test_what_had_no_time_is_listed_and_did_not_fail(self):
        self.build.add_run(("//a:b", PASSED), code=124)
        self.assertEqual(
            (0, ["skipped: 1: plain: the time was up", "1 passed, 0 failed"]),
            self.report("//a:b", "//a:c", listed_when_late=True))

    def test_what_was_interrupted_is_listed_and_what_failed_runs_once_more(self):
        self.build.add_run(("//a:b", FAILED), ("//a:c", "", {
            "status": "INCOMPLETE"}), code=124)
        self.build.add_run(("//a:b", FAILED), code=3)
        self.assertEqual(
            (1, ["skipped: 1: plain: the time was up",
                 "FAILED: plain //a:b S.B (s.cc:7: no)", "0 passed, 1 failed"]),
            self.report("//a:b", "//a:c", listed_when_late=True))

    def test_nothing_run_is_not_a_success(self):
        self.build.add_run()
        self.assertEqual((1, ["0 passed, 0 failed"]), self.report())

    def test_all_shards_count_and_of_each_the_last_attempt(self):
        self.build.add_run(
            ("//a:b", PASSED, {"shard": 1}), ("//a:b", FAILED, {"shard": 2}),
            ("//a:b", PASSED, {"shard": 2, "attempt": 2}))
        self.assertEqual((0, ["2 passed, 0 failed"]), self.report("//a:b"))

    def test_skips_are_a_line_per_reason_and_verbose_lists_them(self):
        self.build.add_run(("//a:b", PASSED + SKIPPED), ("//a:c", SKIPPED))
        self.assertEqual(
            (0, ["skipped: 2: no GPU", "  plain //a:b S.C", "  plain //a:c S.C",
                 "1 passed, 0 failed"]),
            self.report("//a:b", "//a:c", verbose=True))

    def counted(self, script):
        """The tally of a program that a shell is."""
        driver.Run(self.build, self.tally).counted(
            "fuzz: briefly", r".* no crash$", ["sh", "-c", script])
        return self.tally.passed, self.tally.failed

    def test_lines_of_a_program_are_counted(self):
        self.assertEqual(
            (2, ["fuzz: idx 7 CRASH: /a"]), self.counted(
                "echo target runs; echo 'csv 3  no crash'; echo 'idx 7 CRASH: /a';"
                "echo \"$BAZEL_OPTIONS no crash\"; exit 1"))

    def test_a_program_that_prints_no_line_of_a_failure_failed(self):
        self.assertEqual((0, ["fuzz: ended with exit code 3"]),
                         self.counted("echo target runs; exit 3"))

    def test_an_interrupted_bazels_half_line_is_no_result(self):
        self.assertEqual({}, driver.outcomes_of(['{"id": {"testRes']))


class ChangedTest(unittest.TestCase):

    def test_packages_of_sources_and_not_of_pages_or_build_files(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path in ("BUILD", "a/BUILD", "a/deep/b.cc", "c/BUILD"):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).touch()
            self.assertEqual(
                ["", "a"], driver.changed_packages(
                    ["a/deep/b.cc", "a/gone.h", "c/README.md", "c/BUILD",
                     "d/e.py"], root))


class CacheTest(unittest.TestCase):

    def test_what_was_not_read_for_longest_is_forgotten_first(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for age, name in ((3, "old"), (2, "older/x"), (1, "new")):
                path = root / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"12345678")
                os.utime(path, (1000 - age, 5000 + age))
            driver.forget_oldest(root, 16)
            self.assertEqual(["new", "older/x"], sorted(
                path.relative_to(root).as_posix()
                for path in root.rglob("*") if path.is_file()))


if __name__ == "__main__":
    unittest.main()
