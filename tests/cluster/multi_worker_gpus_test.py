"""Workers, each with a device of its own, which sum between processes."""

import json
import os
import tempfile
import unittest

from tests.cluster import paramd

EMULATED = os.path.abspath("tests/cluster/emulated_gpus")
PROCESSOR = paramd.BINARY
BY_DEVICES = "workers' devices sum their gradients"
IN_HOST_MEMORY = ("gradients of workers are summed in host memory, not by "
                  "their devices")


class MultiWorkerGpusTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = paramd.tiny_job(self.directory)
        self.job.update({
            "device": "cpu", "batch_per_replica": 10, "epochs": 3,
            "optimizer": {"adam": {}, "learning_rate": 0.01},
            "all_reduce": {"check_every_steps": 1, "bucket_bytes": 300}})
        # The last step of an epoch, of 4 examples, has no share for each.
        self.job["model"]["layers"] = ["flatten", {"dense": 24}, "relu",
                                       {"dropout": 0.2}, {"dense": 10}]
        self.addCleanup(setattr, paramd, "BINARY", PROCESSOR)

    def write(self, name, **settings):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.job, **settings}, file)
        return path

    def start(self, worker, addresses, **environment):
        paramd.BINARY = EMULATED
        tf_config = {"cluster": {"worker": addresses},
                     "task": {"type": "worker", "index": worker}}
        run = paramd.Run(
            "run", "--job",
            self.write("job.json", strategy="multi_worker_mirrored"),
            "--run_dir", os.path.join(self.directory, addresses[0]),
            "--trace", self.trace_of(worker), directory=self.directory,
            environment={"TF_CONFIG": json.dumps(tf_config), **environment})
        self.addCleanup(run.kill)
        return run

    def trace_of(self, worker):
        return os.path.join(self.directory, f"trace-{worker}.json")

    def device_sums(self, worker):
        """Whether its device summed what lay there."""
        with open(self.trace_of(worker), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        lanes = [event["args"]["name"] for event in events
                 if event["name"] == "thread_name"]
        return any(lane.split()[0] == "sum" for lane in lanes)

    def tensors(self, addresses):
        run_dir = os.path.join(self.directory, addresses[0])
        return paramd.tensors(os.path.join(
            run_dir, "checkpoints", paramd.checkpoints(run_dir)[-1]))

    def of_replicas(self, count):
        """What as many processors give in one process."""
        paramd.BINARY = PROCESSOR
        run = paramd.Run("run", "--job", self.write(
            "replicas.json", strategy="mirrored", replicas=count))
        self.assertEqual(run.wait(), 0, run.output)
        return run.tensors()

    def test_devices_that_sum_give_the_bits_of_the_processors_replicas(self):
        for count in (2, 3):
            with self.subTest(count=count):
                addresses = paramd.draw_addresses(count)
                runs = [self.start(w, addresses) for w in range(count)]
                for worker, run in enumerate(runs):
                    self.assertEqual(run.wait(), 0, run.output)
                    self.assertTrue(self.device_sums(worker))
                    self.assertEqual(run.output.count(BY_DEVICES), 1)
                    self.assertNotIn(IN_HOST_MEMORY, run.output)
                self.assertEqual(self.tensors(addresses),
                                 self.of_replicas(count))

    def test_a_worker_that_was_killed_is_in_the_next_ring(self):
        self.job["epochs"] = 30
        expected = self.of_replicas(2)
        for victim in (1, 0):
            with self.subTest(victim=victim):
                addresses = paramd.draw_addresses(2)
                runs = [self.start(w, addresses) for w in range(2)]
                runs[0].wait_for("evaluation after epoch 2")
                runs[victim].kill()
                runs[1 - victim].wait_for(
                    f'missing="worker-{victim} at {addresses[victim]}')
                runs[victim] = self.start(victim, addresses)
                for run in runs:
                    self.assertEqual(run.wait(), 0, run.output)
                self.assertIn(BY_DEVICES, runs[victim].output)
                self.assertNotIn(IN_HOST_MEMORY, runs[victim].output)
                self.assertEqual(self.tensors(addresses), expected)

    def test_where_one_has_no_nccl_all_sum_in_host_memory_and_say_why(self):
        addresses = paramd.draw_addresses(2)
        runs = [self.start(0, addresses),
                self.start(1, addresses, EMULATED_NCCL="missing")]
        for worker, run in enumerate(runs):
            self.assertEqual(run.wait(), 0, run.output)
            self.assertFalse(self.device_sums(worker))
            self.assertEqual(run.output.count(IN_HOST_MEMORY), 1)
            self.assertIn("why=\"worker-1: NCCL can't be loaded (install it)",
                          run.output)
            self.assertNotIn(BY_DEVICES, run.output)
        self.assertEqual(self.tensors(addresses), self.of_replicas(2))


if __name__ == "__main__":
    unittest.main()
