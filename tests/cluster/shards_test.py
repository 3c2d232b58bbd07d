"""A server with several shards is several servers in one process."""

import os
import re
import signal
import unittest

from tests.cluster import paramd

COMMAND = ["local", "--job", paramd.SMALL_JOB, "--servers=1", "--cpu=scalar"]


def setUpModule():
    paramd.need_data()


class ShardsTest(unittest.TestCase):

    def train(self, *flags):
        """The run, and what it trained."""
        run = paramd.Run(*COMMAND, "--workers=2", "--staleness=sync", *flags)
        self.assertEqual(run.wait(), 0, run.output)
        return run, run.tensors()

    def test_Promise6_two_shards_train_the_bits_of_one(self):
        _, of_one = self.train()
        run, of_two = self.train("--shards_per_server=2")
        newest = os.path.join(run.run_directory(), "checkpoints",
                              paramd.checkpoints(run.run_directory())[-1])
        self.assertIn("ps-00002-of-00002.safetensors", os.listdir(newest))
        self.assertIn("ended exit_code=0", run.log("ps-0"))
        self.assertEqual(sorted(of_two), sorted(of_one))
        for name, values in of_one.items():
            # Not assertEqual, which would print megabytes.
            self.assertTrue(of_two[name] == values, name)

    def test_a_stopped_run_goes_on_with_another_number_of_shards(self):
        endless = ["--workers=1", "--epochs=1000",
                   "--set=checkpoint.every_steps=500"]
        run = paramd.Run(*COMMAND, *endless, "--shards_per_server=2")
        self.addCleanup(run.kill)
        run.wait_for("checkpoint committed at step")
        run.signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130, run.output)
        root = run.run_directory()
        newest = paramd.checkpoints(root)[-1]
        again = paramd.Run(*COMMAND, *endless, "--shards_per_server=3",
                           "--resume", directory=run.directory)
        self.addCleanup(again.kill)
        again.wait_for(*(f"core=ps-{shard}" for shard in range(3)))
        again.wait_for("checkpoint committed at step")
        again.signal(signal.SIGINT)
        self.assertEqual(again.wait(), 130, again.output)
        filled = re.findall(r"generation \S+ holds \d+ slices.* core=ps-\d",
                            again.output)
        self.assertEqual(len(filled), 3, again.output)
        for line in filled:
            self.assertIn(newest, line)


if __name__ == "__main__":
    unittest.main()
