"""A server with a backup is killed or restarted: nothing is lost, nobody else
restarts, and everybody is told where it is."""

import json
import os
import re
import subprocess
import unittest

from tests.cluster import paramd

# Long enough to be killed in the middle; ThreadSanitizer takes 15 times as long.
MIDDLING = "--epochs=1" if "PARAMD_SANITIZER" in os.environ else "--epochs=4"
# The same, to be killed more than once.
LONG = "--epochs=3" if "PARAMD_SANITIZER" in os.environ else "--epochs=12"


def setUpModule():
    paramd.need_data()


def call(*arguments):
    done = subprocess.run([paramd.BINARY, *arguments], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def report(address):
    """What `paramd status` has to say, for programs."""
    while True:
        code, out, _ = call("status", "--format", "json", address)
        if code == 0 and json.loads(out).get("job"):
            return json.loads(out)


def wait_for_backups(address):
    """Until each server has one that is whole; the report."""
    while True:
        found = report(address)
        if all(member["backup_is_member"]
               for member in found["job"]["members"]
               if member["task"]["type"] == "PS"):
            return found


class ReplicationTest(unittest.TestCase):

    def start(self, *flags, epochs=MIDDLING):
        run = paramd.Run("local", "--job", paramd.SMALL_JOB, epochs,
                         "--replication=2", "--servers=3",
                         "--heartbeat_ms=100", *flags)
        self.addCleanup(run.kill)
        run.wait_for(*(f"ps-{server} has a backup" for server in range(3)))
        return run

    def test_Promise1_a_killed_server_loses_no_acknowledged_push(self):
        run = self.start()
        run.kill_task("ps-1")
        run.wait_for("ps-1 is gone; its backup takes over as generation")
        self.assertEqual(run.wait(), 0, run.output)
        # It restarts, and nobody else does.
        self.assertEqual(run.output.count("; restart "), 1, run.output)
        self.assertIn("paramd: ps-1 exited 137; restart 1 of 3", run.output)
        joined = [line for line in run.log("worker-0").splitlines()
                  if "joined as generation" in line
                  and line.endswith("core=coordinator")]
        self.assertEqual(len(joined), 2, joined)
        self.assertNotIn("came back without its shard", run.output)
        # The accounts of the last checkpoint, block by block.
        result = run.result()
        self.assertEqual(
            (int(result["pushes_lost"]), int(result["pushes_doubled"])), (0, 0))
        self.assertGreater(run.accuracy(), 0.75)

    def test_Promise1_a_chief_that_dies_after_a_take_over_takes_nothing_along(
            self):
        # It must not be over before the chief dies, which is the third thing
        # that happens.
        run = self.start(epochs=LONG)
        run.kill_task("ps-1")
        run.wait_for("ps-1 is gone; its backup takes over as generation")
        run.wait_for("ps-1 has a backup")
        run.kill_task("worker-0")
        run.wait_for("the servers keep what they hold; taking over at step")
        self.assertEqual(run.wait(), 0, run.output)
        self.assertNotIn("going on from checkpoint", run.output)
        self.assertEqual(int(run.result()["pushes_lost"]), 0)
        self.assertGreater(run.accuracy(), 0.75)

    def test_a_killed_server_is_the_backup_when_it_is_back(self):
        run = self.start()
        run.kill_task("ps-1")
        run.wait_for("ps-1 is gone; its backup takes over as generation")
        self.assertEqual(run.wait(), 0, run.output)
        log = run.log("worker-0")
        after = log[log.index("its backup takes over as generation"):]
        self.assertTrue(re.search(r"ps-1 has a backup", after), log)

    def test_a_server_that_was_taken_over_is_found_where_it_is(self):
        run = self.start(epochs="--epochs=1000000")
        address = re.search(r"worker processes from (\S+:\d+)", run.output)[1]
        host, port = address.rsplit(":", 1)
        of_ps = [f"{host}:{int(port) + task}" for task in range(3)]
        before = wait_for_backups(address)["job"]["members"][1]
        self.assertEqual(
            (before["address"], before["peer"], before["backup_address"]),
            (of_ps[1], 2, of_ps[2]))
        run.kill_task("ps-1")
        run.wait_for("ps-1 is gone; its backup takes over as generation")
        found = wait_for_backups(address)
        after = found["job"]["members"][1]
        self.assertEqual(
            (after["address"], after["peer"], after["backup_address"]),
            (of_ps[2], 5, of_ps[1]))
        server = found["processes"][1]
        self.assertEqual((server["name"], server["address"]),
                         ("ps-1", of_ps[2]))
        self.assertEqual(server["status"]["task"]["index"], 2)
        self.assertEqual(server["status"]["server"]["replica"],
                         "REPLICA_PRIMARY")
        for asked in of_ps:
            _, text, err = call("status", asked)
            self.assertRegex(text, r"ps-0 .* backup ps-1\b", err)
            self.assertRegex(text, r"ps-1 .* in ps-2 · backup ps-1\b")
            code, out, err = call("evaluate", "--job", paramd.SMALL_JOB,
                                  "--live", asked, "--json")
            self.assertEqual(code, 0, err)
            self.assertEqual(json.loads(out)["examples"], 10000)

    def test_Promise1_killed_servers_change_no_bit_of_sync_steps(self):
        steps = ("--set=staleness=sync", "--lease_ms=60000")
        calm = paramd.Run("local", "--job", paramd.SMALL_JOB, MIDDLING,
                          "--servers=3", *steps)
        self.addCleanup(calm.kill)
        self.assertEqual(calm.wait(), 0, calm.output)
        run = self.start(*steps)
        run.kill_task("ps-1")
        run.wait_for("ps-1 is gone; its backup takes over as generation")
        # It is filled in the middle of the job, and then another one dies.
        run.wait_for("ps-0 has a backup", "ps-1 has a backup")
        run.kill_task("ps-2")
        run.wait_for("ps-2 is gone; its backup takes over as generation")
        self.assertEqual(run.wait(), 0, run.output)
        self.assertNotIn("all servers go back", run.output)
        # Nobody else began anew.
        self.assertEqual(run.log("worker-0").count("and those after it are of"),
                         1)
        self.assertEqual(run.tensors(), calm.tensors())

    def test_one_server_can_have_no_backup(self):
        run = paramd.Run("local", "--job", paramd.SMALL_JOB, "--replication=2",
                         "--servers=1")
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("replication: is 2, which needs at least two ps tasks",
                      run.output)


if __name__ == "__main__":
    unittest.main()
