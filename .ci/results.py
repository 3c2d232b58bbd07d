"""Counts what came of the tests, from the result files of the runners.

Usage: results.py FOLDER, which ./test.sh fills:
  NAME.expected  labels of the tests that configuration NAME should have run
  NAME.wanted    labels of those that it should have run if there was time
  NAME.json      Bazel's events of that run; they name each test's test.xml
  skipped        lines "LABEL NAME TAG": left out of NAME for its tag
  failed         sentences, each a failure besides those of tests
  left_out       sentences about what was not meant to run
  planted        names of planted bugs that were looked for
  found          those of them that were found

Prints the failed and the skipped, then "N passed, N failed". A test that should
have run and left no result failed, and so did one that Bazel calls failed though
none of its cases is. Exits 0 if something passed and nothing failed.
"""

import glob
import json
import os
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

_REASONS = {
    "slow": "slow tests run with --all, without sanitizers",
    "no_asan": "marked as not for AddressSanitizer",
    "no_tsan": "marked as not for ThreadSanitizer",
    "time": "the time for it was up",
    "single-threaded": "without threads: nothing for ThreadSanitizer",
}


class Tally:
    """What passed, failed and was skipped so far."""

    def __init__(self):
        self.passed = 0
        self.failed = []
        self.skipped = []

    def add_cases(self, title, path):
        """Counts the cases of one test.xml; returns how many of them failed."""
        failures = 0
        for case in ElementTree.parse(path).iter("testcase"):
            name = f"{title} {case.get('classname', '')}.{case.get('name')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None or \
                    case.find("error") is not None:
                failures += 1
                self.failed.append(name)
            elif skipped is not None:
                self.skipped.append((name, skipped.get("message") or ""))
            elif case.get("status") == "notrun":
                self.skipped.append((name, "disabled"))
            else:
                self.passed += 1
        return failures

    def add_test(self, title, attempts):
        """Counts one test: all its shards, of each the last attempt."""
        failures = 0
        status = "PASSED"
        for result in attempts.values():
            files = {f["name"]: f.get("uri", "")
                     for f in result.get("testActionOutput", [])}
            path = urllib.parse.unquote(
                urllib.parse.urlparse(files.get("test.xml", "")).path)
            try:
                failures += self.add_cases(title, path)
            except (OSError, ElementTree.ParseError):
                status = "without a readable test.xml"
            if result.get("status") != "PASSED":
                status = result.get("status", "without a status")
        if status != "PASSED" and not failures:
            self.failed.append(f"{title} {status.lower()}")

    def add_run(self, name, expected, wanted, tests):
        """Counts one run; `tests` is what results_of() made of its events."""
        for label in sorted({*expected, *wanted, *tests}):
            title = f"{name} {label}"
            if label in tests:
                self.add_test(title, tests[label])
            elif label in wanted:
                self.skipped.append((title, _REASONS["time"]))
            else:
                self.failed.append(f"{title} was not built or not run")

    def add_planted(self, planted, found):
        """Counts planted bugs by name: each that is not found is a failure."""
        for name in planted:
            if name in found:
                self.passed += 1
            else:
                self.failed.append(f"planted bug {name} was not found")

    def report(self, left_out, out):
        """Prints all of it; the last line is the count. Returns the exit code."""
        for name in self.failed:
            print(f"FAILED: {name}", file=out)
        for name, reason in self.skipped:
            print(f"skipped: {name}: {' '.join(reason.split())}", file=out)
        for sentence in left_out:
            print(f"skipped: {sentence}", file=out)
        print(f"{self.passed} passed, {len(self.failed)} failed", file=out)
        return 0 if self.passed and not self.failed else 1


def results_of(lines):
    """{label: {(run, shard): result of the last attempt}} of Bazel's events."""
    tests = {}
    newest = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # an interrupted Bazel's last line
        key = event.get("id", {}).get("testResult")
        if key and "testResult" in event:
            place = (key.get("run", 1), key.get("shard", 1))
            attempt = key.get("attempt", 1)
            if newest.get((key["label"], place), 0) <= attempt:
                newest[key["label"], place] = attempt
                tests.setdefault(key["label"], {})[place] = event["testResult"]
    return tests


def _lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.strip() for line in file if line.strip()]


def tally_of(folder):
    """The Tally of all runs that left their files in the folder."""
    tally = Tally()
    names = {os.path.basename(path).rsplit(".", 1)[0]
             for kind in ("expected", "wanted")
             for path in glob.glob(os.path.join(folder, f"*.{kind}"))}
    for name in sorted(names):
        path = os.path.join(folder, name)
        tally.add_run(name, _lines(path + ".expected"), _lines(path + ".wanted"),
                      results_of(_lines(path + ".json")))
    tally.add_planted(_lines(os.path.join(folder, "planted")),
                      _lines(os.path.join(folder, "found")))
    tally.failed += _lines(os.path.join(folder, "failed"))
    for line in _lines(os.path.join(folder, "skipped")):
        label, name, tag = line.split()
        tally.skipped.append((f"{name} {label}", _REASONS.get(tag, tag)))
    return tally


def main():
    folder = sys.argv[1]
    left_out = _lines(os.path.join(folder, "left_out"))
    return tally_of(folder).report(left_out, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
