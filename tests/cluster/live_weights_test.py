"""paramd evaluate and predict with the weights that servers hold."""

import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

FROZEN_AFTER = 60


def call(*arguments):
    done = subprocess.run([paramd.BINARY, *arguments], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class LiveWeightsTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = os.path.join(self.directory, "job.json")
        job = paramd.tiny_job(self.directory)
        # A variable for each of four servers.
        job["model"]["layers"] = ["flatten", {"dense": 8}, {"dense": 10}]
        # The rate falls to 0, so that the weights stay what they are while
        # everything else goes on.
        job["optimizer"] = {"sgd": {}, "learning_rate": 0.1,
                            "schedule": "polynomial",
                            "decay_steps": FROZEN_AFTER}
        job.update(epochs=1000000, evaluate_every_epochs=0)
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(job, file)

    def start(self, *flags):
        """A cluster in training, and the address of one of its servers."""
        run = paramd.Run("local", "--job", self.job, "--servers=2",
                         "--workers=2", *flags, directory=self.directory)
        self.addCleanup(run.kill)
        run.wait_for("worker processes from ")
        run.wait_for("servers are filled")
        address = re.search(r"worker processes from (\S+:\d+)", run.output)[1]
        return run, address

    def evaluate(self, address, *flags):
        code, out, err = call("evaluate", "--job", self.job, "--live", address,
                              "--json", *flags)
        self.assertEqual(0, code, out + err)
        return json.loads(out)

    def evaluate_frozen(self, address):
        """Once each block has all the pushes that change anything."""
        while True:
            found = self.evaluate(address)
            if found["steps"][0] > FROZEN_AFTER:
                return found

    def check(self, *flags):
        run, address = self.start(*flags)
        live = self.evaluate_frozen(address)
        self.assertEqual(address, live["live"])
        self.assertLessEqual(*live["steps"])
        self.assertEqual(64, live["examples"])
        code, predicted, err = call("predict", "--job", self.job, "--live",
                                    address, "--threads=3")
        self.assertEqual(0, code, err)
        self.assertRegex(err, rf"weights of {address}, steps? \d+")
        run.signal(signal.SIGTERM)
        self.assertEqual(143, run.wait(), run.output)
        code, out, err = call("evaluate", "--job", self.job, "--checkpoint",
                              run.run_directory(), "--json")
        self.assertEqual(0, code, out + err)
        saved = json.loads(out)
        self.assertGreaterEqual(saved["step"], live["steps"][0])
        self.assertEqual(saved["metrics"], live["metrics"])
        code, out, err = call("predict", "--job", self.job, "--checkpoint",
                              run.run_directory())
        self.assertEqual(0, code, err)
        self.assertEqual(out, predicted)

    def test_what_servers_hold_is_what_the_checkpoint_of_the_end_has(self):
        self.check()

    def test_so_it_is_with_several_shards_in_a_server_and_in_sync_mode(self):
        self.check("--shards_per_server=2", "--staleness=sync")

    def test_weights_of_another_model_are_refused_by_name(self):
        _, address = self.start()
        self.evaluate(address)
        for changed, sentence in (
                ("model.layers.1.dense=4", "variable 'dense_1/kernel' is 16x4 "
                 "here; in the running job it is 16x8"),
                ('model.layers=["flatten", {"dense": 8}, {"dense": 10}, '
                 '{"dense": 10}]', "the running job has no variable 'dense_3/")):
            code, _, err = call("evaluate", "--job", self.job, "--live",
                                address, "--set", changed)
            self.assertEqual(2, code, err)
            self.assertIn(sentence, err)


class EndTest(unittest.TestCase):

    def setUp(self):
        self.cluster = paramd.Cluster(servers=1, workers=1)

    def evaluate(self, *flags):
        return call("evaluate", "--job", self.cluster.job, "--live",
                    self.cluster.address("ps-0"), *flags)

    def test_a_job_that_has_ended_is_said_to_have(self):
        runs = [self.cluster.start(task, "--linger_when_finished",
                                   "--finish_timeout_ms=1000")
                for task in self.cluster.tasks]
        for run in runs:
            self.addCleanup(run.kill)
        for run in runs:
            run.wait_for("staying until SIGTERM")
        code, _, err = self.evaluate()
        self.assertEqual(1, code, err)
        self.assertIn("the job has ended, and its servers with it", err)

    def test_where_nobody_is_it_is_said_at_once(self):
        code, _, err = self.evaluate()
        self.assertEqual(138, code, err)
        self.assertIn("can't be reached: refused", err)

    def test_what_a_server_waits_for_is_said(self):
        run = self.cluster.start("ps-0")
        self.addCleanup(run.kill)
        run.wait_for("ready")
        code, _, err = self.evaluate("--timeout_ms=300")
        self.assertEqual(138, code, err)
        self.assertIn("the chief at", err)


class NoServersTest(unittest.TestCase):

    def test_a_job_of_workers_that_have_copies_has_none(self):
        cluster = paramd.Cluster(servers=0, workers=2)
        run = cluster.start("worker-0", "--strategy=multi_worker_mirrored",
                            cluster={"worker": cluster.cluster["worker"]})
        self.addCleanup(run.kill)
        run.wait_for("ready")
        code, _, err = call("evaluate", "--job", cluster.job, "--live",
                            cluster.address("worker-0"))
        self.assertEqual(2, code, err)
        self.assertIn("the job has no servers", err)


if __name__ == "__main__":
    unittest.main()
