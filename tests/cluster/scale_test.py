"""A running job gets fewer ps and more again: servers move from process to process
while it trains, nothing is lost, and nobody else notices."""

import json
import os
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


def servers_of(job):
    return [member for member in job["members"]
            if member["task"]["type"] == "PS"]


def wait_for_backups(address):
    """Until each server has one that is whole; the job."""
    while True:
        job = report(address)["job"]
        if all(member["backup_is_member"] for member in servers_of(job)):
            return job
        time.sleep(0.1)


def holders(job):
    """The indices of all ps that hold a server or a backup."""
    places = job["places_of_a_ps"]
    return {member[key] // places for member in servers_of(job)
            for key in ("peer", "backup_peer")}


class ScaleTest(unittest.TestCase):

    def start_cluster(self, *flags, job=None):
        self.flags = flags
        self.cluster = paramd.Cluster(servers=3, workers=2)
        if job is not None:
            self.cluster.job = job
        self.address = self.cluster.address("worker-0")
        self.root = self.cluster.run_directory
        self.runs = {}
        for task in self.cluster.tasks:
            self.start(task)

    def start(self, task):
        self.runs[task] = self.cluster.start(
            task, "--replication=2", "--scalable", "--heartbeat_ms=100",
            "--evaluate_every_epochs=0", *self.flags)
        self.addCleanup(self.runs[task].kill)

    def scale(self, servers):
        code, out, err = call("scale", self.root, f"--servers={servers}")
        self.assertEqual(code, 0, err)
        self.assertEqual(
            out, f"the first {servers} ps hold everything: the job is scaled\n")

    def stop(self):
        code, out, err = call("stop", self.root)
        self.assertEqual(code, 0, out + err)
        self.wait()

    def newest_checkpoint(self):
        return os.path.join(self.root, "checkpoints",
                            paramd.checkpoints(self.root)[-1])

    def wait(self):
        for task, run in self.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")

    def check_nobody_noticed(self):
        chief = self.runs["worker-0"].output
        for went_back in WENT_BACK:
            self.assertNotIn(went_back, chief)
        self.assertNotIn("lost: pushes", chief)
        self.assertNotIn("is wrong:", chief)
        for worker in ("worker-0", "worker-1"):
            self.assertEqual(
                self.runs[worker].output.count(
                    f"info {worker} joined as generation"), 1,
                self.runs[worker].output)

    def test_promise1_three_ps_two_and_three_again_and_no_bit_changes(self):
        steps = ("--set=staleness=sync", "--lease_ms=60000")
        # It trains for as long as the scaling takes, whatever the machine.
        self.start_cluster(*steps, "--epochs=1000000", job=paramd.SMALL_JOB)
        self.assertEqual(holders(wait_for_backups(self.address)), {0, 1, 2})
        self.scale(2)
        self.assertEqual(self.runs["ps-2"].wait(), 0, self.runs["ps-2"].output)
        job = report(self.address)["job"]
        self.assertNotIn("scaling", job)
        self.assertEqual(holders(job), {0, 1})
        # It trains on meanwhile.
        while report(self.address)["job"]["global_step"] \
                <= job["global_step"]:
            time.sleep(0.05)
        self.start("ps-2")
        self.scale(3)
        job = report(self.address)["job"]
        self.assertEqual(holders(job), {0, 1, 2})
        self.stop()
        self.check_nobody_noticed()
        chief = self.runs["worker-0"].output
        self.assertIn("scales the job from 3 to 2 ps", chief)
        self.assertIn("scales the job from 2 to 3 ps", chief)
        self.assertIn("moves; its backup takes over", chief)
        # On to the end of an epoch, where one that was never scaled has taken
        # as many steps.
        step = int(self.newest_checkpoint().rsplit("-", 1)[1])
        begun = int(step * job["epochs_done"] / job["global_step"]) + 2
        self.flags = (*steps, f"--epochs={begun}")
        for task in self.cluster.tasks:
            self.start(task)
        self.wait()
        calm = paramd.Run("local", "--job", paramd.SMALL_JOB, "--servers=3",
                          "--workers=2", "--evaluate_every_epochs=0",
                          *self.flags)
        self.addCleanup(calm.kill)
        self.assertEqual(calm.wait(), 0, calm.output)
        self.assertEqual(paramd.tensors(self.newest_checkpoint()),
                         calm.tensors())

    def test_promise1_pushes_go_on_and_none_is_lost(self):
        self.start_cluster("--epochs=1000000")
        self.runs["worker-1"].wait_for("first push of generation")
        wait_for_backups(self.address)
        for servers, why in (
                (1, "with replication 2 it needs 2 ps or more, not 1"),
                (4, "the cluster names 3 ps, not 4")):
            code, _, err = call("scale", self.root, f"--servers={servers}")
            self.assertEqual(code, 2, err)
            self.assertIn(why, err)
        code, _, err = call("scale", self.root)
        self.assertEqual(code, 2, err)
        self.assertIn("--servers: is missing", err)
        self.scale(3)  # As it is.
        self.scale(2)
        self.assertEqual(self.runs["ps-2"].wait(), 0, self.runs["ps-2"].output)
        # Of those that the cluster names it has none.
        code, _, err = call("drain", "ps-7", self.root)
        self.assertEqual(code, 2, err)
        self.assertIn("the job has no ps-7; its last one is ps-2", err)
        # It is back, and holds nothing.
        self.start("ps-2")
        self.runs["ps-2"].wait_for("ready")
        for _ in range(20):
            job = wait_for_backups(self.address)
            self.assertEqual(holders(job), {0, 1})
        self.assertEqual((job["pushes_lost"], job["pushes_doubled"]), (0, 0))
        self.scale(3)
        with open(os.path.join(self.root, "audit.jsonl"),
                  encoding="utf-8") as file:
            calls = [json.loads(line) for line in file]
        asked = [(each["call"], each["asks"], bool(each["refused"]))
                 for each in calls]
        self.assertIn(("Scale", "servers: 2", False), asked)
        self.assertIn(("Scale", "servers: 4", True), asked)
        self.stop()
        self.check_nobody_noticed()

    def test_what_each_ps_spends_is_measured_and_pushes_go_on(self):
        # Of the tiny job a minute has more lines than a pipe holds unread.
        self.start_cluster("--rebalance", "--epochs=1000000",
                           job=paramd.SMALL_JOB)
        self.runs["worker-1"].wait_for("first push of generation")
        wait_for_backups(self.address)
        # A minute in which nobody changes places.
        for _ in range(2400):
            balance = report(self.address)["job"]["balance"]
            if balance["processors"]:
                break
            time.sleep(0.1)
        self.assertEqual(len(balance["processors"]), 3, balance)
        for spent in balance["processors"]:
            self.assertGreater(spent, 0)
            self.assertLess(spent, os.cpu_count())
        # Whatever it makes of that, nothing is lost.
        job = wait_for_backups(self.address)
        self.assertEqual(holders(job), {0, 1, 2})
        self.assertEqual((job["pushes_lost"], job["pushes_doubled"]), (0, 0))
        self.stop()
        self.check_nobody_noticed()


if __name__ == "__main__":
    unittest.main()
