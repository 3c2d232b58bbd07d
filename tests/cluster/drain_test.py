"""Processes that are told to stop: nothing is lost, and they say 143."""

import gzip
import json
import os
import select
import signal
import struct
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

STOPPED = 143
# Enough to be in the middle of; fewer where every instruction costs ten.
EPOCHS = 300 if "PARAMD_SANITIZER" in os.environ else 1000
STEPS = 8 * EPOCHS


class LongCluster(paramd.Cluster):
    """Two servers and two workers with thousands of small steps to do."""

    def __init__(self):
        super().__init__(servers=2, workers=2)
        with open(self.job, encoding="utf-8") as file:
            job = json.load(file)
        job["epochs"] = EPOCHS
        job["evaluate_every_epochs"] = 0
        job["portion_batches"] = 3
        job["heartbeat_ms"] = 100  # How soon a server is heard to drain.
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(job, file)

    def steps(self):
        path = os.path.join(self.run_directory, "result.json")
        with open(path, encoding="utf-8") as file:
            return int(json.load(file)["global_step"])


class DrainTest(unittest.TestCase):

    def setUp(self):
        self.cluster = LongCluster()
        self.runs = {}
        for task in self.cluster.tasks:
            self.start(task)
        # The others' first words are of no use to these tests.
        self.runs["worker-1"].wait_for("joined as generation")

    def start(self, task):
        self.runs[task] = self.cluster.start(task)
        self.addCleanup(self.runs[task].kill)

    def stop(self, *tasks):
        for task in tasks:
            self.runs[task].signal(signal.SIGTERM)
        for task in tasks:
            self.assertEqual(self.runs[task].wait(), STOPPED,
                             self.runs[task].output)

    def finish(self):
        for task, run in self.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        self.assertEqual(self.cluster.steps(), STEPS)

    def test_Promise1_a_server_leaves_with_all_it_has(self):
        self.stop("ps-1")
        self.assertIn("drained: all of ps-1 is in checkpoint",
                      self.runs["ps-1"].output)
        self.start("ps-1")
        self.finish()
        self.assertIn("which is all it had", self.runs["worker-0"].output)

    def test_Promise1_a_worker_gives_back_what_it_has_not_used(self):
        self.stop("worker-1")
        self.start("worker-1")
        self.finish()

    def test_Promise5_the_whole_cluster_stops_and_goes_on(self):
        self.stop(*self.cluster.tasks)
        for task in self.cluster.tasks:
            self.start(task)
        self.finish()
        self.assertIn("going on from checkpoint", self.runs["worker-0"].output)

    def test_a_second_signal_ends_it_at_once(self):
        chief = self.runs["worker-0"]
        chief.signal(signal.SIGSTOP)  # So that the server has to wait.
        self.addCleanup(chief.signal, signal.SIGCONT)
        server = self.runs["ps-1"]
        server.signal(signal.SIGTERM)
        server.wait_for("draining: ps-1 asks the coordinator")
        server.signal(signal.SIGTERM)
        server.wait_for("a repeat of the signal counts once")
        while server.process.poll() is None:  # Until it is none any more.
            server.signal(signal.SIGTERM)
            select.select([], [], [], 0.1)
        self.assertEqual(server.wait(), STOPPED)
        self.assertIn("a second signal: ending at once", server.output)
        self.assertNotIn("drained:", server.output)


class FirstProcessTest(unittest.TestCase):
    """In a container paramd has process id 1: no signal ends it by default."""

    UNDER = ("unshare", "--fork", "--pid")

    def setUp(self):
        if subprocess.run([*self.UNDER, "true"], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no process may have an id space of its own here")

    def test_it_drains_as_any_other(self):
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        job = os.path.join(directory, "job.json")
        with open(job, "w", encoding="utf-8") as file:
            json.dump(paramd.tiny_job(directory), file)
        run = paramd.Run("run", "--job", job, "--epochs=100000",
                         under=self.UNDER)
        self.addCleanup(run.kill)
        run.wait_for("joined as generation")
        with open(f"/proc/{run.process.pid}/task/{run.process.pid}/children",
                  encoding="ascii") as file:
            child = int(file.read())
        with open(f"/proc/{child}/status", encoding="ascii") as file:
            (ids,) = [line.split() for line in file
                      if line.startswith("NSpid:")]
        self.assertEqual(ids[-1], "1")
        os.kill(child, signal.SIGTERM)
        self.assertEqual(run.wait(), STOPPED, run.output)
        self.assertIn("ended exit_code=143", run.output)


class EveryStepTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(paramd.tiny_job(self.directory), file)

    def test_one_that_still_reads_its_data_ends_at_once(self):
        images = os.path.join(self.directory, "train-images-idx3-ubyte.gz")
        count = 40_000_000  # Seconds to read.
        with gzip.open(images, "wb", compresslevel=1) as file:
            file.write(struct.pack(">4i", 0x803, count, 4, 4))
            for _ in range(count // 1_000_000):
                file.write(bytes(16_000_000))
        for number, code in ((signal.SIGTERM, STOPPED), (signal.SIGINT, 130),
                             (signal.SIGHUP, STOPPED)):
            run = paramd.Run("run", "--job", self.job)
            self.addCleanup(run.kill)
            run.wait_for("configured")
            run.signal(number)
            self.assertEqual(run.wait(), code, run.output)
            self.assertIn("ended before it was ready", run.output)

    def test_what_hangs_behind_the_drain_is_not_waited_for(self):
        trace = os.path.join(self.directory, "trace")
        reason = os.path.join(self.directory, "reason")
        run = paramd.Run("run", "--job", self.job, "--epochs=100000",
                         "--drain_timeout_ms=100", f"--trace={trace}",
                         f"--termination_log={reason}")
        self.addCleanup(run.kill)
        run.wait_for("joined as generation")
        with open(reason, "w", encoding="utf-8"):
            pass  # As Kubernetes makes it.
        os.remove(trace)
        os.mkfifo(trace)  # Which nobody reads.
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(), STOPPED, run.output)
        self.assertIn("what is under way has not ended", run.output)
        with open(reason, encoding="utf-8") as file:
            self.assertIn("stopped by SIGTERM", file.read())

    def test_a_reader_that_goes_away_ends_nobody(self):
        run = paramd.Run("local", "--job", self.job,
                         f"--run_dir={self.directory}/run")
        self.addCleanup(run.kill)
        run.process.stdout.readline()
        run.process.stdout.close()
        self.assertEqual(run.process.wait(), 0)
        self.assertTrue(
            os.path.exists(os.path.join(self.directory, "run/result.json")))


if __name__ == "__main__":
    unittest.main()
