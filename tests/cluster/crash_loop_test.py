"""Processes that are killed over and over while they write checkpoints.

One process: a whole job that takes one checkpoint after the other and is killed
with kill -9 at a random moment of its life, from its start on. Started again, it
goes on from the newest committed checkpoint. Everything that is committed at
that moment is what one instant of the calm job was: all blocks of all files have
taken just the steps that the manifest says. When the job ends, its weights and
moments are those of a calm one, bit for bit, so no restore was ever a mix.

Several processes: the same with two ps and a chief, killed one by one.

    bazel run //tests/cluster:crash_loop_test -- --kills=1000 --seed=7

Without arguments: 50 kills.
"""

import argparse
import collections
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import unittest

from tests.cluster import chaos
from tests.cluster import paramd

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--seed", type=int, default=1)
PARSER.add_argument("--kills", type=int, default=50)
OPTIONS = PARSER.parse_args(sys.argv[1:])

KILLS_OF_A_CLUSTER = OPTIONS.kills // 5
GOING_ON = "going on from checkpoint "
# What a life has come to when its end is drawn; None: it has just begun.
MOMENTS = [None, " ready", "servers are filled", "first push",
           *4 * ["checkpoint committed"]]
JOB = {"epochs": 500, "evaluate_every_epochs": 0, "staleness": "sync",
       "optimizer": {"adam": {}, "learning_rate": 0.001},
       "checkpoint": {"every_steps": 1, "keep": 2}}


def manifest_of(checkpoint):
    with open(os.path.join(checkpoint, "manifest.json"),
              encoding="utf-8") as file:
        return json.load(file)


def steps_in(output):
    """Of the checkpoints that a process said it has committed."""
    return set(re.findall(r"checkpoint committed at step (\d+)", output))


class CrashLoopTest(unittest.TestCase):

    def setUp(self):
        self.drawn = random.Random(OPTIONS.seed)
        self.committed_steps = collections.defaultdict(set)  # By run.
        self.directory = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump({**paramd.tiny_job(self.directory), **JOB}, file)
        calm = self.start("calm")
        self.assertEqual(calm.wait(), 0, calm.output)
        self.wanted = paramd.tensors(self.newest("calm"))

    def start(self, run):
        """A process that goes on with that run."""
        process = paramd.Run("run", "--job", self.job, "--run_dir", run,
                             directory=self.directory)
        self.addCleanup(process.kill)
        return process

    def committed(self, run):
        """Paths of the committed checkpoints, oldest first."""
        run = os.path.join(self.directory, run)
        return [os.path.join(run, "checkpoints", name)
                for name in paramd.checkpoints(run)]

    def newest(self, run):
        return self.committed(run)[-1]

    def check_committed(self, run):
        """Each is of one instant."""
        for checkpoint in self.committed(run):
            manifest = manifest_of(checkpoint)
            steps = {int(blocks.get("applied", 0))
                     for file in manifest["files"]
                     for saved in file["slices"]
                     for blocks in saved["applied"]}
            self.assertEqual(steps, {int(manifest["global_step"])}, checkpoint)

    def live(self, process, moment):
        """Until it has said that; False if it ended before."""
        if moment is None:
            return True
        for line in process.process.stdout:
            process.output += line
            if moment in line:
                return True
        return False

    def one_life(self, run):
        """Returns whether the process was killed; else the job has ended."""
        before = self.committed(run)
        process = self.start(run)
        killed = self.live(process, self.drawn.choice(MOMENTS))
        if killed:
            time.sleep(self.drawn.uniform(0, 0.06))
            process.signal(signal.SIGKILL)
        code = process.wait()
        if GOING_ON in process.output:
            found = process.output.split(GOING_ON)[1].split()[0]
            self.assertEqual(found, before[-1], process.output)
        elif "servers are filled" in process.output:
            self.assertEqual(before, [], process.output)
        self.assertIn(code, (0, -signal.SIGKILL), process.output)
        self.committed_steps[run] |= steps_in(process.output)
        self.check_committed(run)
        process.kill()
        return code != 0

    def test_a_process_killed_at_any_moment_goes_on_from_the_newest(self):
        kills, rounds, restored = 0, 0, 0
        while kills < OPTIONS.kills:
            run = f"run-{rounds}"
            rounds += 1
            while kills < OPTIONS.kills and self.one_life(run):
                kills += 1
                restored += len(self.committed(run)) > 0
            last = self.start(run)
            self.assertEqual(last.wait(), 0, last.output)
            self.assertEqual(paramd.tensors(self.newest(run)), self.wanted)
            self.committed_steps[run] |= steps_in(last.output)
            # What kills kept from being deleted is deleted in the end, and no
            # more: of one step one stays.
            kept = len(self.committed(run))
            self.assertLessEqual(kept, JOB["checkpoint"]["keep"])
            self.assertGreaterEqual(
                kept, min(JOB["checkpoint"]["keep"],
                          len(self.committed_steps[run])), last.output)
        print(f"{kills} kills in {rounds} jobs, {restored} with a checkpoint "
              "to go on from", flush=True)
        self.assertGreater(restored, OPTIONS.kills // 3)

    def test_a_cluster_whose_processes_are_killed_ends_with_the_same_bits(self):
        job = {**JOB, "lease_ms": 60000, "heartbeat_ms": 200,
               "checkpoint": {"every_steps": 20, "keep": 1}}
        cluster = chaos.ChaosCluster(job, 1, OPTIONS.seed)
        self.addCleanup(cluster.close)
        tasks = list(cluster.tasks)
        cluster.run([chaos.Kind("kill", lambda it, task, _: it.kill(task),
                                tasks)], KILLS_OF_A_CLUSTER)
        self.assertEqual(paramd.tensors(cluster.newest_checkpoint()),
                         self.wanted, cluster.last_words())
        print(f"{dict(cluster.struck)}", flush=True)


if __name__ == "__main__":
    unittest.main()
