"""An etcd decides which process is the chief, and another one takes over."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from tests.cluster import candidates
from tests.cluster import paramd

ETCD = shutil.which("etcd", path=os.pathsep.join(
    [os.path.dirname(sys.executable), "/usr/bin", os.environ["PATH"]]))
NEEDS_ETCD = unittest.skipUnless(
    ETCD, "needs etcd of Debian's package etcd-server")


class Address:
    """Of an etcd that may be there."""

    environment = None

    def __init__(self, address):
        self.flags = [f"--chief_election=etcd://{address}/jobs/tiny"]


class Etcd(Address):
    """An etcd of one member, which keeps what it has when it is started again."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.address, self.peers = paramd.draw_addresses(2)
        super().__init__(self.address)
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


class ElectionTest(candidates.CandidatesTest):

    def start_etcd(self):
        etcd = Etcd()
        self.addCleanup(etcd.kill)
        return etcd

    @NEEDS_ETCD
    def test_Promise5_a_killed_chief_is_followed_by_the_one_that_stands_by(self):
        self.check_a_killed_chief_is_followed(self.start_etcd())

    @NEEDS_ETCD
    def test_a_chief_that_is_told_to_end_resigns_before_its_lease_is_over(self):
        self.check_one_that_resigns_is_followed(self.start_etcd())

    @NEEDS_ETCD
    def test_a_paused_chief_that_was_followed_ends_and_stands_by_again(self):
        self.check_a_paused_chief_ends_and_stands_by(self.start_etcd())

    @NEEDS_ETCD
    def test_training_goes_on_while_etcd_is_away(self):
        etcd = self.start_etcd()
        first = self.start("worker-0", etcd, *candidates.SHORT_LEASE)
        first.wait_for("elected the chief")
        others = self.start_others(etcd, *candidates.SHORT_LEASE)
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
        self.assertEqual(self.check_all_end(others),
                         candidates.EPOCHS * candidates.STEPS_AN_EPOCH)
        self.assertEqual(first.output.count("elected the chief"), 1)

    @NEEDS_ETCD
    def test_a_candidate_with_another_run_directory_is_refused(self):
        self.check_a_candidate_elsewhere_is_refused(self.start_etcd())

    def test_an_etcd_that_is_not_there_is_waited_for_by_its_name(self):
        nowhere = free_address()
        run = self.start("worker-0", Address(nowhere), "--start_timeout_ms=2000")
        self.assertEqual(run.wait(), 138, run.output)
        self.assertIn("waiting for etcd, which elects the chief", run.output)
        self.assertIn(f"nobody can be elected the chief: etcd at {nowhere}: "
                      "refused", run.output)

    def test_an_address_that_is_none_is_refused(self):
        run = self.start("worker-0", Address("nonsense"))
        self.assertEqual(run.wait(), 2, run.output)
        self.assertIn("chief_election: 'nonsense' is not HOST:PORT", run.output)


if __name__ == "__main__":
    unittest.main()
