"""Servers of a job whose rows are named by keys have backups, and are killed:
nothing is lost, no other process restarts, and every row is as without that."""

import os
import tempfile
import unittest

from tests.cluster.keyed_job import TABLE, KeyedCase, by_key, job


class KeyedReplicationTest(KeyedCase):

    def train_and_kill(self, settings, *flags):
        """Trains on three servers; ps-1 is killed when each has a backup, and
        ps-2 when that is so again."""
        run = self.start(settings, "local", "--servers=3", "--replication=2",
                         *flags)
        run.wait_for(*(f"ps-{server} has a backup" for server in range(3)))
        run.kill_task("ps-1")
        run.wait_for("ps-1 is gone; its backup takes over as generation")
        run.wait_for("ps-0 has a backup", "ps-1 has a backup")
        run.kill_task("ps-2")
        run.wait_for("ps-2 is gone; its backup takes over as generation")
        self.assertEqual(run.wait(), 0, run.output)
        self.assertEqual(run.output.count("; restart "), 2, run.output)
        for task in ("ps-1", "ps-2"):
            self.assertIn(f"paramd: {task} exited 137; restart 1 of 3",
                          run.output)
        for lost in ("came back without its shard", "all servers go back",
                     "lost: pushes"):
            self.assertNotIn(lost, run.output)
        result = run.result()
        self.assertEqual(
            (result["pushes_lost"], result["pushes_doubled"]), (0, 0))
        return run

    def test_promise1_a_killed_server_takes_no_row_along(self):
        # Of two buckets, which more keys are named than have rows.
        settings = job("adam", capacity=50000, examples=60000,
                       heartbeat_ms=100)
        alone = by_key(self.train(settings, "run").tensors())
        self.assertEqual(len(alone[TABLE]), 2 * 26214)
        run = self.train_and_kill(settings, "--workers=1")
        self.assert_same(by_key(run.tensors()), alone, "with killed servers")

    def test_promise1_of_many_workers_no_push_is_lost_or_doubled(self):
        self.train_and_kill(
            job(examples=120000, heartbeat_ms=100,
                policy={"admit_after": 2, "expire_after": 150}),
            "--workers=3")

    def test_promise6_killed_servers_change_no_bit_of_sync(self):
        # In memory, as bf16, and on a disk.
        for memory_rows, row_format in ((0, "bf16"), (1000, "fp32")):
            settings = job(examples=24000, staleness="sync", lease_ms=60000,
                           heartbeat_ms=100)
            table = settings["model"]["layers"][0]["embedding"]
            table["row_format"] = row_format
            if memory_rows > 0:
                settings["disk_directory"] = tempfile.mkdtemp(
                    dir=os.environ["TEST_TMPDIR"])
                table["memory_rows"] = memory_rows
            else:
                table.update({"admit_after": 2, "expire_after": 150})
            calm = self.train(settings, "local", "--servers=3", "--workers=2")
            run = self.train_and_kill(settings, "--workers=2")
            self.assert_same(by_key(run.tensors()), by_key(calm.tensors()),
                             f"of {memory_rows} rows in memory")


if __name__ == "__main__":
    unittest.main()
