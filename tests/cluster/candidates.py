"""Clusters whose chief is elected: what tests of either kind of election share."""

import json
import os
import signal
import subprocess
import unittest

from tests.cluster import paramd

STEPS_AN_EPOCH = 8
EPOCHS = 8000  # So long that chiefs come and go meanwhile.
SHORT_LEASE = ("--lease_ms=4000", "--heartbeat_ms=100")


class CandidatesTest(unittest.TestCase):
    """Two servers and two workers. An election has `flags` and `environment`."""

    def setUp(self):
        self.cluster = paramd.Cluster(2, 2)
        with open(self.cluster.job, encoding="utf-8") as file:
            job = json.load(file)
        job.update({"epochs": EPOCHS, "evaluate_every_epochs": 0})
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump(job, file)

    def start(self, task, election, *flags, cluster=None):
        run = self.cluster.start(task, *election.flags, *flags, cluster=cluster,
                                 environment=election.environment)
        self.addCleanup(run.kill)
        return run

    def start_others(self, election, *flags):
        return {task: self.start(task, election, *flags)
                for task in ("ps-0", "ps-1", "worker-1")}

    def start_second(self, election, *flags):
        """Another process of the chief's task, at an address of its own."""
        (address,) = paramd.draw_addresses(1)
        cluster = {**self.cluster.cluster,
                   "worker": [address, *self.cluster.cluster["worker"][1:]]}
        return self.start("worker-0", election, *flags, cluster=cluster)

    def start_all(self, election, *flags):
        """The first chief, one that stands by, and the others by their task."""
        first = self.start("worker-0", election, *flags)
        first.wait_for("elected the chief")
        others = self.start_others(election, *flags)
        second = self.start_second(election, *flags)
        second.wait_for("standing by: there is a chief")
        others["worker-1"].wait_for("first push of generation")
        return first, second, others

    def check_all_end(self, runs):
        """The chief is the last of them."""
        # It says more than its pipe holds unread, so it is read first.
        for task, run in reversed(runs.items()):
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

    def check_a_killed_chief_is_followed(self, election):
        first, second, others = self.start_all(election, *SHORT_LEASE)
        first.signal(signal.SIGKILL)
        second.wait_for("elected the chief")
        others["second"] = second
        # What worker 0 had pushed and not reported may be in a second time.
        self.assertGreaterEqual(self.check_all_end(others),
                                EPOCHS * STEPS_AN_EPOCH)
        self.assertIn("the chief is elsewhere", others["worker-1"].output)

    def check_one_that_resigns_is_followed(self, election):
        flags = ("--lease_ms=600000", "--heartbeat_ms=100")
        first, second, others = self.start_all(election, *flags)
        first.signal(signal.SIGTERM)
        second.wait_for("elected the chief")  # Within the test's time.
        self.assertEqual(first.wait(), 143, first.output)
        others["second"] = second
        self.check_all_end(others)

    def check_a_paused_chief_ends_and_stands_by(self, election):
        first, second, others = self.start_all(election, *SHORT_LEASE)
        first.signal(signal.SIGSTOP)
        second.wait_for("elected the chief", "ready")
        first.signal(signal.SIGCONT)
        self.assertEqual(first.wait(), 138, first.output)
        third = self.start("worker-0", election, *SHORT_LEASE)
        third.wait_for("standing by: there is a chief")
        others["second"] = second
        self.check_all_end(others)
        # It finds the run finished, and has nobody left to tell.
        self.assertEqual(third.wait(), 0, third.output)

    def check_a_candidate_elsewhere_is_refused(self, election, *flags):
        first = self.start("worker-0", election, *flags)
        first.wait_for("elected the chief")
        elsewhere = os.path.join(self.cluster.directory, "elsewhere")
        second = self.start_second(election, "--run_dir", elsewhere, *flags)
        self.assertEqual(second.wait(), 2, second.output)
        self.assertIn("all candidates need one run_dir on storage that they "
                      "share", second.output)
