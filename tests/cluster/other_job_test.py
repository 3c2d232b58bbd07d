"""An address that comes to lead to the server of another job."""

import json
import os
import unittest

from tests.cluster import paramd
from tests.cluster.proxy import Proxy

LATENCY = 0.005  # Seconds, each way, so that a job lasts for seconds.


class Job:
    """One server and one worker, which reaches it through a proxy."""

    def __init__(self, test, name, epochs, latency):
        self.cluster = paramd.Cluster(servers=1, workers=1)
        with open(self.cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update({"name": name, "epochs": epochs,
                    "evaluate_every_epochs": 0})
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.server_address = self.cluster.address("ps-0")
        (public,) = paramd.draw_addresses(1)
        self.proxy = Proxy(public, self.server_address, latency)
        test.addCleanup(self.proxy.close)
        self.server = self.cluster.start("ps-0")
        test.addCleanup(self.server.kill)
        self.worker = self.cluster.start(
            "worker-0", cluster={**self.cluster.cluster, "ps": [public]})
        test.addCleanup(self.worker.kill)

    def finish(self, test):
        """Its weights."""
        for run in (self.worker, self.server):
            test.assertEqual(run.wait(), 0, run.output)
        newest = paramd.checkpoints(self.cluster.run_directory)[-1]
        return paramd.tensors(os.path.join(
            self.cluster.run_directory, "checkpoints", newest))


class OtherJobTest(unittest.TestCase):

    def test_Promise1_its_server_takes_no_push_and_gives_no_weights(self):
        alone = Job(self, "theirs", epochs=40, latency=0).finish(self)

        # In this order: theirs lasts only for some seconds.
        ours = Job(self, "ours", epochs=1000, latency=LATENCY)
        ours.worker.wait_for("first push of generation")
        theirs = Job(self, "theirs", epochs=40, latency=LATENCY)
        theirs.worker.wait_for("first push of generation")
        # The connection for control stays where it is; that for payloads breaks
        # and is made anew.
        ours.proxy.lead_to(theirs.server_address)
        # The session and the coordinator hear of it at the same time.
        self.assertIn(ours.worker.wait(), (1, 2), ours.worker.output)
        self.assertIn("another job answers: job_name differs",
                      ours.worker.output)

        self.assertEqual(theirs.finish(self), alone)
        # The session's call, or the coordinator's greeting if it came before.
        self.assertRegex(theirs.server.output,
                         "call for another process refused|"
                         "stranger refused .*job_name differs")


if __name__ == "__main__":
    unittest.main()
