"""Real processes, seeded faults and an answer that must come out exactly.

Processes are killed with kill -9 and stopped with SIGSTOP; the connections to
the ps and the chief go through proxies that reset and delay them. What must
come out, and why it would not if a push were lost or doubled:

Sync. Every step is the sum of one contribution of each of two workers, so the
final weights and Adam's two moments have one value to the bit: that of one
process that accumulates two batches. A contribution more or less, in one block
of one step, changes them. Servers and the chief are killed: the job goes back
to a checkpoint, and computes again what came after it. Workers are stopped and
cut off and not killed, since a step of fewer workers is another sum. No
stop is as long as a lease.

Async, servers and the chief killed. No worker is lost but worker 0 with its
chief; the others go on. So each of the job's batches is pushed once, and a block
has taken as many pushes as there are batches, less those that the last
checkpoint lists as lost with its server. One push doubled, or lost without a
report, and the sum is another. Only for a chief's death is there a bound: its
worker's open push is made again, and what a server has lost that was returned
within the last heartbeat.

Async, workers killed, or stopped for longer than their lease. What they had not
reported is computed again, as other pushes, so only bounds are known: every
block has at least as many pushes as there are batches, and at most as many more
as the killed ones had input for. No push may be lost or doubled by what the job
itself counts, which compares what the servers count beside each block.

    bazel run //tests/cluster:chaos_test -- --seed=7 --minutes=10

runs seeds from 7 on until 10 minutes are over; without, there is one round.
"""

import argparse
import sys
import time
import unittest

from tests.cluster import chaos
from tests.cluster import paramd

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--seed", type=int, default=1)
PARSER.add_argument("--minutes", type=float, default=0)
PARSER.add_argument("--faults", type=int, default=14,
                    help="of each round")
OPTIONS = PARSER.parse_args(sys.argv[1:])

SERVERS_AND_CHIEF = ["ps-0", "ps-1", "worker-0"]
BATCHES_PER_EPOCH = 8  # Of the tiny job.
# With few batches in each, little is computed again when a worker is lost.
PORTION_BATCHES = 3
PORTIONS = 3  # That a worker has at most.


def taken(shard_file):
    """Of each block in the file: how many pushes it has taken."""
    return [int(run.get("applied", 0))
            for saved in shard_file["slices"]
            for run in saved["applied"] for _ in range(run["blocks"])]


def lost(shard_file):
    """Pushes that the file lists as lost, each once."""
    return len({(entry.get("worker"), str(entry.get("generation")), push)
                for entry in shard_file.get("lost", [])
                for push in range(int(entry["from"]), int(entry["to"]) + 1)})


class ChaosTest(unittest.TestCase):

    def rounds(self, share, play):
        """Calls `play` with one seed after the other, for a share of the time."""
        end = time.monotonic() + 60 * OPTIONS.minutes * share
        seed = OPTIONS.seed
        while True:
            struck = play(seed)
            print(f"seed {seed}: {sum(struck.values())} faults, as they should "
                  f"be: {dict(struck)}", flush=True)
            seed += 1
            if time.monotonic() >= end:
                return

    def cluster(self, job, workers, seed):
        cluster = chaos.ChaosCluster(job, workers, seed)
        self.addCleanup(cluster.close)
        return cluster

    def test_sync_gives_the_same_bits_whoever_dies(self):
        job = {"epochs": 250, "evaluate_every_epochs": 0, "staleness": "sync",
               "optimizer": {"adam": {}, "learning_rate": 0.001},
               "lease_ms": 60000, "heartbeat_ms": 200,
               "checkpoint": {"every_steps": 100}}
        calm = self.cluster(job, 2, 0)
        alone = paramd.Run("run", "--job", calm.job, "--set=accumulate=2",
                           directory=calm.directory)
        self.addCleanup(alone.kill)
        self.assertEqual(alone.wait(), 0, alone.output)
        calm.run_directory = alone.run_directory()
        wanted = paramd.tensors(calm.newest_checkpoint())

        def play(seed):
            cluster = self.cluster(job, 2, seed)
            cluster.run(chaos.kinds(SERVERS_AND_CHIEF, SERVERS_AND_CHIEF,
                                    list(cluster.tasks)), OPTIONS.faults)
            self.assertEqual(paramd.tensors(cluster.newest_checkpoint()),
                             wanted, f"seed {seed}\n{cluster.last_words()}")
            cluster.close()
            return cluster.struck

        self.rounds(1 / 3, play)

    def async_job(self, epochs, lease_ms):
        return {"epochs": epochs, "evaluate_every_epochs": 0,
                "portion_batches": PORTION_BATCHES, "lease_ms": lease_ms,
                "heartbeat_ms": 200, "checkpoint": {"every_steps": 200}}

    def test_what_servers_lose_is_what_they_report(self):
        job = self.async_job(epochs=500, lease_ms=60000)

        def play(seed):
            cluster = self.cluster(job, 3, seed)
            cluster.run(chaos.kinds(SERVERS_AND_CHIEF, SERVERS_AND_CHIEF,
                                    list(cluster.tasks)), OPTIONS.faults)
            batches = BATCHES_PER_EPOCH * job["epochs"]
            again = (cluster.struck["kill worker-0"] * PORTIONS *
                     PORTION_BATCHES)
            for file in cluster.manifest()["files"]:
                gone = lost(file)
                for count in taken(file):
                    self.assertIn(
                        count + gone - batches, range(again + 1),
                        f"seed {seed}: {gone} pushes listed as lost in "
                        f"{file['name']}\n{cluster.last_words()}")
            cluster.close()
            return cluster.struck

        self.rounds(1 / 3, play)

    def test_nothing_is_lost_or_doubled_with_workers(self):
        job = self.async_job(epochs=500, lease_ms=1000)
        batches = BATCHES_PER_EPOCH * job["epochs"]

        def play(seed):
            cluster = self.cluster(job, 3, seed)
            workers = ["worker-1", "worker-2"]
            cluster.run(chaos.kinds(workers, SERVERS_AND_CHIEF, workers),
                        OPTIONS.faults)
            ends = cluster.fences()
            most = batches + ends * PORTIONS * PORTION_BATCHES
            said = f"seed {seed}, {ends} ends\n{cluster.last_words()}"
            for file in cluster.manifest()["files"]:
                self.assertEqual(lost(file), 0, said)
                for count in taken(file):
                    self.assertGreaterEqual(count, batches, said)
                    self.assertLessEqual(count, most, said)
            self.assertEqual(int(cluster.result()["pushes_lost"]), 0, said)
            self.assertEqual(int(cluster.result()["pushes_doubled"]), 0, said)
            cluster.close()
            return cluster.struck

        self.rounds(1 / 3, play)


if __name__ == "__main__":
    unittest.main()
