"""Processes that die in sync mode: the steps go on, and every one is whole."""

import json
import os
import tempfile
import unittest

from tests.cluster import paramd

EPOCHS = 2
EXAMPLES = 60000
BATCH = 32


def setUpModule():
    paramd.need_data()


class SyncTest(unittest.TestCase):

    def check_restart(self, task):
        """Kills `task` once there is a checkpoint; the job must finish."""
        run = paramd.Run("local", "--job", paramd.SMALL_JOB,
                         f"--epochs={EPOCHS}", "--lease_ms=1000",
                         "--heartbeat_ms=100", "--set=staleness=sync",
                         "--set=checkpoint.every_steps=300")
        self.addCleanup(run.kill)
        run.wait_for("checkpoint committed at step")
        run.kill_task(task)
        self.assertEqual(run.wait(), 0, run.output)
        self.assertIn(f"paramd: {task} exited 137; restart 1 of 3 in 500ms",
                      run.output)
        self.assertGreater(run.accuracy(), 0.75)
        return run

    def last_step(self, run):
        newest = paramd.checkpoints(run.run_directory())[-1]
        return int(newest.rsplit("-", 1)[1])

    def test_servers_without_a_slice_keep_nobody_waiting(self):
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**paramd.tiny_job(directory), "staleness": "sync"}, file)
        run = paramd.Run("local", "--job", path, "--servers=4", "--workers=2")
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)

    def test_a_killed_worker_is_left_out_and_comes_back(self):
        run = self.check_restart("worker-1")
        contributors = [line.split("are of ")[1].split()[0]
                        for line in run.log("worker-0").splitlines()
                        if "and those after it are of" in line]
        self.assertEqual(contributors[:3], ["2", "1", "2"])
        # More than in step throughout, if any step was of one worker alone.
        in_step = EPOCHS * -(-EXAMPLES // (2 * BATCH))
        self.assertGreaterEqual(self.last_step(run), in_step)

    def test_a_killed_server_takes_all_back_to_the_checkpoint(self):
        run = self.check_restart("ps-1")
        self.assertIn("all servers go back to step", run.log("worker-0"))
        self.assertIn("from /", [line for line in run.log("ps-0").splitlines()
                                 if " holds " in line][-1])

    def test_a_killed_chief_goes_on_from_the_newest_checkpoint(self):
        run = self.check_restart("worker-0")
        self.assertIn("going on from checkpoint", run.log("worker-0"))


if __name__ == "__main__":
    unittest.main()
