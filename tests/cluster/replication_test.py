"""A server with a backup is killed, and nothing is lost and nobody restarts."""

import os
import re
import unittest

from tests.cluster import paramd

# Long enough to be killed in the middle; ThreadSanitizer takes 15 times as long.
MIDDLING = "--epochs=1" if "PARAMD_SANITIZER" in os.environ else "--epochs=4"


def setUpModule():
    paramd.need_data()


class ReplicationTest(unittest.TestCase):

    def start(self, *flags):
        run = paramd.Run("local", "--job", paramd.SMALL_JOB, MIDDLING,
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

    def test_a_killed_server_is_the_backup_when_it_is_back(self):
        run = self.start()
        run.kill_task("ps-1")
        run.wait_for("ps-1 is gone; its backup takes over as generation")
        self.assertEqual(run.wait(), 0, run.output)
        log = run.log("worker-0")
        after = log[log.index("its backup takes over as generation"):]
        self.assertTrue(re.search(r"ps-1 has a backup", after), log)

    def test_one_server_can_have_no_backup(self):
        run = paramd.Run("local", "--job", paramd.SMALL_JOB, "--replication=2",
                         "--servers=1")
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("replication: is 2, which needs at least two ps tasks",
                      run.output)


if __name__ == "__main__":
    unittest.main()
