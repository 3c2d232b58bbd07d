"""paramd status, as typed, against processes that live."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import unittest

from tests.cluster import paramd

from tests.cluster.paramd import Cluster, Run


def status(*arguments):
    run = Run("status", *arguments)
    return run.wait(), run.output


class StatusCommandTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(servers=1, workers=2)

    def start(self, task):
        run = self.cluster.start(task, "--epochs=1000000")
        self.addCleanup(run.kill)
        return run

    def test_a_server_without_a_chief_says_so(self):
        self.start("ps-0").wait_for("ready")
        address = self.cluster.address("ps-0")
        code, output = status(address)
        self.assertEqual(code, 0, output)
        self.assertIn("the job is not known: the chief at "
                      f"{self.cluster.address('worker-0')}: refused", output)
        self.assertIn(f"asked ps-0 at {address}", output)

    def test_any_address_shows_the_whole_cluster(self):
        server = self.start("ps-0")
        server.wait_for("ready")
        chief = self.start("worker-0")
        chief.wait_for("worker-0 joined")
        for task in ("ps-0", "worker-0"):
            address = self.cluster.address(task)
            code, output = status("--format=json", address)
            self.assertEqual(code, 0, output)
            report = json.loads(output)
            self.assertEqual(report["asked"], address)
            self.assertEqual(report["job"]["name"], "tiny")
            states = [m["state"] for m in report["job"]["members"]]
            self.assertEqual(states[0], "ALIVE")
            self.assertIn(states[1], ("STARTING", "ALIVE"))
            self.assertEqual(states[2], "AWAITED")
            ps, worker, missing = report["processes"]
            self.assertEqual(ps["status"]["pid"], server.process.pid)
            self.assertEqual(ps["address"], self.cluster.address("ps-0"))
            self.assertEqual(worker["status"]["pid"], chief.process.pid)
            self.assertEqual(missing["address"],
                             self.cluster.address("worker-1"))
            self.assertEqual(missing["error"], "refused")
        _, output = status(self.cluster.address("ps-0"))
        self.assertIn("worker-0 (chief)  ", output)
        self.assertIn("no answer: refused", output)

    def start_all(self, *flags):
        runs = {}
        for task in self.cluster.tasks:
            runs[task] = self.cluster.start(task, *flags)
            self.addCleanup(runs[task].kill)
        runs["worker-1"].wait_for("first push of generation")
        return runs

    def watch(self, *flags):
        run = Run("status", self.cluster.address("ps-0"), "--watch=1", *flags)
        self.addCleanup(run.kill)
        return run

    def test_it_is_watched_until_the_job_ends(self):
        runs = self.start_all("--epochs=1000000", "--evaluate_every_epochs=0")
        watch = self.watch()
        for _ in range(2):
            watch.wait_for("---- 2")
            watch.wait_for("job tiny: running, epoch ")
        runs["worker-0"].signal(signal.SIGKILL)
        watch.wait_for("the coordinator can't be reached (the chief at "
                       f"{self.cluster.address('worker-0')}: refused); what "
                       "follows is ")
        watch.wait_for("job tiny: running, epoch ")
        chief = self.cluster.start("worker-0", "--epochs=1000000",
                                   "--evaluate_every_epochs=0")
        self.addCleanup(chief.kill)
        chief.wait_for("first push of generation")
        done = Run("stop", self.cluster.run_directory)
        self.assertEqual(done.wait(), 0, done.output)
        # The end was seen, or the processes were gone before.
        code = watch.wait()
        self.assertIn(code, (0, 138), watch.output)
        if code == 0:
            self.assertIn("job tiny: finished", watch.output)
        else:
            self.assertRegex(watch.output.splitlines()[-1],
                             r"^paramd: .* can't be reached: refused, for ")
        # Blocks apart by a line with the time.
        self.assertEqual(
            len(re.findall(r"(?m)^---- \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ----$",
                           watch.output)), watch.output.count("asked ps-0 at"))

    def test_who_is_gone_is_given_up(self):
        runs = self.start_all("--epochs=1000000")
        watch = self.watch("--give_up_seconds=1")
        watch.wait_for("job tiny: running")
        runs["ps-0"].kill()
        self.assertEqual(watch.wait(), 138, watch.output)
        address = self.cluster.address("ps-0")
        self.assertIn(f"{address} can't be reached: refused; what follows is ",
                      watch.output)
        self.assertRegex(watch.output.splitlines()[-1],
                         rf"^paramd: {address} can't be reached: refused, for "
                         r"[\d.]+ s now$")

    def test_on_a_terminal_it_is_drawn_in_place(self):
        self.start_all("--epochs=1000000")
        master, slave = pty.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 8, 60, 0, 0))
        with subprocess.Popen(
                [paramd.BINARY, "status", self.cluster.address("ps-0"),
                 "--watch", "1"], stdin=slave, stdout=slave, stderr=slave,
                env={**os.environ, "TERM": "xterm"}) as process:
            self.addCleanup(process.kill)
            os.close(slave)
            output = b""
            while output.count(b"\x1b[7F\x1b[J") < 2:
                output += os.read(master, 1 << 16)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(), -signal.SIGTERM)
        os.close(master)
        block = output.decode().split("\x1b[7F\x1b[J")[1]
        lines = block.replace("\r", "").splitlines()
        self.assertEqual(len(lines), 7, block)
        self.assertRegex(lines[0], r"^---- 2")
        self.assertRegex(lines[1], r"^job tiny: ")
        self.assertRegex(lines[-1], r"^and \d+ more lines$")
        for line in lines:
            self.assertLessEqual(len(line), 60, line)

    def test_nobody_there_is_138_and_no_address_is_2(self):
        address = self.cluster.address("ps-0")
        self.assertEqual(
            status(address),
            (138, f"paramd: {address} can't be reached: refused\n"))
        code, output = status("http://x:1")
        self.assertEqual(code, 2)
        self.assertIn("has a scheme; write host:port alone", output)
        self.assertEqual(status()[0], 2)
        self.assertEqual(status("x:1", "--format=xml")[0], 2)
        code, output = status(address, "--watch", "--format=json")
        self.assertEqual(code, 2)
        self.assertIn("--watch repeats the text", output)
        self.assertEqual(status(address, "--watch")[0], 138)


if __name__ == "__main__":
    unittest.main()
