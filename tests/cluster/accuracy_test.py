"""Any number of servers and workers learns as well as one process does."""

import unittest

from tests.cluster import paramd

def setUpModule():
    paramd.need_data()


class AccuracyTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        alone = paramd.Run("run", "--job", paramd.JOB)
        code = alone.wait()
        assert code == 0, alone.output
        cls.alone = alone.accuracy()

    def check(self, servers, workers, *flags):
        run = paramd.Run("local", "--job", paramd.JOB, f"--servers={servers}",
                         f"--workers={workers}", *flags)
        self.addCleanup(run.kill)
        self.assertEqual(run.wait(), 0, run.output)
        self.assertNotIn("killed", run.output)
        self.assertIn(f"test accuracy: {run.accuracy():.3f}", run.output)
        print(f"{servers}+{workers}: {run.accuracy():.4f}, "
              f"alone: {self.alone:.4f}")
        self.assertLess(abs(run.accuracy() - self.alone), 0.01)

    def test_one_process_learns(self):
        self.assertGreater(self.alone, 0.87)

    def test_1_server_and_1_worker(self):
        self.check(1, 1)

    def test_3_servers_and_4_workers(self):
        self.check(3, 4)

    def test_5_servers_and_2_workers(self):
        self.check(5, 2)

    def test_half_the_bytes_both_ways(self):
        self.check(2, 2, "--push_format=bf16", "--pull_format=bf16")


if __name__ == "__main__":
    unittest.main()
