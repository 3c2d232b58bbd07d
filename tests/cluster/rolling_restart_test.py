"""All servers of a job are restarted one by one with SIGTERM while it trains:
each is handed over to its backup, nothing is lost, and nobody else notices."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from tests.cluster import paramd

# Of the chief's log, for each of them a server that went back to a checkpoint.
WENT_BACK = ("is back after it was stopped", "came back without its shard",
             "all servers go back")


def setUpModule():
    paramd.need_data()


def call(*arguments):
    done = subprocess.run([paramd.BINARY, *arguments], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def report(address):
    """What `paramd status` has to say, for programs."""
    for _ in range(600):
        code, out, err = call("status", "--format", "json", address)
        if code == 0 and json.loads(out).get("job"):
            return json.loads(out)
        time.sleep(0.1)
    raise AssertionError(f"nobody answers at {address}: {err}")


def wait_for_backups(address):
    """Until each server has one that is whole; the job."""
    while True:
        job = report(address)["job"]
        if all(member["backup_is_member"] for member in job["members"]
               if member["task"]["type"] == "PS"):
            return job
        time.sleep(0.1)


class RollingRestartTest(unittest.TestCase):

    def start_cluster(self, *flags, job=None):
        self.flags = flags
        self.cluster = paramd.Cluster(servers=3, workers=2)
        if job is not None:
            self.cluster.job = job
        self.address = self.cluster.address("worker-0")
        self.runs = {}
        for task in self.cluster.tasks:
            self.start(task)

    def start(self, task):
        self.runs[task] = self.cluster.start(
            task, "--replication=2", "--heartbeat_ms=100",
            "--evaluate_every_epochs=0", *self.flags)
        self.addCleanup(self.runs[task].kill)

    def restart_each(self):
        """All servers; each as soon as all have backups again."""
        for task in ("ps-0", "ps-1", "ps-2"):
            job = wait_for_backups(self.address)
            self.runs[task].signal(signal.SIGTERM)
            self.assertEqual(self.runs[task].wait(), 143,
                             self.runs[task].output)
            self.assertIn("drained: the other place of ps-",
                          self.runs[task].output)
            self.start(task)
            # It trains on meanwhile.
            while report(self.address)["job"]["global_step"] \
                    <= job["global_step"]:
                time.sleep(0.05)

    def stop(self):
        code, out, err = call("stop", self.cluster.run_directory)
        self.assertEqual(code, 0, out + err)
        self.wait()

    def wait(self):
        for task, run in self.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")

    def check_nobody_noticed(self):
        chief = self.runs["worker-0"].output
        self.assertRegex(chief, r"ps-\d leaves; its backup takes over")
        for went_back in WENT_BACK:
            self.assertNotIn(went_back, chief)
        self.assertNotIn("lost: pushes", chief)
        self.assertNotIn("is wrong:", chief)
        for worker in ("worker-0", "worker-1"):
            self.assertEqual(
                len(re.findall(rf"joined as generation .*core={worker}$",
                               self.runs[worker].output, re.MULTILINE)), 1,
                self.runs[worker].output)
        # The accounts of the last checkpoint, block by block.
        root = self.cluster.run_directory
        path = os.path.join(root, "checkpoints",
                            paramd.checkpoints(root)[-1], "manifest.json")
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        for part in manifest["files"]:
            self.assertNotIn("lost", part)

    def test_promise1_no_push_is_lost_and_no_server_goes_back(self):
        self.start_cluster("--epochs=1000000")
        self.runs["worker-1"].wait_for("first push of generation")
        self.restart_each()
        job = wait_for_backups(self.address)
        self.assertEqual((job["pushes_lost"], job["pushes_doubled"]), (0, 0))
        self.stop()
        self.check_nobody_noticed()
        chief = self.runs["worker-0"].output
        # One that leaves keeps no push of a server that it is the backup of.
        self.assertIn("goes on without its backup: its process leaves", chief)

    def test_promise1_restarted_servers_change_no_bit_of_sync_steps(self):
        steps = ("--set=staleness=sync", "--lease_ms=60000", "--epochs=4")
        calm = paramd.Run("local", "--job", paramd.SMALL_JOB, "--servers=3",
                          "--workers=2", "--evaluate_every_epochs=0", *steps)
        self.addCleanup(calm.kill)
        self.assertEqual(calm.wait(), 0, calm.output)
        self.start_cluster(*steps, job=paramd.SMALL_JOB)
        self.restart_each()
        self.wait()
        self.check_nobody_noticed()
        root = os.path.join(self.cluster.run_directory, "checkpoints")
        newest = paramd.checkpoints(self.cluster.run_directory)[-1]
        self.assertEqual(paramd.tensors(os.path.join(root, newest)),
                         calm.tensors())

    def test_an_operator_drains_a_server_and_it_ends_with_0(self):
        self.start_cluster("--epochs=1000000")
        wait_for_backups(self.address)
        root = self.cluster.run_directory
        for ps, why in (("ps-7", "the job has no ps-7; its last one is ps-2"),
                        ("worker-1", "'worker-1' is not the name of a ps")):
            code, _, err = call("drain", ps, root)
            self.assertNotEqual(code, 0)
            self.assertIn(why, err)
        code, out, err = call("drain", "ps-1", root)
        self.assertEqual(code, 0, err)
        self.assertIn("ps-1 is drained", out)
        self.assertEqual(self.runs["ps-1"].wait(), 0, self.runs["ps-1"].output)
        # What it had has no backup now.
        code, _, err = call("drain", "ps-2", root)
        self.assertNotEqual(code, 0)
        self.assertIn("ps-2 can't be drained now: ps-1 has no backup", err)
        code, _, err = call("drain", "ps-1", root)
        self.assertIn("ps-1 is not there", err)
        with open(os.path.join(root, "audit.jsonl"), encoding="utf-8") as file:
            audit = file.read()
        self.assertIn("Drain", audit)
        self.start("ps-1")
        wait_for_backups(self.address)
        self.stop()
        self.check_nobody_noticed()


if __name__ == "__main__":
    unittest.main()
