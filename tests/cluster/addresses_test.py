"""A wrong address: one sentence that says what is there, and the right code."""

import http.server
import re
import socket
import threading
import unittest

from tests.cluster import paramd


class SilentHandler(http.server.BaseHTTPRequestHandler):
    """Of a web server that keeps no log."""

    def log_message(self, *_):
        pass


class AddressesTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(servers=2, workers=2)

    def start(self, task, *flags, cluster=None):
        run = self.cluster.start(task, *flags, cluster=cluster)
        self.addCleanup(run.kill)
        return run

    def start_with_server_0_at(self, task, address, *flags):
        servers = [address, *self.cluster.cluster["ps"][1:]]
        return self.start(task, *flags,
                          cluster={**self.cluster.cluster, "ps": servers})

    def assert_ends(self, run, code, sentence):
        """Its one sentence matches the expression `sentence`."""
        self.assertEqual(run.wait(), code, run.output)
        (said,) = [line for line in run.output.splitlines()
                   if line.startswith("paramd: ")]
        self.assertRegex(said, f"^paramd: {sentence}$")

    def assert_waits_in_vain(self, address, reason):
        """A chief that is told that server 0 is at `address`."""
        run = self.start_with_server_0_at("worker-0", address,
                                          "--start_timeout_ms=5000")
        self.assert_ends(
            run, 138, "not started within 5s; waiting for "
            f"ps-0 at {re.escape(address)}: {reason}, " +
            self.at("ps-1") + "refused")

    def test_a_name_that_resolves_to_nothing(self):
        # The second where there is no DNS at all.
        self.assert_waits_in_vain("ps-0.invalid:2222",
                                  "(no such host|no answer from DNS)")

    def test_a_name_of_its_own_that_resolves_to_nothing(self):
        run = self.start_with_server_0_at("ps-0", "ps-0.invalid:2222")
        self.assert_ends(run, 2,
                         re.escape("cannot listen on ps-0.invalid:2222: ") +
                         ".*[Nn]ame.*; correct the name, or pass --insecure if "
                         "others know this machine by it: then it listens on "
                         "all addresses")

    def test_a_name_of_its_own_that_gets_its_address_later(self):
        # On all addresses: not one of the ports that other tests have on theirs.
        with socket.create_server(("", 0)) as free:
            port = free.getsockname()[1]
        run = self.start_with_server_0_at("ps-0", f"ps-0.invalid:{port}",
                                          "--insecure")
        run.wait_for("listening on all addresses of this machine "
                     f"port={port} instead_of=ps-0.invalid:{port} why=")
        run.wait_for(" ready")

    def test_a_process_that_listens_and_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.assert_waits_in_vain(
                "127.0.0.1:%d" % silent.getsockname()[1], "timed out")

    def test_a_web_server(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                 SilentHandler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            self.assert_waits_in_vain("127.0.0.1:%d" % server.server_port,
                                      "not a paramd process")
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def at(self, task):
        return re.escape(f"{task} at {self.cluster.address(task)}: ")

    def check_chief_of_another(self, who, difference, advice, *flags,
                               cluster=None):
        """The chief's server 0 was started with these; both sides say so."""
        server = self.start("ps-0", *flags, cluster=cluster)
        server.wait_for(" ready")
        chief = self.start("worker-0")
        self.assert_ends(chief, 2, self.at("ps-0") + re.escape(
            f"{who} answers: {difference}{advice}"))
        server.wait_for(f'times=1 what="{difference}"')

    def test_a_server_of_another_job(self):
        self.check_chief_of_another(
            "another job",
            "job_name differs: worker-0 has 'tiny', ps-0 has 'other'", "",
            "--name=other")

    def test_a_server_with_another_setting(self):
        self.check_chief_of_another(
            "the same job with another job file",
            "optimizer.learning_rate differs: worker-0 has '0.1', ps-0 has "
            "'0.2'", "; give every process the same one",
            "--set=optimizer.learning_rate=0.2")

    def test_a_server_of_a_cluster_with_other_addresses(self):
        servers = self.cluster.cluster["ps"]
        other = [servers[0], "127.0.0.1:9"]
        self.check_chief_of_another(
            "the same job with another TF_CONFIG",
            f"ps[1] differs: worker-0 has '{servers[1]}', ps-0 has "
            "'127.0.0.1:9'", "; give every process the same cluster",
            cluster={**self.cluster.cluster, "ps": other})

    def test_the_address_of_another_server_of_the_same_job(self):
        first, second = self.cluster.cluster["ps"]
        self.start("ps-1").wait_for(" ready")
        chief = self.start("worker-0", cluster={**self.cluster.cluster,
                                                "ps": [second, first]})
        self.assert_ends(
            chief, 2, re.escape(
                f"ps-0 at {second}: the same job with another TF_CONFIG "
                f"answers: ps[0] differs: worker-0 has '{second}', ps-1 has "
                f"'{first}'; give every process the same cluster"))

    def test_a_chief_of_another_job(self):
        chief = self.start("worker-0", "--name=other")
        chief.wait_for(" ready")
        self.assert_ends(
            self.start("worker-1"), 2,
            re.escape("coordinator at " + self.cluster.address("worker-0") +
                      ": another job answers: job_name differs: worker-1 has "
                      "'tiny', worker-0 has 'other'"))


if __name__ == "__main__":
    unittest.main()
