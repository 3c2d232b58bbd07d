"""What is left of a process after its end: it lingers, or says why it ended."""

import os
import signal
import unittest

import grpc

from tests.cluster.paramd import Cluster, Run

STAYING = "the job is finished; staying until SIGTERM"


def is_ready(address):
    """Asks grpc.health.v1.Health for the service "readiness"."""
    with grpc.insecure_channel(address) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        return check(b"\n\x09readiness") == b"\x08\x01"  # SERVING


class LingerTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(servers=1, workers=2)

    def start(self, task, *flags):
        run = self.cluster.start(task, "--finish_timeout_ms=1000",
                                 "--linger_when_finished", *flags)
        self.addCleanup(run.kill)
        return run

    def finish_all(self):
        runs = {task: self.start(task) for task in self.cluster.tasks}
        for run in runs.values():
            run.wait_for(STAYING)
            run.wait_for("ready")
        return runs

    def assert_ends_well(self, run):
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 0, run.output)
        self.assertTrue(run.output.endswith("ended exit_code=0\n"), run.output)

    def test_each_process_stays_idle_until_sigterm(self):
        runs = self.finish_all()
        for task in self.cluster.tasks:
            status = Run("status", self.cluster.address(task))
            self.assertEqual(status.wait(), 0, status.output)
            self.assertIn("job tiny: finished", status.output)
            self.assertTrue(is_ready(self.cluster.address(task)), task)
        for run in runs.values():
            self.assert_ends_well(run)

    def test_a_process_that_is_started_again_stays_too(self):
        runs = self.finish_all()
        for task, run in runs.items():
            self.assert_ends_well(run)
            again = self.start(task)
            again.wait_for(STAYING)
            again.wait_for("ready")
            self.addCleanup(again.kill)
            runs[task] = again
        for run in runs.values():
            self.assert_ends_well(run)

    def test_another_run_is_not_kept_waiting(self):
        runs = self.finish_all()
        runs["worker-0"].signal(signal.SIGTERM)
        self.assertEqual(runs["worker-0"].wait(), 0)
        other = os.path.join(self.cluster.directory, "other")
        self.start("worker-0", f"--run_dir={other}")
        self.assertEqual(runs["ps-0"].wait(), 138, runs["ps-0"].output)
        self.assertIn("calls, and this process is of one that has finished",
                      runs["ps-0"].output)

    def test_without_the_setting_all_end_by_themselves(self):
        runs = [self.start(task, "--linger_when_finished=false")
                for task in self.cluster.tasks]
        for run in runs:
            self.assertEqual(run.wait(), 0, run.output)


class TerminationLogTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(servers=1, workers=1)
        self.path = os.path.join(self.cluster.directory, "termination-log")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("of the last life")

    def end(self, task, *flags):
        """Runs a task that ends by itself. Returns its exit code."""
        run = self.cluster.start(task, f"--termination_log={self.path}", *flags)
        self.addCleanup(run.kill)
        return run.wait()

    def text(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def test_a_wrong_flag(self):
        self.assertEqual(self.end("ps-0", "--epoch=1"), 2)
        self.assertEqual(self.text(),
                         "unknown flag --epoch; did you mean --epochs?")

    def test_a_wrong_configuration(self):
        self.assertEqual(self.end("ps-0", "--seed=x"), 2)
        self.assertIn("seed: wants a whole number", self.text())

    def test_a_start_without_the_others(self):
        self.assertEqual(self.end("worker-0", "--start_timeout_ms=200"), 138)
        self.assertIn("waiting for ps-0 at ", self.text())

    def test_a_signal(self):
        run = self.cluster.start("ps-0", f"--termination_log={self.path}")
        self.addCleanup(run.kill)
        run.wait_for("ready")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 143)
        self.assertEqual(self.text(), "stopped by SIGTERM")

    def test_a_good_end_writes_nothing(self):
        server = self.cluster.start("ps-0", f"--termination_log={self.path}")
        self.addCleanup(server.kill)
        self.assertEqual(self.end("worker-0"), 0)
        self.assertEqual(server.wait(), 0)
        self.assertEqual(self.text(), "of the last life")

    def test_a_whole_cluster_says_what_its_process_said(self):
        run = Run("local", "--job", self.cluster.job,
                  f"--termination_log={self.path}", "--set",
                  f"input.directory={self.cluster.directory}/nowhere")
        self.assertEqual(run.wait(), 2)
        self.assertRegex(self.text(), r"^(ps|worker)-\d exited 2: paramd: "
                         "--set: input.directory: there is no directory")

    def test_a_file_that_is_not_there_is_not_made(self):
        os.remove(self.path)
        self.assertEqual(self.end("ps-0", "--seed=x"), 2)
        self.assertFalse(os.path.exists(self.path))


if __name__ == "__main__":
    unittest.main()
