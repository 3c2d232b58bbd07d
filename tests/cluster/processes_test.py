"""Whatever ends `paramd local`, no process is left, and the next run goes on."""

import os
import signal
import time
import unittest

from tests.cluster import paramd

# Longer than any test waits.
ENDLESS = "--epochs=100000"
# Long enough to be killed in the middle; ThreadSanitizer takes 15 times as long.
MIDDLING = "--epochs=1" if "PARAMD_SANITIZER" in os.environ else "--epochs=4"


def setUpModule():
    paramd.need_data()


class ProcessesTest(unittest.TestCase):

    def start(self, *flags):
        run = paramd.Run("local", "--job", paramd.SMALL_JOB, *flags)
        self.addCleanup(run.kill)
        run.wait_for("worker-1 joined as generation")
        self.assertEqual(
            len(paramd.processes_that_mention(run.run_directory())), 4)
        return run

    def wait_until_none_is_left(self, run):
        while paramd.processes_that_mention(run.run_directory()):
            time.sleep(0.01)

    def test_a_killed_parent_leaves_no_process(self):
        run = self.start(ENDLESS)
        run.signal(signal.SIGKILL)
        run.wait()
        self.wait_until_none_is_left(run)

    def test_ctrl_c_leaves_no_process(self):
        run = self.start(ENDLESS)
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130, run.output)
        self.assertEqual(
            paramd.processes_that_mention(run.run_directory()), [])
        self.assertNotIn("killed", run.output)

    def test_sigterm_leaves_no_process(self):
        run = self.start(ENDLESS)
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 143, run.output)
        self.assertEqual(
            paramd.processes_that_mention(run.run_directory()), [])

    def test_a_finished_job_ends_every_process_by_itself(self):
        run = self.start()
        self.assertEqual(run.wait(), 0, run.output)
        self.assertNotIn("killed", run.output)
        for task in ("ps-0", "ps-1", "worker-0", "worker-1"):
            self.assertIn("ended exit_code=0", run.log(task))

    def test_a_stopped_run_goes_on_with_other_servers(self):
        run = self.start(ENDLESS, "--set=checkpoint.every_steps=500")
        run.wait_for("checkpoint committed at step")
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130, run.output)
        self.assertIn(f"to go on: {paramd.BINARY} local --job "
                      f"{paramd.SMALL_JOB} {ENDLESS} "
                      "--set=checkpoint.every_steps=500 --resume\n", run.output)
        root = run.run_directory()
        newest = paramd.checkpoints(root)[-1]
        again = paramd.Run("local", "--job", paramd.SMALL_JOB, ENDLESS,
                           "--set=checkpoint.every_steps=500", "--resume",
                           "--servers=3", directory=run.directory)
        self.addCleanup(again.kill)
        again.wait_for(*(f"ps-{server} generation" for server in range(3)))
        again.wait_for("checkpoint committed at step")
        again.signal(signal.SIGINT)
        self.assertEqual(again.wait(), 130, again.output)
        self.assertEqual(again.run_directory(), root)
        filled = [line for line in again.output.splitlines()
                  if " holds " in line]
        self.assertEqual(len(filled), 3, again.output)
        for line in filled:
            self.assertIn(newest, line)
        self.assertGreater(self.step(paramd.checkpoints(root)[-1]),
                           self.step(newest))

    @staticmethod
    def step(checkpoint):
        return int(checkpoint.rsplit("-", 1)[1])

    def check_restart(self, task):
        """Kills `task` once there is a checkpoint; the job must finish."""
        run = self.start(MIDDLING, "--lease_ms=1000", "--heartbeat_ms=100",
                         "--set=checkpoint.every_steps=500")
        run.wait_for("checkpoint committed at step")
        run.kill_task(task)
        self.assertEqual(run.wait(), 0, run.output)
        self.assertIn(f"paramd: {task} exited 137; restart 1 of 3 in 500ms",
                      run.output)
        self.assertEqual(run.output.count("; restart "), 1, run.output)
        self.assertGreater(run.accuracy(), 0.75)
        return run

    def test_a_killed_server_comes_back_with_its_shard(self):
        run = self.check_restart("ps-1")
        self.assertIn("from /", [line for line in run.log("ps-1").splitlines()
                                 if " holds " in line][-1])

    def test_a_killed_worker_comes_back(self):
        self.check_restart("worker-1")

    def test_a_worker_killed_on_purpose_is_back_before_its_lease_is_over(self):
        run = self.start(ENDLESS, "--kill=worker-1@epoch=2",
                         "--lease_ms=600000")
        run.wait_for("worker-1 is killed in epoch 2, as --kill says")
        run.wait_for("worker-1 is back: its first push was acknowledged")
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130, run.output)

    def test_Promise5_a_killed_chief_takes_over_what_servers_hold(self):
        run = self.check_restart("worker-0")
        self.assertRegex(run.log("worker-0"), "the servers keep what they "
                         r"hold; taking over at step [1-9]\d*")
        for server in ("ps-0", "ps-1"):
            self.assertEqual(run.log(server).count(" holds "), 1)
        # The other worker keeps its session.
        self.assertIn("worker-1 goes on as generation", run.log("worker-0"))
        self.assertEqual(run.log("worker-1").count("joined as generation"), 1)

    def test_a_finished_run_stays_finished(self):
        run = self.start()
        self.assertEqual(run.wait(), 0, run.output)
        accuracy = run.accuracy()
        again = paramd.Run("local", "--job", paramd.SMALL_JOB, "--resume",
                           directory=run.directory)
        self.addCleanup(again.kill)
        self.assertEqual(again.wait(), 0, again.output)
        self.assertEqual(again.run_directory(), run.run_directory())
        self.assertIn(f"test accuracy: {accuracy:.3f}", again.output)


if __name__ == "__main__":
    unittest.main()
