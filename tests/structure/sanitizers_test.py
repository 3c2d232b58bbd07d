"""The sanitizers of the build find a mistake of each kind."""

import os
import subprocess
import unittest

SANITIZER = os.environ.get("PARAMD_SANITIZER")
if not SANITIZER:
    raise unittest.SkipTest("built without --config=asan or --config=tsan")


def run(mistake):
    """(exit code, what it wrote) of a planted program."""
    done = subprocess.run(
        [f"tests/structure/planted/{mistake}"], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


class SanitizersTest(unittest.TestCase):

    def assert_found(self, sanitizer, mistake, words):
        if SANITIZER != sanitizer:
            self.skipTest(f"built with --config={SANITIZER}")
        code, output = run(mistake)
        self.assertNotEqual(0, code)
        self.assertIn(words, output)

    def test_a_leak_is_found(self):
        self.assert_found("asan", "leak", "LeakSanitizer: detected memory")

    def test_a_read_out_of_bounds_is_found(self):
        self.assert_found("asan", "out_of_bounds", "heap-buffer-overflow")

    def test_an_overflow_is_found(self):
        self.assert_found("asan", "overflow", "signed integer overflow")

    def test_a_race_is_found(self):
        self.assert_found("tsan", "race", "ThreadSanitizer: data race")
