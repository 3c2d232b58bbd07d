"""paramd top, as typed, on a terminal of its own."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import unittest

from tests.cluster import paramd
from tests.cluster.paramd import Cluster, Run


class Terminal:
    """`paramd top` on a pseudo terminal, and what it last drew there."""

    def __init__(self, columns, rows, *arguments):
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        self.process = subprocess.Popen(
            [paramd.BINARY, "top", *arguments], stdin=slave, stdout=slave,
            stderr=slave, env={**os.environ, "TERM": "xterm"},
            start_new_session=True)
        os.close(slave)
        self.output = ""

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, key):
        os.write(self.master, key.encode())

    def read(self):
        """Something more of it; False: it has ended."""
        select.select([self.master], [], [])
        try:
            piece = os.read(self.master, 1 << 16)
        except OSError:  # As Linux says that nobody writes any more.
            return False
        self.output += piece.decode(errors="replace")
        return bool(piece)

    def frame(self):
        """The newest whole one, without what a terminal obeys."""
        frames = re.findall(r"\x1b\[H(.*?)\x1b\[J", self.output, re.DOTALL)
        return frames[-1].replace("\x1b[K\r\n", "\n") if frames else ""

    def wait_for(self, pattern):
        while not re.search(pattern, self.frame()):
            if not self.read():
                raise AssertionError(f"ended without {pattern}: {self.output}")

    def end(self):
        while self.read():
            pass
        return self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


class TopCommandTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(servers=1, workers=2)
        self.runs = {}
        for task in ("ps-0", "worker-0", "worker-1"):
            self.runs[task] = self.cluster.start(task, "--epochs=1000000")
            self.addCleanup(self.runs[task].kill)
        self.runs["worker-0"].wait_for("worker-1 joined")
        self.address = self.cluster.address("ps-0")

    def top(self, *arguments):
        run = Run("top", self.address, *arguments)
        return run.wait(), run.output

    def test_without_a_terminal_it_prints_once(self):
        code, output = self.top()
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"^tiny: trains: epoch ")
        self.assertIn("processes missing 0 (of 3)", output)
        self.assertNotIn("\x1b", output)
        for task in ("ps-0", r"worker-0 \(chief\)", "worker-1"):
            # On a machine that is busy somebody may wait for long.
            self.assertRegex(output, rf"(?m)^[ !]+{task} +(alive|waits) ")

    def test_as_json_it_is_what_the_page_shows(self):
        code, output = self.top("--format=json")
        self.assertEqual(code, 0, output)
        page = json.loads(output)
        self.assertIn(page["level"], ("GOOD", "WARNING"))
        self.assertEqual(len(page["processes"]), 3)

    def test_what_cannot_be_is_said(self):
        for arguments, code, sentence in (
                (["--sort=colour"], 2, "--sort is worst, name, rate or memory, "
                 "not 'colour'"),
                (["--format=xml"], 2, "--format is text or json, not 'xml'")):
            self.assertEqual(self.top(*arguments),
                             (code, f"paramd: {sentence}\n"))
        run = Run("top", "127.0.0.1:1", "--timeout_ms=1000")
        self.assertEqual(run.wait(), 138)
        self.assertEqual(run.output,
                         "paramd: 127.0.0.1:1 can't be reached: refused\n")

    def test_on_a_terminal_it_is_drawn_until_somebody_has_seen_enough(self):
        terminal = Terminal(80, 24, self.address, "--delay_ms=100")
        self.addCleanup(terminal.close)
        terminal.wait_for(r"\Atiny: trains: .*\n(.*\n)*.*worker-1 +\w")
        terminal.wait_for(r"sorted by worst · o: another order")
        terminal.press("o")
        terminal.wait_for(r"sorted by name")
        for line in terminal.frame().split("\n"):
            self.assertLessEqual(len(line), 80, line)
        terminal.resize(40, 6)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.wait_for(r"\A([^\n]{,40}\n){,5}[^\n]{,40}\Z")
        terminal.resize(200, 50)
        terminal.process.send_signal(signal.SIGWINCH)
        self.runs["worker-1"].kill()
        terminal.wait_for(r"! +worker-1 +no answer")
        terminal.press("q")
        self.assertEqual(terminal.end(), 0)
        # The screen that was there is back, with a cursor.
        self.assertTrue(terminal.output.endswith("\x1b[?25h\x1b[?1049l"))

    def test_a_signal_gives_the_terminal_back(self):
        terminal = Terminal(80, 24, self.address)
        self.addCleanup(terminal.close)
        terminal.wait_for("trains: ")
        terminal.process.send_signal(signal.SIGINT)
        self.assertEqual(terminal.end(), 0)
        self.assertTrue(terminal.output.endswith("\x1b[?25h\x1b[?1049l"))

    def test_a_process_that_is_gone_does_not_look_alive(self):
        terminal = Terminal(120, 24, self.address, "--delay_ms=100")
        self.addCleanup(terminal.close)
        terminal.wait_for("trains: ")
        self.runs["ps-0"].kill()
        terminal.wait_for(r"\Atiny: no answer \(refused\), as it was \d+ s ago")


if __name__ == "__main__":
    unittest.main()
