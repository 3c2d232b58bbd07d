"""paramd profile, as typed, while processes compute."""

import os
import tempfile
import time
import unittest
from xml.etree import ElementTree

from tests.cluster.paramd import Cluster, Run


def paramd(*arguments):
    run = Run(*arguments)
    return run.wait(), run.output


class ProfileCommandTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self):
        self.cluster = Cluster(servers=1, workers=1)
        self.runs = {}
        for task in self.cluster.tasks:
            self.runs[task] = self.cluster.start(
                task, "--epochs=1000000", "--set=checkpoint.every_seconds=0")
            self.addCleanup(self.runs[task].kill)
        self.runs["worker-0"].wait_for("first push of generation")
        # The server was there before the run's directory.
        deadline = time.monotonic() + 60
        while not os.path.exists(self.socket("ps-0")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def path(self, name):
        return os.path.join(self.folder, name)

    def socket(self, task):
        return os.path.join(self.cluster.run_directory, f"{task}.sock")

    def profile(self, place, *flags, output="profile.svg", seconds=1):
        return paramd("profile", place, f"--seconds={seconds}",
                      f"--output={self.path(output)}", *flags)

    def test_a_worker_is_drawn_and_trains_on(self):
        self.start()
        code, output = self.profile(self.cluster.run_directory)
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"worker-0: \d+\.\d\d s of processors' time in 1 s, "
                                 r"[1-9]\d* samples: .*profile\.svg\n( +\d+\.\d %  .+\n)+$")
        svg = ElementTree.parse(self.path("profile.svg")).getroot()
        titles = [title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")]
        # It runs the worker's own code, by name.
        self.assertTrue(any(title.startswith("paramd::") for title in titles), titles)
        with open(os.path.join(self.cluster.run_directory, "audit.jsonl"),
                  encoding="utf-8") as audit:
            kept = audit.read()
        self.assertEqual(kept.count('"Profile"'), 1, kept)
        self.assertIn("duration_ms: 1000", kept)
        self.assertIsNone(self.runs["worker-0"].process.poll())

    def test_several_at_once_have_each_their_own(self):
        self.start()
        asked = [Run("profile", self.socket(task), "--seconds=1", "--format=folded",
                     f"--output={self.path(str(i))}")
                 for i, task in enumerate(("ps-0", "worker-0", "worker-0"))]
        for i, run in enumerate(asked):
            self.assertEqual(run.wait(), 0, run.output)
            with open(self.path(str(i)), encoding="utf-8") as folded:
                for line in folded:
                    self.assertRegex(line, r"^.+;.+ \d+$")
        self.assertIn("ps-0: ", asked[0].output)

    def test_what_cannot_be_is_a_sentence(self):
        self.start()
        self.runs["ps-0"].kill()
        for place, flags, expected, message in (
                (self.socket("ps-0"), (), 138, "can't be reached: refused"),
                (self.socket("ps-9"), (), 2, "ps-9.sock"),
                ("nowhere", (), 2, "nor its socket, as in runs/a/ps-0.sock"),
                ("127.0.0.1:1", (), 2, "an address and --tls_dir belong together"),
                (self.cluster.run_directory, ("--format=pdf",), 2,
                 "--format is svg or folded, not 'pdf'"),
                (self.cluster.run_directory, ("--output=/nowhere/p.svg",), 2,
                 "--output: '/nowhere/p.svg': No such file or directory")):
            code, output = paramd("profile", place, "--seconds=1", *flags)
            self.assertEqual(code, expected, output)
            self.assertIn(message, output)


if __name__ == "__main__":
    unittest.main()
