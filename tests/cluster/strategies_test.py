"""One program, every strategy: the same weights, and from each to any other."""

import array
import json
import os
import signal
import tempfile
import unittest

from tests.cluster import paramd

# Adam with its slots, several variables, a step that is short at the end of the
# epoch: 10000 examples in steps of 120.
JOB = {
    "name": "one-job",
    "input": {"format": "idx", "directory": paramd.DATA,
              "train_images": "t10k-images-idx3-ubyte.gz",
              "train_labels": "t10k-labels-idx1-ubyte.gz"},
    "model": {"layers": ["flatten", {"dense": 64}, "relu", {"dense": 10}],
              "loss": "softmax_cross_entropy"},
    "optimizer": {"adam": {}, "learning_rate": 0.001, "schedule": "cosine",
                  "decay_steps": 300},
    "batch_per_replica": 60,
    "epochs": 1,
    "all_reduce": {"check_every_steps": 10, "bucket_bytes": 100000},
}
PS = ["local", "--workers=2", "--servers=2", "--staleness=sync"]
ONE_PS = ["local", "--workers=1", "--servers=2", "--staleness=sync"]
CENTRAL = ["run", "--strategy=central_storage", "--replicas=2"]
MIRRORED = ["run", "--strategy=mirrored", "--replicas=2"]
COPIES = ["local", "--strategy=multi_worker_mirrored", "--workers=2"]
ONE_DEVICE = ["run", "--strategy=one_device"]
# In the order of two replicas.
IN_TURN = [*ONE_DEVICE, "--accumulate=2"]


def setUpModule():
    paramd.need_data()


class StrategiesTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(JOB, file)

    def train(self, command, *flags, run_dir=None):
        """What it trained; its run's directory is `run_dir` or a new one."""
        own = [f"--run_dir={run_dir}"] if run_dir else []
        run = paramd.Run(*command, "--job", self.job, *own, *flags)
        self.assertEqual(run.wait(), 0, run.output)
        return self.tensors(run_dir) if run_dir else run.tensors()

    def tensors(self, run_dir):
        return paramd.tensors(os.path.join(run_dir, "checkpoints",
                                           paramd.checkpoints(run_dir)[-1]))

    def assert_same(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, values in expected.items():
            # Not assertEqual, which would print megabytes.
            self.assertTrue(found[name] == values, name)

    def test_two_replicas_have_the_bits_of_two_workers_with_servers(self):
        with_servers = self.train(PS)
        self.assertEqual(len(with_servers), 4 * 3)
        self.assert_same(self.train(CENTRAL), with_servers)
        self.assert_same(self.train(MIRRORED), with_servers)

    def test_a_clipped_norm_is_of_the_same_numbers_on_two_servers(self):
        clipped = "--set=optimizer.clip_norm=0.1"
        self.assert_same(self.train(CENTRAL, clipped), self.train(PS, clipped))

    def test_clipped_by_the_norm_of_all_each_has_the_steps_gradient(self):
        clipped = "--set=optimizer.clip_global_norm=0.1"
        central = self.train(CENTRAL, clipped)
        for command in (MIRRORED, COPIES, IN_TURN, [*ONE_PS, "--replicas=2"],
                        ["local", "--workers=1", "--servers=2", "--replicas=2"]):
            self.assert_same(self.train(command, clipped), central)
        self.assertNotEqual(central, self.train(CENTRAL))

    def test_three_replicas_have_the_bits_of_three_workers_with_servers(self):
        with_servers = self.train(
            ["local", "--workers=3", "--servers=1", "--staleness=sync"],
            "--batch_per_replica=40")
        for command in (CENTRAL, MIRRORED):
            self.assert_same(self.train(command, "--replicas=3",
                                        "--batch_per_replica=40"), with_servers)

    def test_replicas_of_one_worker_have_the_bits_of_two_workers(self):
        with_servers = self.train(PS)
        self.assert_same(self.train(ONE_PS, "--replicas=2"), with_servers)
        # Alone, without steps, a push is of the mean over the same examples.
        self.assert_same(
            self.train(["local", "--workers=1", "--servers=2"], "--replicas=2"),
            with_servers)

    def test_one_device_has_the_bits_of_one_worker_with_servers(self):
        self.assert_same(self.train(ONE_DEVICE), self.train(ONE_PS))

    def test_another_order_of_sums_is_within_1e_6_after_1000_steps(self):
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump({**JOB, "input": {"format": "idx",
                                        "directory": paramd.DATA}}, file)
        copies = self.train(MIRRORED, "--epochs=2")
        alone = self.train(ONE_DEVICE, "--epochs=2", "--batch_per_replica=120")
        self.assertNotEqual(copies, alone)
        for name, values in copies.items():
            found = zip(array.array("f", values),
                        array.array("f", alone[name]))
            self.assertLess(max(abs(a - b) for a, b in found), 1e-6, name)

    def test_a_checkpoint_of_any_strategy_starts_any_other(self):
        # Each behind each other one, once: an epoch of each.
        order = [PS, COPIES, PS, MIRRORED, PS, CENTRAL, PS, IN_TURN, COPIES,
                 MIRRORED, COPIES, CENTRAL, COPIES, IN_TURN, MIRRORED, CENTRAL,
                 MIRRORED, IN_TURN, CENTRAL, IN_TURN, PS]
        self.assertEqual(len({(str(one), str(other)) for one, other
                              in zip(order, order[1:])}), 5 * 4)
        slowly = "--set=optimizer.decay_steps=2000"
        undisturbed = self.train(MIRRORED, f"--epochs={len(order)}", slowly)
        run_dir = os.path.join(self.directory, "moved")
        for epoch, command in enumerate(order, start=1):
            resume = ["--resume"] if command[0] == "local" and epoch > 1 else []
            moved = self.train([*command, *resume], f"--epochs={epoch}", slowly,
                               run_dir=run_dir)
        self.assert_same(moved, undisturbed)
        self.assertFalse(os.path.exists(os.path.join(run_dir, "replicas")))

    def test_a_run_that_was_asynchronous_goes_on_in_steps(self):
        run_dir = os.path.join(self.directory, "moved")
        self.train(["run"], run_dir=run_dir)
        self.train(CENTRAL, "--epochs=2", run_dir=run_dir)
        steps = 10000 // 60 + 1 + 10000 // 120 + 1
        self.assertTrue(paramd.checkpoints(run_dir)[-1].endswith(
            f"step-{steps}"), paramd.checkpoints(run_dir))

    def test_a_stopped_one_says_143_and_goes_on_to_the_same_bits(self):
        undisturbed = self.train(MIRRORED, "--epochs=6")
        run_dir = os.path.join(self.directory, "stopped")
        command = [*MIRRORED, "--job", self.job, "--epochs=6",
                   f"--run_dir={run_dir}", "--set=checkpoint.every_steps=20"]
        run = paramd.Run(*command)
        self.addCleanup(run.kill)
        run.wait_for("checkpoint committed at step")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 143, run.output)
        run = paramd.Run(*command)
        self.addCleanup(run.kill)
        run.wait_for("checkpoint committed at step")
        run.signal(signal.SIGKILL)
        run.wait()
        run = paramd.Run(*command)
        self.assertEqual(run.wait(), 0, run.output)
        self.assert_same(self.tensors(run_dir), undisturbed)

    def test_a_broken_example_ends_all_replicas_and_is_named(self):
        table = os.path.join(self.directory, "table.csv")
        with open(table, "w", encoding="utf-8") as file:
            file.write("kind,x\n" + "0,1\n1,2\n" * 100 + "0,many\n")
        csv = {"csv": {"files": table, "label": "kind", "classes": 2}}
        job = {"name": "broken", "batch_per_replica": 10, "epochs": 9,
               "input": {"train": csv, "test": csv},
               "model": {"layers": [{"dense": 2}],
                         "loss": "softmax_cross_entropy"},
               "optimizer": {"sgd": {}, "learning_rate": 0.1}}
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        for command in (MIRRORED, CENTRAL, ONE_DEVICE):
            run = paramd.Run(*command, "--job", self.job)
            self.assertEqual(run.wait(), 1, run.output)
            self.assertIn("line 202: column 'x' needs a number", run.output)

    def test_what_a_strategy_cannot_do_is_said_at_once(self):
        for flags, sentence in [
                (["--strategy=one_device", "--replicas=2"],
                 '"mirrored" or "central_storage" has several'),
                (["--replicas=2", "--push_every=3"],
                 "each push is the sum of one gradient of each"),
                (["--strategy=mirrored", "--staleness=8"],
                 'choose strategy "parameter_server"'),
                (["--strategy=mirrored", "--push_every=2"],
                 'choose strategy "parameter_server"'),
                (["--strategy=mirrored", "--cluster=worker=a:1,b:1",
                  "--task_type=worker", "--task_index=0"],
                 'choose "multi_worker_mirrored"'),
                (["--cluster=worker=a:1,b:1", "--task_type=worker",
                  "--task_index=0"],
                 "has no 'ps' tasks")]:
            run = paramd.Run("run", "--job", self.job, *flags)
            self.assertEqual(run.wait(), 2, run.output)
            self.assertIn(sentence, run.output)


if __name__ == "__main__":
    unittest.main()
