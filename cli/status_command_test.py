"""paramd status, as typed, against processes that live."""

import json
import unittest

from cli.live_cluster import Cluster, paramd


class StatusCommandTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(servers=1, workers=2, epochs=1000000)
        self.addCleanup(self.cluster.kill)

    def test_a_server_without_a_chief_says_so(self):
        self.cluster.start("ps", 0).wait_for("ready")
        code, out, errors = paramd("status", self.cluster.ps[0])
        self.assertEqual(code, 0, errors)
        self.assertIn("the job is not known: the chief at "
                      f"{self.cluster.workers[0]}: refused", out)
        self.assertIn(f"asked ps-0 at {self.cluster.ps[0]}", out)

    def test_any_address_shows_the_whole_cluster(self):
        server = self.cluster.start("ps", 0)
        server.wait_for("ready")
        chief = self.cluster.start("worker", 0)
        chief.wait_for("worker-0 joined")
        for address in (self.cluster.ps[0], self.cluster.workers[0]):
            code, out, errors = paramd("status", "--format=json", address)
            self.assertEqual(code, 0, errors)
            report = json.loads(out)
            self.assertEqual(report["asked"], address)
            self.assertEqual(report["job"]["name"], "small")
            states = [m["state"] for m in report["job"]["members"]]
            self.assertEqual(states[0], "ALIVE")
            self.assertIn(states[1], ("STARTING", "ALIVE"))
            self.assertEqual(states[2], "AWAITED")
            ps, worker, missing = report["processes"]
            self.assertEqual(ps["status"]["pid"], server.process.pid)
            self.assertEqual(ps["address"], self.cluster.ps[0])
            self.assertEqual(worker["status"]["pid"], chief.process.pid)
            self.assertEqual(missing["address"], self.cluster.workers[1])
            self.assertEqual(missing["error"], "refused")
        _, out, _ = paramd("status", self.cluster.ps[0])
        self.assertIn("worker-0 (chief)  ", out)
        self.assertIn("no answer: refused", out)

    def test_nobody_there_is_138_and_no_address_is_2(self):
        code, out, errors = paramd("status", self.cluster.ps[0])
        self.assertEqual((code, out), (138, ""))
        self.assertEqual(
            errors, f"paramd: {self.cluster.ps[0]} can't be reached: refused\n")
        code, _, errors = paramd("status", "http://x:1")
        self.assertEqual(code, 2)
        self.assertIn("has a scheme; write host:port alone", errors)
        self.assertEqual(paramd("status")[0], 2)
        self.assertEqual(paramd("status", "x:1", "--format=xml")[0], 2)


if __name__ == "__main__":
    unittest.main()
