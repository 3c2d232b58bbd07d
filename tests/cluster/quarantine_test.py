"""Gradients that are refused for their numbers: named, survived, or the end."""

import unittest

from tests.cluster import paramd

# Of 8 steps each: many more than a running value needs to be of use.
EPOCHS = "--epochs=60"


class QuarantineTest(unittest.TestCase):

    def run_tiny(self, *flags, server_has_job=True):
        cluster = paramd.Cluster(servers=1, workers=1)
        runs = {}
        for task in cluster.tasks:
            if task == "worker-0" or server_has_job:
                runs[task] = cluster.start(task, EPOCHS, *flags)
            else:
                runs[task] = cluster.start(task, job=False)
            self.addCleanup(runs[task].kill)
        return runs

    def test_a_worker_that_is_refused_too_often_in_a_row_ends(self):
        # Half of all gradients are above the running value. The server has the
        # factor from the chief.
        runs = self.run_tiny("--spike_factor=1e-3", "--quarantine_limit=3",
                             server_has_job=False)
        worker = runs["worker-0"]
        self.assertEqual(worker.wait(), 1, worker.output)
        self.assertRegex(
            worker.output,
            "paramd: 3 of worker-0's pushes in a row were refused for their "
            "numbers; the last: gradient for 'dense_1/.*' has a root mean "
            "square of .*, above 0.001 times the running one of .*, in block 0 "
            "of 'dense_1/.*'; lower optimizer.learning_rate or look at the "
            "input\n")
        runs["ps-0"].wait_for(
            "push 51 of worker-0 refused (1 of that worker so far): gradient ")

    def test_a_worker_that_is_refused_now_and_then_goes_on(self):
        runs = self.run_tiny("--spike_factor=1.2", "--quarantine_limit=1000000")
        for task in ("worker-0", "ps-0"):
            self.assertEqual(runs[task].wait(), 0, runs[task].output)
        self.assertRegex(runs["worker-0"].output,
                         r"push \d+ given up \(1 so far\): gradient for ")
        self.assertRegex(runs["ps-0"].output,
                         r"push \d+ of worker-0 refused \(1 of that worker so "
                         r"far\): gradient for ")


if __name__ == "__main__":
    unittest.main()
