"""With one worker no transport and no number of servers changes a bit."""

import json
import os
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

SIMULATOR = os.path.abspath("tests/sim/sim")

# Adam with its slots, a variable of several blocks and one of a single row, a
# schedule, and checkpoints on the way: 313 steps over the smaller data set.
JOB = {
    "name": "one-job",
    "input": {"format": "idx", "directory": paramd.DATA,
              "train_images": "t10k-images-idx3-ubyte.gz",
              "train_labels": "t10k-labels-idx1-ubyte.gz"},
    "model": {"layers": ["flatten", {"dense": 512}, "relu", {"dense": 256},
                         "relu", {"dense": 10}],
              "loss": "softmax_cross_entropy"},
    "optimizer": {"adam": {}, "learning_rate": 0.001, "schedule": "cosine"},
    "checkpoint": {"every_steps": 100},
}


def setUpModule():
    paramd.need_data()


def final_tensors(*command):
    """What `paramd` with this command trains; it must end well."""
    run = paramd.Run(*command)
    code = run.wait()
    assert code == 0, run.output
    return run.tensors()


class SameWeightsTest(unittest.TestCase):

    def assert_same(self, found, expected, where):
        self.assertEqual(sorted(found), sorted(expected), where)
        for name, values in expected.items():
            # Not assertEqual, which would print megabytes.
            self.assertTrue(found[name] == values, f"{name} {where}")

    def check_three_transports(self, job, over_grpc, in_simulator):
        """`job` in one process, and with each of these numbers of servers."""
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)

        alone = final_tensors("run", "--job", path)
        self.assertEqual(len(alone), 6 * 3)  # Each variable and its two slots.

        for servers in over_grpc:
            self.assert_same(
                final_tensors("local", "--job", path, "--workers=1",
                              f"--servers={servers}"),
                alone, f"over gRPC with {servers} servers")

        for servers in in_simulator:
            self.assert_same(
                self.simulated(path, servers), alone,
                f"in the simulator with {servers} servers")

    def test_one_job_on_three_transports(self):
        self.check_three_transports(JOB, over_grpc=(1, 2, 3),
                                    in_simulator=(2, 3))

    def simulated(self, job, servers):
        """What the simulator trains, on networks that did their worst."""
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        done = subprocess.run(
            [SIMULATOR, f"--job={job}", f"--servers={servers}", "--seeds=3",
             f"--weights={directory}/trained.safetensors"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("0 of 3 seeds failed", done.stdout)
        for fault in ("duplicate", "lose_request", "lose_reply"):
            self.assertIn(f"{fault} PushRequest", done.stdout)
        return paramd.tensors(directory)

    def test_sgd(self):
        job = ["--job", paramd.SMALL_JOB]
        alone = final_tensors("run", *job)
        self.assertEqual(len(alone), 4)
        for servers in (1, 3):
            self.assert_same(
                final_tensors("local", *job, "--workers=1",
                              f"--servers={servers}"),
                alone, f"over gRPC with {servers} servers")

    def test_numbers_that_travel_in_half_the_bytes(self):
        job = ["--job", paramd.SMALL_JOB, "--push_format=bf16",
               "--pull_format=fp16"]
        alone = final_tensors("run", *job)
        self.assert_same(final_tensors("local", *job, "--workers=1",
                                       "--servers=2"),
                         alone, "over gRPC with 2 servers")
        exact = final_tensors("run", "--job", paramd.SMALL_JOB)
        self.assertNotEqual(exact["dense_1/kernel"], alone["dense_1/kernel"])

    def test_the_instructions_make_no_difference(self):
        for optimizer in ({"adam": {}, "learning_rate": 0.001},
                          {"sgd": {"momentum": 0.9, "nesterov": True},
                           "learning_rate": 0.02},
                          {"adagrad": {}, "learning_rate": 0.02}):
            job = ["--job", paramd.SMALL_JOB,
                   f"--set=optimizer={json.dumps(optimizer)}"]
            scalar = final_tensors("run", *job, "--cpu=scalar")
            self.assert_same(final_tensors("run", *job, "--cpu=auto"), scalar,
                             f"with {optimizer}")

    def test_workers_in_step_give_the_bits_of_one_that_accumulates(self):
        job = ["--job", paramd.SMALL_JOB, "--set=staleness=sync",
               "--set=batch_per_replica=16"]
        alone = final_tensors("run", *job, "--set=accumulate=3")
        for servers in (1, 2):
            self.assert_same(
                final_tensors("local", *job, "--workers=3",
                              f"--servers={servers}"),
                alone, f"of 3 workers with {servers} servers")

    def test_another_seed_gives_other_weights(self):
        one, two = (final_tensors("run", "--job", paramd.SMALL_JOB,
                                  f"--seed={seed}") for seed in (1, 2))
        self.assertEqual(sorted(one), sorted(two))
        self.assertNotEqual(one["dense_1/kernel"], two["dense_1/kernel"])


if __name__ == "__main__":
    unittest.main()
