"""A replicated job in which one process's disk is slow: each fsync takes two
seconds there, while a server dies.

What must come out: nobody waits for that disk unnecessarily. A backup takes
over while a checkpoint is being written, no worker and no server is lost for
it, and each block has taken as many pushes as there are batches.
"""

import json
import os
import subprocess
import time
import unittest

from tests.cluster import paramd

SERVERS = 3
WORKERS = 2
SLOW_MS = 2000
BATCHES_PER_EPOCH = 8  # Of the tiny job.
SHIM = os.path.abspath("tests/cluster/libslow_disk.so")
# For each thing that must happen, in seconds.
PATIENCE = 60
# Those that work with files. No other thread may wait for a disk: the one of
# the loop has the name of the program.
FILE_THREADS = {"storage", "log", "ps-files"}


class Job:
    """Processes that train until they are stopped."""

    def __init__(self):
        self.cluster = paramd.Cluster(SERVERS, WORKERS)
        with open(self.cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        # A part of it for each server.
        job["model"]["layers"] = ["flatten", {"dense": 16}, "relu",
                                  {"dense": 10}]
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump({**job, "portion_batches": 3, "replication": 2,
                       "evaluate_every_epochs": 0, "heartbeat_ms": 100}, file)
        self.runs = {}

    def start(self, task, epochs=1000000):
        self.runs[task] = self.cluster.start(
            task, f"--epochs={epochs}",
            environment={"LD_PRELOAD": SHIM, "SLOW_DISK": self.path(task)})

    def close(self):
        for run in self.runs.values():
            run.kill()

    # ---- its disks

    def path(self, task):
        return os.path.join(self.cluster.directory, f"{task}.slow")

    def slow_down(self, task):
        """Each fsync of the process is slow from now on."""
        new = self.path(task) + ".new"
        with open(new, "w", encoding="ascii") as file:
            file.write(str(SLOW_MS))
        os.rename(new, self.path(task))

    def speed_up(self, task):
        os.remove(self.path(task))

    def slow_calls(self, task):
        """Of each slow fsync of it the thread and the path."""
        try:
            with open(self.path(task) + ".calls", encoding="utf-8") as file:
                return [line.split(" ", 1) for line in file.read().splitlines()]
        except FileNotFoundError:
            return []

    # ---- how it is

    def wait_until(self, true, what):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := true():
                return found
            time.sleep(0.02)
        raise AssertionError(f"in vain: {what}")

    def status(self):
        """For programs; None if the chief does not answer."""
        said = subprocess.run(
            [paramd.BINARY, "status", "--format", "json",
             self.cluster.address("worker-0")],
            capture_output=True, text=True, check=False).stdout
        return json.loads(said).get("job") if said else None

    def wait_for_backups(self):
        """Until each server has one that holds everything."""
        def all_have():
            job = self.status()
            return job and all(member["backup_is_member"]
                               for member in job["members"]
                               if member["task"]["type"] == "PS")
        self.wait_until(all_have, "a backup of each server")

    def wait_for_steps(self):
        """Until it has trained on."""
        step = lambda: (self.status() or {}).get("global_step", 0)
        first = self.wait_until(step, "a step")
        self.wait_until(lambda: step() > first + 20, f"steps after {first}")

    def newest_checkpoint(self):
        name = paramd.checkpoints(self.cluster.run_directory)[-1]
        return os.path.join(self.cluster.run_directory, "checkpoints", name)


class SlowDiskTest(unittest.TestCase):

    def start(self):
        self.job = Job()
        self.addCleanup(self.job.close)
        for task in self.job.cluster.tasks:
            self.job.start(task)
        self.job.wait_for_backups()
        self.job.wait_for_steps()
        self.chief = self.job.runs["worker-0"]

    def begin_checkpoint(self):
        """One of an operator, who waits for it."""
        command = subprocess.Popen(
            [paramd.BINARY, "checkpoint", "now",
             self.job.cluster.run_directory],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(command.stdout.close)
        self.addCleanup(command.wait)
        self.addCleanup(command.kill)
        return command

    def kill(self, task):
        self.job.runs[task].kill()

    def come_back(self, task):
        self.job.start(task)
        self.job.wait_for_backups()
        self.job.wait_for_steps()

    def finish(self, slow):
        """The job goes on to the end of an epoch, and then the sum is taken."""
        self.assertLessEqual(
            {thread for thread, _ in self.job.slow_calls(slow)}, FILE_THREADS,
            "a thread that others wait for has waited for the disk")
        done = subprocess.run(
            [paramd.BINARY, "stop", self.job.cluster.run_directory],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.end_all()
        for task in ("worker-0", "worker-1"):
            # Nobody has begun anew.
            self.assertEqual(
                self.job.runs[task].output.count("first push of generation"), 1,
                self.job.runs[task].output)
        for lost in ("came back without its shard", "all servers go back",
                     "is silent"):
            self.assertNotIn(lost, self.chief.output)
        step = int(self.job.newest_checkpoint().rsplit("-", 1)[1])
        # A worker may have begun the one after the next.
        epochs = step // BATCHES_PER_EPOCH + 4
        for task in self.job.cluster.tasks:
            self.job.start(task, epochs)
        self.end_all()
        self.check_sum(BATCHES_PER_EPOCH * epochs)

    def end_all(self):
        for task, run in self.job.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}\n{run.output}")

    def check_sum(self, pushes):
        """Each block has taken them, and nothing is said to be lost."""
        with open(os.path.join(self.job.newest_checkpoint(), "manifest.json"),
                  encoding="utf-8") as file:
            files = json.load(file)["files"]
        self.assertEqual(len(files), SERVERS)
        for file in files:
            self.assertEqual(file.get("lost", []), [])
            self.assertEqual({int(run["applied"]) for saved in file["slices"]
                              for run in saved["applied"]}, {pushes},
                             file["name"])
        with open(os.path.join(self.job.cluster.run_directory, "result.json"),
                  encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(
            (int(result["pushes_lost"]), int(result["pushes_doubled"])), (0, 0))

    def test_Promise5_a_take_over_does_not_wait_for_a_chiefs_checkpoint(self):
        self.start()
        self.job.slow_down("worker-0")
        command = self.begin_checkpoint()
        self.job.wait_until(
            lambda: any(path.endswith("/manifest.crc32c")
                        for _, path in self.job.slow_calls("worker-0")),
            "the chief commits a checkpoint")
        self.kill("ps-1")
        self.chief.wait_for("ps-1 is gone; its backup takes over")
        # Six files and directories are synced for that, of which the first one
        # was under way; four for the two entries of the log.
        self.assertNotIn("checkpoint committed", self.chief.output)
        self.job.wait_for_steps()
        self.job.speed_up("worker-0")
        self.assertEqual(command.wait(), 0, command.stdout.read())
        self.come_back("ps-1")
        self.finish(slow="worker-0")

    def test_Promise5_nobody_waits_for_the_disk_of_a_server(self):
        self.start()
        self.job.slow_down("ps-0")
        self.begin_checkpoint()
        self.job.wait_until(
            lambda: any(thread == "ps-files"
                        for thread, _ in self.job.slow_calls("ps-0")),
            "ps-0 writes its file")
        # Training goes on meanwhile, and so it does with one ps less.
        self.job.wait_for_steps()
        self.kill("ps-1")
        self.chief.wait_for("ps-1 is gone; its backup takes over")
        self.job.wait_for_steps()
        self.come_back("ps-1")
        self.job.speed_up("ps-0")
        self.finish(slow="ps-0")


if __name__ == "__main__":
    unittest.main()
