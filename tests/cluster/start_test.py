"""Who is missing at the start is waited for by name, and not for ever."""

import re
import unittest

from tests.cluster import paramd


class StartTest(unittest.TestCase):

    def start_all_but(self, missing, *flags):
        self.cluster = paramd.Cluster(servers=2, workers=2)
        runs = {}
        for task in self.cluster.tasks:
            if task != missing:
                runs[task] = self.start(task, *flags)
        return runs

    def start(self, task, *flags):
        run = self.cluster.start(task, *flags)
        self.addCleanup(run.kill)
        return run

    def assert_all_finish(self, runs):
        for task, run in runs.items():
            self.assertEqual(run.wait(), 0, f"{task}\n{run.output}")

    def refused(self, task):
        return f"{task} at {self.cluster.address(task)}: refused"

    def test_a_server_that_is_late_is_waited_for_by_name(self):
        runs = self.start_all_but("ps-1")
        who = self.refused("ps-1")
        runs["worker-0"].wait_for(
            f'waiting core=coordinator for="{who}" since=')
        runs["worker-1"].wait_for(
            'waiting core=worker-1 for="the coordinator to admit worker-1: '
            f'waiting for {who}" since=')
        runs["ps-1"] = self.start("ps-1")
        self.assert_all_finish(runs)

    def test_a_chief_that_is_late_is_waited_for_by_name(self):
        runs = self.start_all_but("worker-0")
        runs["ps-0"].wait_for(
            'waiting core=ps-0 for="the coordinator, in the chief\'s process, '
            'to call ps-0" since=')
        chief = f"coordinator at {self.cluster.address('worker-0')}: refused"
        runs["worker-1"].wait_for(
            'waiting core=worker-1 for="the coordinator to admit worker-1: '
            f'{chief}" since=')
        runs["worker-0"] = self.start("worker-0")
        self.assert_all_finish(runs)

    def test_a_worker_that_is_late_is_not_waited_for(self):
        runs = self.start_all_but("worker-1")
        runs["worker-0"].wait_for("checkpoint committed")
        runs["worker-1"] = self.start("worker-1")
        self.assert_all_finish(runs)
        # Or it came in time for the last steps.
        self.assertRegex(runs["worker-1"].output,
                         "the job is finished|joined as generation")

    def test_a_server_without_a_job_takes_no_setting_of_it(self):
        self.cluster = paramd.Cluster(servers=1, workers=1)
        run = self.cluster.start("ps-0", "--lease_ms=9000",
                                 "--set=spike_factor=2", job=False)
        self.assertEqual(run.wait(), 2, run.output)
        for setting in ("lease_ms", "spike_factor"):
            self.assertIn(f"{setting}: a setting of the job, which a ps "
                          "without --job takes from the chief; leave it out",
                          run.output)

    def test_a_start_without_a_server_ends_and_names_it(self):
        runs = self.start_all_but("ps-1", "--start_timeout_ms=5000")
        chief = runs["worker-0"]
        self.assertEqual(chief.wait(), 138, chief.output)
        self.assertIn("paramd: not started within 5s; waiting for "
                      f"{self.refused('ps-1')}\n", chief.output)
        worker = runs["worker-1"]
        self.assertEqual(worker.wait(), 138, worker.output)
        # Also if the chief has ended before.
        self.assertRegex(
            worker.output, "paramd: not joined within 5s; waiting for the "
            "coordinator to admit worker-1: .*(waiting|waited) for "
            f"{re.escape(self.refused('ps-1'))}\n")

    def test_a_start_without_a_chief_ends_and_names_it(self):
        runs = self.start_all_but("worker-0", "--start_timeout_ms=5000")
        for task in ("ps-0", "ps-1"):
            server = runs[task]
            self.assertEqual(server.wait(), 138, server.output)
            self.assertIn(f"paramd: {task} has not heard of a coordinator for "
                          "5s: is the chief running?\n", server.output)
        worker = runs["worker-1"]
        self.assertEqual(worker.wait(), 138, worker.output)
        self.assertIn(
            "paramd: not joined within 5s; waiting for the coordinator to "
            "admit worker-1: coordinator at "
            f"{self.cluster.address('worker-0')}: refused\n", worker.output)


if __name__ == "__main__":
    unittest.main()
