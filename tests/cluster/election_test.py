"""An etcd decides which process is the chief, and another one takes over."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from tests.cluster import paramd

STEPS_AN_EPOCH = 8
EPOCHS = 8000  # So long that chiefs come and go meanwhile.
SHORT_LEASE = ("--lease_ms=4000", "--heartbeat_ms=100")
ETCD = shutil.which("etcd", path=os.pathsep.join(
    [os.path.dirname(sys.executable), "/usr/bin", os.environ["PATH"]]))
NEEDS_ETCD = unittest.skipUnless(
    ETCD, "needs etcd of Debian's package etcd-server")


class Etcd:
    """An etcd of one member, which keeps what it has when it is started again."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.address, self.peers = paramd.draw_addresses(2)
        self.process = None
        self.start()

    def start(self):
        with open(os.path.join(self.directory, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [ETCD, "--data-dir", os.path.join(self.directory, "data"),
                 "--listen-client-urls", f"http://{self.address}",
                 "--advertise-client-urls", f"http://{self.address}",
                 "--listen-peer-urls", f"http://{self.peers}",
                 "--initial-advertise-peer-urls", f"http://{self.peers}",
                 "--initial-cluster", f"default=http://{self.peers}"],
                stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()


def free_address():
    """Of a port where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


class ElectionTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(2, 2)
        with open(self.cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update({"epochs": EPOCHS, "evaluate_every_epochs": 0})
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)

    def start(self, task, etcd, *flags, cluster=None):
        run = self.cluster.start(
            task, f"--chief_election=etcd://{etcd}/jobs/tiny", *flags,
            cluster=cluster)
        self.addCleanup(run.kill)
        return run

    def start_etcd(self):
        etcd = Etcd()
        self.addCleanup(etcd.kill)
        return etcd

    def start_others(self, etcd, *flags):
        return {task: self.start(task, etcd, *flags)
                for task in ("ps-0", "ps-1", "worker-1")}

    def start_second(self, etcd, *flags):
        """Another process of the chief's task, at an address of its own."""
        (address,) = paramd.draw_addresses(1)
        cluster = {**self.cluster.cluster,
                   "worker": [address, *self.cluster.cluster["worker"][1:]]}
        return self.start("worker-0", etcd, *flags, cluster=cluster)

    def check_all_end(self, runs):
        for task, run in runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
        with open(os.path.join(self.cluster.run_directory, "result.json"),
                  encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(
            (int(result["pushes_lost"]), int(result["pushes_doubled"])), (0, 0))
        return int(result["global_step"])

    def waits_of_chief(self):
        done = subprocess.run(
            [paramd.BINARY, "status", "--format", "json",
             self.cluster.address("worker-0")],
            stdout=subprocess.PIPE, text=True, check=True)
        return [wait["whom"] for process in json.loads(done.stdout)["processes"]
                for wait in process.get("status", {}).get("waits", [])]

    @NEEDS_ETCD
    def test_Promise5_a_killed_chief_is_followed_by_the_one_that_stands_by(self):
        etcd = self.start_etcd()
        first = self.start("worker-0", etcd.address, *SHORT_LEASE)
        first.wait_for("elected the chief")
        others = self.start_others(etcd.address, *SHORT_LEASE)
        second = self.start_second(etcd.address, *SHORT_LEASE)
        second.wait_for("standing by: there is a chief")
        others["worker-1"].wait_for("first push of generation")
        first.signal(signal.SIGKILL)
        second.wait_for("elected the chief")
        others["second"] = second
        # What worker 0 had pushed and not reported may be in a second time.
        self.assertGreaterEqual(self.check_all_end(others),
                                EPOCHS * STEPS_AN_EPOCH)
        self.assertIn("the chief is elsewhere", others["worker-1"].output)

    @NEEDS_ETCD
    def test_a_chief_that_is_told_to_end_resigns_before_its_lease_is_over(self):
        flags = ("--lease_ms=600000", "--heartbeat_ms=100")
        etcd = self.start_etcd()
        first = self.start("worker-0", etcd.address, *flags)
        first.wait_for("elected the chief")
        others = self.start_others(etcd.address, *flags)
        second = self.start_second(etcd.address, *flags)
        second.wait_for("standing by: there is a chief")
        others["worker-1"].wait_for("first push of generation")
        first.signal(signal.SIGTERM)
        second.wait_for("elected the chief")  # Within the test's time.
        self.assertEqual(first.wait(), 143, first.output)
        others["second"] = second
        self.check_all_end(others)

    @NEEDS_ETCD
    def test_a_paused_chief_that_was_followed_ends_and_stands_by_again(self):
        etcd = self.start_etcd()
        first = self.start("worker-0", etcd.address, *SHORT_LEASE)
        first.wait_for("elected the chief")
        others = self.start_others(etcd.address, *SHORT_LEASE)
        second = self.start_second(etcd.address, *SHORT_LEASE)
        second.wait_for("standing by: there is a chief")
        others["worker-1"].wait_for("first push of generation")
        first.signal(signal.SIGSTOP)
        second.wait_for("elected the chief", "ready")
        first.signal(signal.SIGCONT)
        self.assertEqual(first.wait(), 138, first.output)
        third = self.start("worker-0", etcd.address, *SHORT_LEASE)
        third.wait_for("standing by: there is a chief")
        others["second"] = second
        self.check_all_end(others)
        # It finds the run finished, and has nobody left to tell.
        self.assertEqual(third.wait(), 0, third.output)

    @NEEDS_ETCD
    def test_training_goes_on_while_etcd_is_away(self):
        flags = ("--lease_ms=4000", "--heartbeat_ms=100")
        etcd = self.start_etcd()
        first = self.start("worker-0", etcd.address, *flags)
        first.wait_for("elected the chief")
        others = self.start_others(etcd.address, *flags)
        others["worker-1"].wait_for("first push of generation")
        etcd.kill()
        first.wait_for("etcd is away; training goes on with this chief")
        self.assertTrue(
            any(f"etcd at {etcd.address}" in whom and
                "training goes on with this chief" in whom
                for whom in self.waits_of_chief()))
        time.sleep(5)  # More than the lease.
        etcd.start()
        first.wait_for("etcd is back")
        others["first"] = first
        self.assertEqual(self.check_all_end(others), EPOCHS * STEPS_AN_EPOCH)
        self.assertEqual(first.output.count("elected the chief"), 1)

    @NEEDS_ETCD
    def test_a_candidate_with_another_run_directory_is_refused(self):
        etcd = self.start_etcd()
        first = self.start("worker-0", etcd.address)
        first.wait_for("elected the chief")
        elsewhere = os.path.join(self.cluster.directory, "elsewhere")
        second = self.start_second(etcd.address, "--run_dir", elsewhere)
        self.assertEqual(second.wait(), 2, second.output)
        self.assertIn("all candidates need one run_dir on storage that they "
                      "share", second.output)

    def test_an_etcd_that_is_not_there_is_waited_for_by_its_name(self):
        nowhere = free_address()
        run = self.start("worker-0", nowhere, "--start_timeout_ms=2000")
        self.assertEqual(run.wait(), 138, run.output)
        self.assertIn("waiting for etcd, which elects the chief", run.output)
        self.assertIn(f"nobody can be elected the chief: etcd at {nowhere}: "
                      "refused", run.output)

    def test_an_address_that_is_none_is_refused(self):
        run = self.start("worker-0", "nonsense")
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("chief_election: 'nonsense' is not HOST:PORT", run.output)


if __name__ == "__main__":
    unittest.main()
