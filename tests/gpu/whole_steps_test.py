"""whole_steps.py, on a processor, beside a program that does as nvidia-smi does."""

import json
import os
import subprocess
import sys
import tempfile
import unittest


class WholeStepsTest(unittest.TestCase):

    def run_it(self, *flags, smi="echo 87"):
        folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        path = os.path.join(folder, "nvidia-smi")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{smi}\n")
        os.chmod(path, 0o755)
        environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
        return subprocess.run(
            [sys.executable, "tests/gpu/whole_steps.py", "cli/paramd",
             "--quick", *flags], capture_output=True, text=True, check=False,
            env=environment)

    def test_of_each_model_it_prints_what_it_saw(self):
        done = self.run_it("--device=cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = {line["metric"]: line["value"]
                   for line in map(json.loads, done.stdout.splitlines())}
        for name in ("mlp", "cnn", "gpt"):
            self.assertGreater(figures[f"{name}.steps_per_second"], 0)
            self.assertEqual(figures[f"{name}.busy"], 87)

    def test_without_nvidia_smi_there_are_the_steps(self):
        done = self.run_it("--device=cpu", smi="exit 9")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            [json.loads(line)["metric"] for line in done.stdout.splitlines()],
            [f"{name}.steps_per_second" for name in ("mlp", "cnn", "gpt")])

    def test_a_run_that_fails_is_told(self):
        done = self.run_it("--device=nonsense")
        self.assertEqual(done.returncode, 1)
        self.assertIn("mlp: paramd ended with 2:", done.stderr)
        self.assertIn("nonsense", done.stderr)


if __name__ == "__main__":
    unittest.main()
