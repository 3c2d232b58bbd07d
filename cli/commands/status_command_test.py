"""paramd status, as typed, against processes that live."""

import json
import unittest

from tests.cluster.paramd import Cluster, Run


def status(*arguments):
    run = Run("status", *arguments)
    return run.wait(), run.output


class StatusCommandTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(servers=1, workers=2)

    def start(self, task):
        run = self.cluster.start(task, "--epochs=1000000")
        self.addCleanup(run.kill)
        return run

    def test_a_server_without_a_chief_says_so(self):
        self.start("ps-0").wait_for("ready")
        address = self.cluster.address("ps-0")
        code, output = status(address)
        self.assertEqual(code, 0, output)
        self.assertIn("the job is not known: the chief at "
                      f"{self.cluster.address('worker-0')}: refused", output)
        self.assertIn(f"asked ps-0 at {address}", output)

    def test_any_address_shows_the_whole_cluster(self):
        server = self.start("ps-0")
        server.wait_for("ready")
        chief = self.start("worker-0")
        chief.wait_for("worker-0 joined")
        for task in ("ps-0", "worker-0"):
            address = self.cluster.address(task)
            code, output = status("--format=json", address)
            self.assertEqual(code, 0, output)
            report = json.loads(output)
            self.assertEqual(report["asked"], address)
            self.assertEqual(report["job"]["name"], "tiny")
            states = [m["state"] for m in report["job"]["members"]]
            self.assertEqual(states[0], "ALIVE")
            self.assertIn(states[1], ("STARTING", "ALIVE"))
            self.assertEqual(states[2], "AWAITED")
            ps, worker, missing = report["processes"]
            self.assertEqual(ps["status"]["pid"], server.process.pid)
            self.assertEqual(ps["address"], self.cluster.address("ps-0"))
            self.assertEqual(worker["status"]["pid"], chief.process.pid)
            self.assertEqual(missing["address"],
                             self.cluster.address("worker-1"))
            self.assertEqual(missing["error"], "refused")
        _, output = status(self.cluster.address("ps-0"))
        self.assertIn("worker-0 (chief)  ", output)
        self.assertIn("no answer: refused", output)

    def test_nobody_there_is_138_and_no_address_is_2(self):
        address = self.cluster.address("ps-0")
        self.assertEqual(
            status(address),
            (138, f"paramd: {address} can't be reached: refused\n"))
        code, output = status("http://x:1")
        self.assertEqual(code, 2)
        self.assertIn("has a scheme; write host:port alone", output)
        self.assertEqual(status()[0], 2)
        self.assertEqual(status("x:1", "--format=xml")[0], 2)


if __name__ == "__main__":
    unittest.main()
