"""Any number of servers and workers learns as well as one process does.

Arguments: how many epochs, how good one process is then at least, how far from it
a cluster may be, and the clusters as SERVERS+WORKERS.
"""

import sys
import unittest

from tests.cluster import paramd

EPOCHS = sys.argv[1]
ALONE, APART = float(sys.argv[2]), float(sys.argv[3])
CLUSTERS = [cluster.split("+") for cluster in sys.argv[4:]]


def setUpModule():
    paramd.need_data()


class AccuracyTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        alone = paramd.Run("run", "--job", paramd.JOB, f"--epochs={EPOCHS}")
        code = alone.wait()
        assert code == 0, alone.output
        cls.alone = alone.accuracy()

    def check(self, servers, workers, *flags):
        run = paramd.Run("local", "--job", paramd.JOB, f"--epochs={EPOCHS}",
                         f"--servers={servers}", f"--workers={workers}", *flags)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        self.assertNotIn("killed", run.output)
        self.assertIn(f"test accuracy: {run.accuracy():.3f}", run.output)
        print(f"{servers}+{workers}: {run.accuracy():.4f}, "
              f"alone: {self.alone:.4f}")
        self.assertLess(abs(run.accuracy() - self.alone), APART)

    def test_one_process_learns(self):
        self.assertGreater(self.alone, ALONE)

    def test_any_number_of_servers_and_workers_learns_as_well(self):
        for servers, workers in CLUSTERS:
            with self.subTest(servers=servers, workers=workers):
                self.check(servers, workers)

    def test_half_the_bytes_both_ways(self):
        self.check(2, 2, "--push_format=bf16", "--pull_format=bf16")


if __name__ == "__main__":
    unittest.main()
