"""Each kind of bad input: one clear sentence and the right exit code."""

import gzip
import json
import os
import shutil
import socket
import tempfile
import unittest

from tests.cluster import paramd


class BadInputTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.data = os.path.join(self.directory, "data")
        os.mkdir(self.data)
        self.job = paramd.tiny_job(self.data)

    def write(self, name, content):
        with gzip.open(os.path.join(self.data, name), "wb") as file:
            file.write(content)

    def run_job(self, command="run", *flags, **environment):
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.job, file)
        run = paramd.Run(command, "--job", path, *flags,
                         directory=self.directory, environment=environment)
        run.wait()
        return run

    def assert_refused(self, run, code, *words):
        self.assertEqual(run.process.returncode, code, run.output)
        sentences = [line for line in run.output.splitlines()
                     if line.startswith("paramd: ")]
        self.assertTrue(sentences, run.output)
        for word in words:
            self.assertIn(word, sentences[0])
        return sentences[0]

    def test_the_job_itself_is_good(self):
        run = self.run_job()
        self.assertEqual(run.process.returncode, 0, run.output)

    def test_a_device_that_is_not_there_or_is_none(self):
        self.assert_refused(self.run_job("run", "--device=cuda:99"), 2,
                            "device ", "cuda:99")
        self.assert_refused(
            self.run_job("run", "--device=gpu"), 2,
            "device is 'gpu'; it must be cpu, auto, cuda, or cuda:0 and "
            "so on")

    def test_a_plugin_that_is_not_there_or_is_none(self):
        self.assert_refused(
            self.run_job("run", "--device=pjrt:/nowhere/plugin.so:0"), 2,
            "device pjrt:/nowhere/plugin.so:0 can't be used: it can't be loaded",
            "every strategy also runs on cpu")
        self.assert_refused(
            self.run_job("run", "--device=pjrt:libm.so.6:0"), 2,
            "it is not a PJRT plugin: it exports no GetPjrtApi")

    def test_a_worker_with_other_labels(self):
        cluster = paramd.Cluster(servers=1, workers=2)
        self.job = paramd.tiny_job(self.data)
        self.write("train-labels-idx1-ubyte.gz",
                   paramd.idx((64,), bytes(9 - i % 10 for i in range(64))))
        runs = [cluster.start("ps-0"), cluster.start("worker-0"),
                cluster.start("worker-1", "--set",
                              f"input.directory={self.data}")]
        for run in runs:
            self.addCleanup(run.kill)
        runs[-1].wait()
        sentence = self.assert_refused(runs[-1], 2, f"in '{self.data}'",
                                       f"in '{cluster.directory}'")
        self.assertRegex(sentence, r": other labels \(crc32c \w+, not \w+\)")

    def test_an_unknown_key(self):
        self.job["epoch"] = 3
        run = self.run_job()
        self.assert_refused(run, 2, "job.json:1", "epoch", "epochs")
        run = self.run_job("local")
        self.assert_refused(run, 2, "job.json:1", "epoch", "epochs")
        self.assertFalse(os.path.exists(os.path.join(self.directory, "runs")))

    def test_an_unknown_flag(self):
        self.assert_refused(self.run_job("run", "--epoch=3"), 2,
                            "--epoch", "--epochs")

    def test_a_missing_job_file(self):
        run = paramd.Run("local", "--job", "nowhere.json",
                         directory=self.directory)
        run.wait()
        self.assert_refused(run, 2, "nowhere.json")

    def test_a_truncated_file(self):
        name = os.path.join(self.data, "train-images-idx3-ubyte.gz")
        with gzip.open(name) as file:
            whole = file.read()
        self.write("train-images-idx3-ubyte.gz", whole[:-100])
        self.assert_refused(self.run_job(), 1, "train-images-idx3-ubyte.gz")
        self.assert_refused_by_chief(
            self.run_job("local"), 1, "train-images-idx3-ubyte.gz")

    def test_a_truncated_compressed_file(self):
        name = os.path.join(self.data, "train-labels-idx1-ubyte.gz")
        with open(name, "rb") as file:
            whole = file.read()
        with open(name, "wb") as file:
            file.write(whole[:-5])
        self.assert_refused(self.run_job(), 1, "train-labels-idx1-ubyte.gz")

    def assert_refused_by_chief(self, run, code, *words):
        """`paramd local` says which process failed and shows its last lines."""
        sentence = self.assert_refused(run, code)
        failed = [line for line in run.output.splitlines()
                  if line.startswith("paramd: worker-")
                  and f"exited {code}" in line]
        self.assertTrue(failed, run.output)
        shown = run.output.split(failed[0])[1]
        for word in words:
            self.assertIn(word, shown)
        return sentence

    def test_layers_that_do_not_fit(self):
        self.job["model"]["layers"] = [{"dense": 10}]
        self.assert_refused(self.run_job(), 2, "dense")

    def test_outputs_that_are_no_classes(self):
        self.job["model"]["layers"] = ["flatten", {"dense": 3}]
        self.assert_refused(self.run_job(), 2, "3")

    def test_a_directory_that_is_not_writable(self):
        closed = os.path.join(self.directory, "closed")
        os.mkdir(closed, mode=0o500)
        # Root may write everywhere but where the system itself says no.
        directory = "/proc/closed" if os.geteuid() == 0 else closed
        self.assert_refused(
            self.run_job("run", f"--set=checkpoint.directory={directory}"), 2,
            directory)

    def test_a_directory_that_cannot_be_made(self):
        file = os.path.join(self.directory, "file")
        with open(file, "w", encoding="utf-8"):
            pass
        self.assert_refused(
            self.run_job("run", f"--set=checkpoint.directory={file}/x"), 2,
            file)

    def test_a_run_directory_that_is_not_empty(self):
        self.assert_refused(
            self.run_job("local", f"--run_dir={self.data}"), 2, "not empty",
            "--resume")

    def test_nothing_to_go_on_with(self):
        for place in ("typo", self.data):
            path = os.path.join(self.directory, place)
            self.assert_refused(
                self.run_job("local", "--resume", f"--run_dir={path}"), 2,
                "there is no run to go on with", path)
        self.assertFalse(os.path.exists(os.path.join(self.directory, "typo")))
        self.assert_refused(self.run_job("local", "--resume"), 2,
                            "there is no run of")

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            cluster = {"ps": [address], "worker": ["127.0.0.1:1"]}
            run = self.run_job("run", TF_CONFIG=json.dumps(
                {"cluster": cluster, "task": {"type": "ps", "index": 0}}))
        self.assert_refused(run, 2, address, "in use")

    def test_an_address_that_others_can_reach(self):
        cluster = {"ps": ["0.0.0.0:4711"], "worker": ["127.0.0.1:1"]}
        run = self.run_job("run", TF_CONFIG=json.dumps(
            {"cluster": cluster, "task": {"type": "ps", "index": 0}}))
        self.assert_refused(run, 2, "0.0.0.0", "--insecure")

    def test_a_wrong_tf_config(self):
        run = self.run_job("run", TF_CONFIG="{\"cluster\": ")
        self.assert_refused(run, 2, "TF_CONFIG")

    def test_a_loss_that_is_not_a_number(self):
        # A step of this size makes the weights overflow at once.
        self.job["optimizer"]["learning_rate"] = 1e6
        self.job["model"]["layers"] = ["flatten"] + [{"dense": 10}] * 12
        self.job["epochs"] = 50
        run = self.run_job()
        self.assert_refused(run, 1, "loss")
        root = run.run_directory()
        for name in paramd.checkpoints(root):
            listed = paramd.Run("checkpoint", "list", root)
            self.assertEqual(listed.wait(), 0, listed.output)
            self.assertIn(name, listed.output)

    def test_a_start_that_fails_leaves_no_run_to_go_on_with(self):
        good = self.run_job()
        self.assertEqual(good.process.returncode, 0, good.output)
        runs = os.path.join(self.directory, "runs")
        self.assertEqual(len(os.listdir(runs)), 1)
        run_dir = os.path.relpath(good.run_directory(), self.directory)
        wrong = ("--set", f"input.directory={self.directory}")
        self.assert_refused(self.run_job("run", *wrong), 2)
        self.assertEqual(len(os.listdir(runs)), 1)
        # Of a cluster its logs stay.
        self.assert_refused(self.run_job("local", *wrong), 2)
        self.assertEqual(len(os.listdir(runs)), 2)
        again = self.run_job("local", "--resume", "--epochs=2")
        self.assertEqual(again.process.returncode, 0, again.output)
        self.assertIn(f"run {run_dir},", again.output)

    def test_nothing_that_was_written_is_damaged(self):
        good = self.run_job()
        self.assertEqual(good.process.returncode, 0, good.output)
        before = paramd.tensors(self.newest(good))
        shutil.rmtree(self.data)
        again = self.run_job("run", f"--run_dir={good.run_directory()}")
        self.assert_refused(again, 2)
        self.assertEqual(paramd.tensors(self.newest(good)), before)

    @staticmethod
    def newest(run):
        root = run.run_directory()
        return os.path.join(root, "checkpoints", paramd.checkpoints(root)[-1])


if __name__ == "__main__":
    unittest.main()
