"""What the system limits (ulimit) and what whoever starts a process has closed:
it works, or says in one sentence what it needs, with exit code 2."""

import json
import os
import re
import resource
import subprocess
import tempfile
import unittest

from tests.cluster import paramd

# Nobody's: a limit of threads counts those of the user, and not of root.
NOBODY = 54321

THREADS = (r"this process may have \d+ threads and needs \d+; raise the limit "
           r"\(ulimit -u, or pids\.max of its control group\) or start fewer "
           "processes")
ADDRESS_SPACE = (r"this process may have \d+ KiB of address space and needs "
                 r"\d+, and more for its model and data; raise the limit "
                 r"\(ulimit -v \d+, or a grid engine's h_vmem\)|"
                 "the address space is used up: raise the limit .*|"
                 "no further thread can be started: raise the limit .*")
FILES = r"this process may open \d+ files and needs \d+: .*"
# Whoever loads the program, before there is any of it.
LOADER = 127


class LimitsTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        os.chmod(self.directory, 0o777)
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(paramd.tiny_job(self.directory), file)

    def command(self):
        return [paramd.BINARY, "run", "--job", self.job]

    def run_limited(self, limit, value, under=(), **environment):
        """Runs the job, or one task of it, under one limit."""
        def set_limit():
            resource.setrlimit(limit, (value, value))

        done = subprocess.run(
            [*under, *self.command()], cwd=self.directory, text=True,
            preexec_fn=set_limit if limit is not None else None,
            env={**os.environ, **environment}, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def assert_works_or_says(self, sentence, code, output, also=()):
        if code == 0 or code in also:
            return
        self.assertEqual(code, 2, output)
        said = re.findall("^paramd: (.*)$", output, re.MULTILINE)
        self.assertEqual(len(said), 1, output)
        self.assertRegex(said[0], f"^({sentence})$")

    def as_nobody(self, command):
        """Prefix of a command that runs under a user's own limits; skips the
        test where there is none."""
        if os.geteuid() != 0:
            self.skipTest("needs root, to become a user of its own")
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                  "--clear-groups"]
        tried = subprocess.run([*become, paramd.BINARY, "--version"],
                               capture_output=True, check=False)
        if tried.returncode != 0:
            self.skipTest("another user cannot run the program here")
        return [*become, "bash", "-c", f'{command}; exec "$0" "$@"']

    def test_threads(self):
        self.as_nobody("")  # Skips all of it, not each part.
        codes = []
        for threads in (1, 2, 3, 4, 6, 8, 10, 12, 14, 17, 20, 25, 64):
            with self.subTest(threads=threads):
                code, output = self.run_limited(
                    None, 0, self.as_nobody(f"ulimit -u {threads}"))
                self.assert_works_or_says(THREADS, code, output)
                codes.append(code)
        # Not refused for ever, nor ever let in.
        self.assertEqual((codes[0], codes[-1]), (2, 0))
        self.assertEqual(codes, sorted(codes, reverse=True))

    def test_threads_of_each_task(self):
        under = self.as_nobody("ulimit -u 8")
        cluster = {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2",
                                                     "127.0.0.1:3"],
                   "evaluator": ["127.0.0.1:4"]}
        for kind, index in (("ps", 0), ("worker", 0), ("worker", 1)):
            with self.subTest(kind=kind, index=index):
                tf_config = {"cluster": cluster,
                             "task": {"type": kind, "index": index}}
                code, output = self.run_limited(
                    None, 0, [*under], TF_CONFIG=json.dumps(tf_config))
                self.assertEqual(code, 2, output)
                self.assertRegex(output, THREADS)

    def test_address_space(self):
        codes = []
        for mebibytes in (100, 150, 200, 250, 300, 400, 500, 600, 800, 1000,
                          1500, 4000):
            with self.subTest(mebibytes=mebibytes):
                code, output = self.run_limited(resource.RLIMIT_AS,
                                                mebibytes << 20)
                self.assert_works_or_says(ADDRESS_SPACE, code, output,
                                          also=(LOADER,))
                codes.append(code)
        self.assertIn(2, codes)
        self.assertEqual(codes[-1], 0)

    def test_open_files(self):
        tf_config = {"cluster": {"ps": ["127.0.0.1:1"],
                                 "worker": ["127.0.0.1:2"]},
                     "task": {"type": "worker", "index": 0}}
        code, output = self.run_limited(resource.RLIMIT_NOFILE, 40,
                                        TF_CONFIG=json.dumps(tf_config))
        self.assertEqual(code, 2, output)
        self.assertRegex(output, FILES)

    # ---- descriptors

    def test_closed_standard_descriptors(self):
        for closed in ([0], [1], [2], [0, 1], [1, 2], [0, 1, 2]):
            with self.subTest(closed=closed):
                redirected = " ".join(f"{fd}>&-" for fd in closed)
                run_dir = os.path.join(
                    self.directory, "run-" + "".join(map(str, closed)))
                code = subprocess.run(
                    ["bash", "-c", f'"$@" {redirected}', "bash",
                     *self.command(), "--run_dir", run_dir],
                    cwd=self.directory, check=False,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL).returncode
                self.assertEqual(code, 0)
                self.assertTrue(paramd.checkpoints(run_dir))

    def test_a_result_that_nobody_gets_is_still_none(self):
        code = subprocess.run(
            ["bash", "-c", '"$@" >&-', "bash", paramd.BINARY, "version"],
            check=False, stderr=subprocess.DEVNULL).returncode
        self.assertEqual(code, 1)


if __name__ == "__main__":
    unittest.main()
