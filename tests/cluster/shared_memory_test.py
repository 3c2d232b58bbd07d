"""Which way payloads go between processes of one machine changes no bit."""

import re
import unittest

from tests.cluster import paramd

SERVERS = 2
COMMAND = ["local", "--job", paramd.SMALL_JOB, f"--servers={SERVERS}",
           "--cpu=scalar"]


def setUpModule():
    paramd.need_data()


class SharedMemoryTest(unittest.TestCase):

    def train(self, *flags):
        """The run, and what it trained."""
        run = paramd.Run(*COMMAND, *flags)
        self.assertEqual(run.wait(), 0, run.output)
        return run, run.tensors()

    def test_weights_are_those_of_a_run_over_tcp(self):
        run, shared = self.train("--workers=1")
        log = run.log("worker-0")
        self.assertEqual(log.count("sharing memory with=ps-"), SERVERS, log)
        moved = re.findall(r"sent_bytes=(\d+) received_bytes=(\d+)", log)
        # The larger variable's weights and gradients, again and again.
        self.assertGreater(sum(int(sent) for sent, _ in moved), 10 << 20, log)
        self.assertGreater(sum(int(got) for _, got in moved), 10 << 20, log)

        run, over_tcp = self.train("--workers=1", "--shared_memory=false")
        self.assertNotIn("sharing memory", run.log("worker-0"))
        self.assert_same(shared, over_tcp)

    def test_weights_of_sync_mode_are_those_of_a_run_over_tcp(self):
        sync = ["--workers=2", "--set=staleness=sync"]
        run, shared = self.train(*sync)
        self.assertIn("sharing memory with=ps-0", run.log("worker-1"))
        _, over_tcp = self.train(*sync, "--shared_memory=false")
        self.assert_same(shared, over_tcp)

    def assert_same(self, shared, over_tcp):
        self.assertEqual(sorted(shared), sorted(over_tcp))
        for name, values in over_tcp.items():
            # Not assertEqual, which would print megabytes.
            self.assertTrue(shared[name] == values, name)


if __name__ == "__main__":
    unittest.main()
