"""Several devices in one process, each with memory and a time of its own."""

import json
import os
import tempfile
import unittest

from tests.cluster import paramd

EMULATED = os.path.abspath("tests/cluster/emulated_gpus")
PROCESSOR = paramd.BINARY
SUMS = "replicas' devices sum their gradients"

# Two replicas of 10 examples: the last step of an epoch, of 4, is one's alone.
REPLICAS = ["--replicas=2", "--batch_per_replica=10", "--epochs=3"]


class EmulatedGpusTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = os.path.join(self.directory, "job.json")
        job = paramd.tiny_job(self.directory)
        job["device"] = "cpu"
        job["model"]["layers"] = ["flatten", {"dense": 24}, "relu",
                                  {"dropout": 0.2}, {"dense": 10}]
        job["optimizer"] = {"adam": {}, "learning_rate": 0.01}
        job["all_reduce"] = {"check_every_steps": 1, "bucket_bytes": 300}
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.addCleanup(setattr, paramd, "BINARY", PROCESSOR)

    def run_on(self, binary, *command, environment=None):
        paramd.BINARY = binary
        run = paramd.Run(*command, "--job", self.job, *REPLICAS,
                         environment=environment)
        run.wait()
        return run

    @staticmethod
    def log_of(run, command):
        return run.log("worker-0") if command[0] == "local" else run.output

    def test_devices_that_sum_give_the_bits_of_the_processors_replicas(self):
        for command in (["run", "--strategy=central_storage"],
                        ["run", "--strategy=mirrored"],
                        ["run"],
                        ["local", "--workers=1", "--servers=1",
                         "--staleness=sync"],
                        ["local", "--workers=2", "--servers=2",
                         "--staleness=sync"]):
            with self.subTest(command=command):
                expected = self.run_on(PROCESSOR, *command)
                found = self.run_on(EMULATED, *command)
                self.assertEqual(expected.process.returncode, 0,
                                 expected.output)
                self.assertEqual(found.process.returncode, 0, found.output)
                self.assertNotIn(SUMS, self.log_of(expected, command))
                self.assertIn(SUMS, self.log_of(found, command))
                self.assertEqual(found.tensors(), expected.tensors())

    def test_a_lost_device_ends_the_process_which_may_be_started_again(self):
        for after in ("1", "100", "151", "202"):
            run = self.run_on(EMULATED, "run", "--strategy=central_storage",
                              environment={"EMULATED_LOST_AFTER": after})
            self.assertEqual(run.process.returncode, 138, run.output)
            self.assertIn("emulated:0 is lost", run.output)


if __name__ == "__main__":
    unittest.main()
