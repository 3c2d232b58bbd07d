"""A Python worker killed again and again at random moments."""

import json
import os
import pathlib
import random
import re
import sys
import tempfile
import time
import unittest

try:
    import numpy
except ImportError:
    numpy = None

SCRIPT = os.path.abspath("python/tests/line_worker.py")
os.environ["LIBPARAMD"] = os.path.abspath("program/libparamd.so")
os.environ["PARAMD"] = os.path.abspath("cli/paramd")
os.environ["PYTHONPATH"] = os.path.abspath("python")
sys.path.insert(0, os.path.abspath("python"))

KILLS, EPOCHS, STEPS_PER_EPOCH, PORTION = 6, 4000, 8, 4
# A worker takes two milliseconds or more for a step: the job outlasts the kills.
SLOWLY = """
import runpy, sys, time
line = runpy.run_path(%r)
gradient = line["gradient"]

def slowly(weights, indices):
    time.sleep(0.002)
    return gradient(weights, indices)

line["main"].__globals__["gradient"] = slowly
line["main"]()
"""


@unittest.skipIf(numpy is None, "needs NumPy")
class KillsTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.seed = random.randrange(2**32)

    def log(self, task):
        return (self.directory / "logs" / f"{task}.log").read_text()

    def steps(self, task):
        """How many gradients it has computed."""
        return len(re.findall("^step ", self.log(task), re.MULTILINE))

    def wait_for_steps(self, before):
        """Until both others have taken some since then."""
        deadline = time.monotonic() + 30
        while any(self.steps(f"worker-{w}") <= steps
                  for w, steps in enumerate(before)):
            self.assertLess(time.monotonic(), deadline, self.said())
            time.sleep(0.05)

    def test_promise1_none_is_lost_or_doubled_and_the_others_go_on(self):
        import paramd
        script, run = self.directory / "slowly.py", str(self.directory / "run")
        script.write_text(SLOWLY % SCRIPT)
        command = [str(script), run, f"epochs={EPOCHS}", "lease_ms=1500",
                   "heartbeat_ms=300", f"portion_batches={PORTION}"]
        draw = random.Random(self.seed)
        with paramd.local(2, [command] * 3, directory=self.directory / "logs") as job:
            deadline = time.monotonic() + 60
            while not self.steps("worker-2") and time.monotonic() < deadline:
                time.sleep(0.05)
            stepped = 0
            for _ in range(KILLS):
                before = self.steps("worker-0"), self.steps("worker-1")
                stepped -= self.steps("worker-2")
                time.sleep(draw.uniform(0.3, 2.0))
                self.assertIsNone(job.processes["worker-2"].poll(), self.said())
                job.processes["worker-2"].kill()
                job.processes["worker-2"].wait()
                stepped += self.steps("worker-2")
                self.wait_for_steps(before)
                job.start("worker-2")
            job.wait(300, progress=False)
        self.assertGreater(stepped, 0)  # It was killed while it trained.
        result = json.loads((self.directory / "run" / "result.json").read_text())
        self.assertEqual((int(result["pushes_lost"]), int(result["pushes_doubled"])),
                         (0, 0), self.said())
        # What a killed worker had begun is handed out again, so that pushes that it
        # had told of, of two portions at most, come on top.
        again = int(result["global_step"]) - EPOCHS * STEPS_PER_EPOCH
        self.assertIn(again, range(2 * PORTION * KILLS + 1), self.said())

    def said(self):
        """What a failure is looked into with."""
        return f"seed {self.seed}\n" + "".join(
            f"== {task}\n" + "".join(line + "\n" for line in
                                     self.log(task).splitlines()[-300:]
                                     if not line.startswith("step "))
            for task in ("worker-0", "worker-1", "worker-2", "ps-0", "ps-1"))


if __name__ == "__main__":
    unittest.main()
