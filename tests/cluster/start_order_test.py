"""Six processes started in any order find each other and finish the job.

Usage: start_order_test.py ROUNDS, each of which is drawn from its number.
"""

import random
import sys
import time
import unittest

from tests.cluster import paramd

ROUNDS = int(sys.argv[1])
LONGEST_PAUSE = 0.3  # Seconds between two starts.


class StartOrderTest(unittest.TestCase):

    def check(self, seed):
        drawn = random.Random(seed)
        cluster = paramd.Cluster(servers=3, workers=3)
        order = drawn.sample(cluster.tasks, len(cluster.tasks))
        runs = {}
        for task in order:
            runs[task] = cluster.start(task)
            self.addCleanup(runs[task].kill)
            # What is tested, not a wait for something.
            time.sleep(drawn.uniform(0, LONGEST_PAUSE))
        codes = {task: run.wait() for task, run in runs.items()}
        self.assertEqual(
            codes, dict.fromkeys(order, 0),
            f"seed {seed}\n" + "\n".join(run.output for run in runs.values()))
        self.assertEqual(len(paramd.checkpoints(cluster.run_directory)), 1)

    def test_all_finish_in_whatever_order_they_were_started(self):
        for seed in range(1, ROUNDS + 1):
            self.check(seed)


if __name__ == "__main__":
    unittest.main()
