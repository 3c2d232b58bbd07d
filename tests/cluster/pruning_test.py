"""Weights that become zero while they are trained, by the formula and everywhere."""

import array
import json
import math
import os
import re
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

_KERNELS = ("dense_1/kernel", "dense_2/kernel")
# Of 24 examples, 4 at a time: 6 steps an epoch.
_PRUNING = {"variables": "*/kernel", "sparsity": 0.75, "begin_step": 3,
            "end_step": 15, "every_steps": 4}


def share(step):
    """The part that is zero at step 3, 7, 11 and 15, and later."""
    return 0.75 - 0.75 * (1 - (min(step, 15) - 3) / 12) ** 3


def zeros(content):
    values = array.array("f")
    values.frombytes(content)
    return [i for i, value in enumerate(values) if value == 0]


def optimizer(**pruning):
    return {"adam": {}, "learning_rate": 0.02,
            "pruning": [{**_PRUNING, **pruning}]}


class PruningTest(unittest.TestCase):

    def setUp(self):
        self.root = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        with open(os.path.join(self.root, "data.csv"), "w",
                  encoding="utf-8") as file:
            file.write("a,b,c,d,e,f,y\n")
            for i in range(24):
                x = [math.sin(i * (k + 1)) for k in range(6)]
                row = (*x, x[0] - x[3])
                file.write(",".join(f"{value:.4f}" for value in row) + "\n")

    def job(self, **settings):
        data = {"directory": self.root,
                "csv": {"files": "data.csv", "label": "y"}}
        return {
            "name": "pruned", "batch_per_replica": 4, "epochs": 4,
            "input": {"train": data, "test": data},
            "model": {"layers": [{"dense": 16}, "tanh", {"dense": 1}],
                      "loss": "mean_squared_error"},
            "optimizer": optimizer(),
            **settings,
        }

    def run_job(self, *command, **settings):
        directory = tempfile.mkdtemp(dir=self.root)
        path = os.path.join(directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.job(**settings), file)
        run = paramd.Run(*command, "--job", path, directory=directory)
        return run.wait(), run

    def trained(self, *command, **settings):
        code, run = self.run_job(*command, **settings)
        self.assertEqual(code, 0, run.output)
        return run

    def expect_zeros(self, tensors, step):
        for name, size in zip(_KERNELS, (96, 16)):
            kept = max(1, math.floor(size * (1 - share(step)) + 0.5))
            self.assertEqual(len(zeros(tensors[name])), size - kept, name)
        for name in ("dense_1/bias", "dense_2/bias"):
            self.assertEqual(zeros(tensors[name]), [], name)

    def test_the_share_rises_to_what_was_wanted(self):
        # A batch of all is one step an epoch.
        for epochs in (2, 3, 7, 15, 20):
            run = self.trained("run", batch_per_replica=24, epochs=epochs)
            if epochs < 3:
                for name in _KERNELS:
                    self.assertEqual(zeros(run.tensors()[name]), [])
            else:
                self.expect_zeros(run.tensors(), epochs)

    def same_everywhere(self, **pruning):
        """What 20 steps of three batches leave, under every strategy."""
        def weights(*command, **settings):
            return self.trained(*command, epochs=10,
                                optimizer=optimizer(**pruning),
                                **settings).tensors()

        sync = ("local", "--staleness=sync")
        whole = weights("run", "--strategy=one_device", accumulate=3)
        for command in ((*sync, "--servers=1", "--workers=3"),
                        (*sync, "--servers=2", "--workers=3"),
                        (*sync, "--servers=3", "--workers=1", "--accumulate=3"),
                        ("run", "--strategy=central_storage", "--replicas=3"),
                        ("run", "--strategy=mirrored", "--replicas=3")):
            self.assertEqual(weights(*command), whole, command)
        return whole

    def test_every_strategy_has_the_same_bits(self):
        self.expect_zeros(self.same_everywhere(), 20)

    def test_two_of_four_are_the_same_everywhere(self):
        whole = self.same_everywhere(structure="two_of_four", sparsity=0.5)
        # Of 6 inputs the last two are no four, and stay.
        for name, inputs, outputs in zip(_KERNELS, (6, 16), (16, 1)):
            gone = set(zeros(whole[name]))
            for output in range(outputs):
                for begin in range(0, inputs, 4):
                    four = range(begin, min(begin + 4, inputs))
                    there = [i for i in four if i * outputs + output in gone]
                    self.assertEqual(len(there), max(0, len(four) - 2),
                                     (name, output, begin))

    def test_channels_are_the_same_everywhere(self):
        # Of 16 units a quarter is left, with their biases; the output stays.
        whole = self.same_everywhere(structure="channels",
                                     variables="dense_1/*")
        bias = set(zeros(whole["dense_1/bias"]))
        self.assertEqual(len(bias), 12)
        self.assertEqual(set(zeros(whole["dense_1/kernel"])),
                         {row * 16 + unit for row in range(6)
                          for unit in bias})
        for name in ("dense_2/kernel", "dense_2/bias"):
            self.assertEqual(zeros(whole[name]), [], name)

    def test_channels_of_a_kernel_on_two_servers_are_those_of_all_of_it(self):
        # 1,280,000 numbers are two slices, of several blocks, whose borders lie
        # within rows: each server has a part of every channel.
        settings = {"epochs": 2, "staleness": "sync",
                    "model": {"layers": [{"dense": 40}, "tanh",
                                         {"dense": 32000}, "tanh",
                                         {"dense": 1}],
                              "loss": "mean_squared_error"},
                    "optimizer": optimizer(
                        structure="channels", variables="dense_2/kernel",
                        begin_step=2, end_step=6)}
        whole = self.trained("run", **settings).tensors()
        split = self.trained("local", "--servers=2", "--workers=1",
                             **settings).tensors()
        self.assertEqual(split, whole)
        gone = zeros(whole["dense_2/kernel"])
        self.assertEqual(len(gone), 40 * 24000)
        self.assertEqual(len({place % 32000 for place in gone}), 24000)

    def test_one_threshold_is_of_all_servers(self):
        whole = self.same_everywhere(scope="global")
        gone = [len(zeros(whole[name])) for name in _KERNELS]
        # Fewer at most by those that are as large to a thousandth.
        self.assertIn(96 + 16 - sum(gone), (28, 29), gone)

    def test_one_threshold_is_found_again_after_a_restart(self):
        # Step 6, with which the first run ends, is one of those that the
        # threshold is of, and step 7 the one that zeros come with.
        settings = {"staleness": "sync",
                    "optimizer": optimizer(scope="global", begin_step=2,
                                           end_step=14)}
        run_dir = os.path.join(self.root, "run")
        seen = []
        for epochs in (1, 2):
            self.trained("local", "--servers=2", "--workers=1",
                         f"--run_dir={run_dir}",
                         *(["--resume"] if seen else []), epochs=epochs,
                         **settings)
            newest = os.path.join(run_dir, "checkpoints",
                                  paramd.checkpoints(run_dir)[-1])
            seen.append(paramd.tensors(newest))
        self.assertEqual(seen[1],
                         self.trained("run", epochs=2, **settings).tensors())
        gone = [sum(len(zeros(tensors[name])) for name in _KERNELS)
                for tensors in seen]
        self.assertLess(gone[0], gone[1])

    def test_what_is_zero_does_not_travel(self):
        # 524,288 numbers in two blocks, of which an eighth is left from the
        # first step on; in one process nothing travels.
        model = {"layers": [{"dense": 512}, "tanh", {"dense": 1024}, "tanh",
                            {"dense": 1}],
                 "loss": "mean_squared_error"}
        pruned = optimizer(variables="dense_2/kernel", sparsity=0.875,
                           begin_step=1, end_step=1)

        def train(*command, **settings):
            run = self.trained(*command, model=model, staleness="sync",
                               **settings)
            return run, run.tensors()

        def pulled_bytes(**settings):
            # Of ten epochs more, 60 steps.
            received = []
            for epochs in (2, 12):
                run, tensors = train("local", "--servers=1", "--workers=1",
                                     epochs=epochs, **settings)
                log = run.log("worker-0")
                moved = re.findall(r"received_bytes=(\d+)", log)
                self.assertTrue(moved, log)
                received.append(sum(int(got) for got in moved))
            return received[1] - received[0], tensors

        dense, _ = pulled_bytes(optimizer={"adam": {}, "learning_rate": 0.02})
        self.assertGreater(dense, 58 * (2 << 20))
        for pull_format, most in (("fp32", 0.2), ("bf16", 0.15)):
            packed, tensors = pulled_bytes(optimizer=pruned,
                                           pull_format=pull_format)
            self.assertLess(packed, most * dense, pull_format)
            self.assertGreater(packed, 58 * (96 << 10), pull_format)
            _, whole = train("run", epochs=12, optimizer=pruned,
                             pull_format=pull_format)
            self.assertEqual(len(zeros(whole["dense_2/kernel"])), 7 << 16)
            self.assertEqual(sorted(tensors), sorted(whole))
            for name, values in whole.items():
                # Not assertEqual, which would print megabytes.
                self.assertTrue(tensors[name] == values, name)

    def test_in_mode_async_each_server_prunes_what_it_holds(self):
        run = self.trained("local", "--servers=2", "--workers=2", epochs=12)
        self.expect_zeros(run.tensors(), 100)

    def test_zeros_outlive_checkpoints_and_a_second_job(self):
        run_dir = os.path.join(self.root, "run")
        seen = []
        for epochs in (3, 6):
            self.trained("local", "--servers=2", "--workers=1",
                         "--staleness=sync", f"--run_dir={run_dir}",
                         *(["--resume"] if seen else []), epochs=epochs)
            newest = os.path.join(run_dir, "checkpoints",
                                  paramd.checkpoints(run_dir)[-1])
            seen.append(paramd.tensors(newest))
        whole = self.trained("run", epochs=6).tensors()
        self.assertEqual(seen[1], whole)
        for name in _KERNELS:
            self.assertEqual(zeros(seen[1][name]), zeros(seen[0][name]))
        # What another job begins with stays as sparse, and learns.
        tuned = self.trained(
            "run", epochs=3, warm_start={"path": newest},
            optimizer={"sgd": {}, "learning_rate": 0.1, "pruning": [
                {"variables": "*/kernel", "sparsity": 0.75, "begin_step": 0,
                 "end_step": 1}]}).tensors()
        for name in _KERNELS:
            self.assertEqual(zeros(tuned[name]), zeros(seen[1][name]))
            self.assertNotEqual(tuned[name], seen[1][name])

    def test_what_is_left_is_told(self):
        run = self.trained("run")
        exported = os.path.join(self.root, "exported")
        for command, said in (
                (("inspect", run.run_directory(), "--values"), "75.0 %"),
                (("export", run.run_directory(), "--to", exported),
                 "% of the weights are zero")):
            done = subprocess.run(
                [paramd.BINARY, "checkpoint", *command], check=False, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn(said, done.stdout)

    def test_what_makes_no_sense_is_refused_in_a_sentence(self):
        for change, wanted, sentence in (
                ({"sparsity": 1}, 2, "optimizer.pruning[0].sparsity"),
                ({"end_step": 2}, 2,
                 "optimizer.pruning[0].end_step: must be at least begin_step "
                 "(3); found 2"),
                ({"initial_sparsity": 0.8}, 2,
                 "optimizer.pruning[0].initial_sparsity: must be at most "
                 "sparsity (0.75); found 0.8"),
                ({"structure": "two_of_four"}, 2,
                 "optimizer.pruning[0].sparsity: must be 0.5 with structure "
                 "\"two_of_four\"; found 0.75"),
                ({"structure": "two_of_four", "sparsity": 0.5,
                  "variables": "*"}, 2,
                 "optimizer.pruning names 'dense_1/bias' with structure "
                 "two_of_four"),
                ({"scope": "global"}, 2,
                 "optimizer.pruning[0].scope: \"global\" needs staleness "
                 "\"sync\""),
                ({"structure": "channels"}, 2,
                 "optimizer.pruning[0].structure: \"channels\" needs "
                 "staleness \"sync\""),
                ({"variables": "dense_1/kernle"}, 2,
                 "optimizer.pruning names 'dense_1/kernle', which no variable "
                 "is called; the closest is 'dense_1/kernel'")):
            code, run = self.run_job(
                "run", optimizer={"sgd": {}, "learning_rate": 0.1,
                                  "pruning": [{**_PRUNING, **change}]})
            self.assertEqual(code, wanted, run.output)
            said = [line for line in run.output.splitlines()
                    if line.startswith("paramd: ")]
            self.assertEqual(len(said), 1, run.output)
            self.assertIn(sentence, said[0])


if __name__ == "__main__":
    unittest.main()
