"""run.sh, with programs that do what those on a GPU may do."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

# As a program of GoogleTest: of the tests that the filter leaves, one dies, one
# hangs, one is skipped and one fails.
_TEST = r"""#!/bin/bash
for a in "$@"; do
  case $a in
    --gtest_filter=*) filter=${a#*=} ;;
    --gtest_output=json:*) out=${a#*json:} ;;
  esac
done
run() {
  case $filter in
    "*" | "$1") ;;
    "*-"*) case ":${filter#*-}:" in *":$1:"*) return ;; esac ;;
    *) return ;;
  esac
  echo "[ RUN      ] $1"
  $2 "$1"
}
pass() { echo "[       OK ] $1 (0 ms)"; }
skip() { echo "[  SKIPPED ] $1 (0 ms)"; }
fail() { echo "is \"quoted\" \\"; echo "[  FAILED  ] $1 (0 ms)"; failed=1; }
die() { kill -KILL $$; }
hang() { sleep 1000; }
run A.Passes pass
run A.Dies die
run A.Hangs hang
run A.Skips skip
run A.Fails fail
run B/A.IsLast/0 pass
if [ -n "$out" ]; then echo '{"tests": 6}' >"$out"; fi
exit ${failed:-0}
"""

_GOOD_TEST = """#!/bin/bash
echo "[ RUN      ] A.Passes"
echo "[       OK ] A.Passes (0 ms)"
for a in "$@"; do
  case $a in --gtest_output=json:*) echo '{"tests": 1}' >"${a#*json:}" ;; esac
done
"""

_BENCH = r"""#!/bin/bash
case "$*" in
  *probe*) echo "gpu: $PROBE_SAYS" >&2; exit $PROBE_EXITS ;;
  *copies*) if [ -n "$HANGS" ]; then printf '{"half'; sleep 1000; fi ;;&
  *) all=$*; echo "{\"metric\": \"${all##*=}\"}" ;;
esac
"""

_WHOLE_STEPS = """import sys
assert sys.argv[1].endswith("/bench/paramd") and "--libraries=" in sys.argv[2]
print('{"metric": "whole_steps"}')
"""


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        shutil.copy("tests/gpu/run.sh", self.folder)
        for name in ["tests", "bench", "lib"]:
            os.mkdir(os.path.join(self.folder, name))
        self.add("bench/gpu", _BENCH)
        self.add("whole_steps.py", _WHOLE_STEPS)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def add(self, path, text):
        path = os.path.join(self.folder, path)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_it(self, **settings):
        """Its exit code, what it says and the result."""
        result = os.path.join(self.folder, "result.json")
        env = {"PATH": "/usr/bin:/bin", "PROBE_SAYS": "a fake one",
               "PROBE_EXITS": "0"}
        env.update({name: str(value) for name, value in settings.items()})
        ran = subprocess.run(
            ["bash", os.path.join(self.folder, "run.sh"), result], env=env,
            stderr=subprocess.PIPE, text=True)
        with open(result) as file:
            return ran.returncode, ran.stderr, json.load(file)

    def test_without_a_gpu_it_says_so_and_runs_nothing(self):
        self.add("tests/one_test", _TEST)
        code, said, result = self.run_it(PROBE_EXITS=3, PROBE_SAYS="no \"GPU\"")
        self.assertEqual(code, 3)
        self.assertIn("nothing is run", said)
        self.assertEqual(result["why"], ['gpu: no "GPU"'])
        self.assertEqual((result["tests"], result["bench"]), ({}, []))

    def test_all_that_passed_is_reported(self):
        self.add("tests/one_test", _GOOD_TEST)
        self.add("tests/two_test", _GOOD_TEST)
        code, _, result = self.run_it()
        self.assertEqual((code, result["exit"], result["finished"]), (0, 0, True))
        self.assertEqual(list(result["tests"]), ["one_test", "two_test"])
        self.assertEqual(result["tests"]["one_test"]["reports"], [{"tests": 1}])
        self.assertEqual(sorted(line["metric"] for line in result["bench"]),
                         ["apply", "copies", "formats", "layers", "losses",
                          "overlap", "products", "recordings", "rows", "sums",
                          "whole_steps"])

    def test_what_dies_or_hangs_costs_no_other_test(self):
        self.add("tests/one_test", _TEST)
        code, _, result = self.run_it(TEST_SECONDS=5)
        self.assertEqual(code, 1)
        one = result["tests"]["one_test"]
        self.assertEqual(sorted(one["failed"]), ["A.Dies", "A.Fails", "A.Hangs"])
        self.assertEqual(one["runs"], 3)
        self.assertEqual(result["skipped"], ["A.Skips"])
        self.assertEqual(one["alone"]["A.Fails"], 1)
        self.assertIn("[       OK ] B/A.IsLast/0 (0 ms)", one["log"])
        self.assertIn('is "quoted" \\', one["log"])

    def test_a_part_that_hangs_costs_no_other_part(self):
        code, _, result = self.run_it(PART_SECONDS=5, HANGS=1)
        self.assertEqual(code, 1)
        self.assertEqual(result["bench_parts"]["copies"]["exit"], 124)
        self.assertEqual(len(result["bench"]), 10)

    def test_all_of_it_ends_in_time(self):
        self.add("tests/one_test", _TEST)
        self.add("tests/two_test", _TEST)
        code, _, result = self.run_it(SECONDS_IN_ALL=3)
        self.assertEqual((code, result["finished"]), (1, True))
        self.assertLess(result["seconds"], 60)
        self.assertEqual(result["tests"]["two_test"]["exit"], 124)


if __name__ == "__main__":
    unittest.main()
