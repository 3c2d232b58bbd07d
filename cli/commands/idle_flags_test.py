"""A flag that has no effect is refused before anything is read."""

import os
import subprocess
import unittest

BINARY = os.path.abspath("cli/paramd")
LIVE = "belongs to --live ADDRESS"
INTEGERS = "belongs to --mode static or dynamic, which have integers"
# What is typed, and what is said of its last flag, whether or not its value is the
# default.
IDLE = (
    ("quantize RUN --job=JOB --output=OUT --batches=100", "belongs to --calibrate"),
    ("quantize RUN --job=JOB --output=OUT --mode=dynamic --batches=5",
     "belongs to --calibrate"),
    ("quantize RUN --job=JOB --output=OUT --mode=float16 --weight_bits=8", INTEGERS),
    ("quantize RUN --job=JOB --output=OUT --mode=bfloat16 --per_tensor", INTEGERS),
    ("checkpoint export RUN --to=OUT --format=onnx --max_shard_size=5GB",
     "belongs to --format safetensors"),
    ("checkpoint export RUN --to=OUT --format=tensorbundle --max_shard_size=5GB",
     "belongs to --format safetensors"),
    ("checkpoint export RUN --to=OUT --opset=13", "belongs to --format onnx"),
    ("checkpoint inspect RUN --format=text", "belongs to --table NAME"),
    ("evaluate --job=JOB --checkpoint=RUN --timeout_ms=60000", LIVE),
    ("evaluate --job=JOB --checkpoint=RUN --tls_dir=DIR", LIVE),
    ("evaluate --merge PART --threads=1", "belongs to an evaluation, without --merge"),
    ("predict --job=JOB --checkpoint=RUN --timeout_ms=60000", LIVE),
    ("label --job=JOB --checkpoint=RUN --to=OUT --timeout_ms=60000", LIVE),
    ("status 127.0.0.1:1 --give_up_seconds=60", "belongs to --watch"),
    ("top 127.0.0.1:1 --once --delay_ms=1000",
     "belongs to a screen, without --once and --format json"),
    ("top 127.0.0.1:1 --format=json --delay_ms=1000",
     "belongs to a screen, without --once and --format json"),
    ("top 127.0.0.1:1 --format=json --sort=worst", "belongs to --format text"),
    ("stop --chief=127.0.0.1:1 --tls_dir=DIR --run_dir=RUN",
     "belongs to a job that is named by its run, without --chief"),
)


class IdleFlagsTest(unittest.TestCase):

    def test_each_is_refused_by_name(self):
        for typed, why in IDLE:
            with self.subTest(typed):
                words = typed.split()
                done = subprocess.run([BINARY, *words], capture_output=True,
                                      text=True, check=False)
                flag = words[-1].partition("=")[0]
                self.assertEqual((2, ""), (done.returncode, done.stdout), done.stderr)
                self.assertIn(f"{flag} {why}", done.stderr)
                self.assertEqual(1, done.stderr.count("\n"), done.stderr)

    def test_settings_beside_merged_parts_are_refused(self):
        done = subprocess.run([BINARY, "evaluate", "--merge", "PART", "--seed=1"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("--merge takes files alone", done.stderr)


if __name__ == "__main__":
    unittest.main()
