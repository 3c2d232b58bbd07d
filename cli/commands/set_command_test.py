"""paramd set, as typed, while a job runs."""

import json
import os
import stat
import unittest

from tests.cluster.paramd import Cluster, Run, checkpoints


def paramd(*arguments, directory=None):
    run = Run(*arguments, directory=directory)
    return run.wait(), run.output


class SetCommandTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(servers=1, workers=1)
        self.runs = {}
        for task in self.cluster.tasks:
            self.start(task)
        self.runs["worker-0"].wait_for("worker-0 joined")

    def start(self, task):
        self.runs[task] = self.cluster.start(task, "--epochs=1000000")
        self.addCleanup(self.runs[task].kill)

    def set(self, setting):
        return paramd("set", setting, "--run_dir", self.cluster.run_directory)

    def staleness(self):
        code, output = paramd("status", "--format=json",
                              self.cluster.address("ps-0"))
        self.assertEqual(code, 0, output)
        return json.loads(output)["job"]["staleness"]

    def test_a_change_holds_at_once_and_over_a_restart_of_the_chief(self):
        self.assertEqual(self.staleness(), "async")
        code, output = self.set("staleness=8")
        self.assertEqual(code, 0, output)
        self.assertRegex(
            output,
            r"^staleness is 8 as of configuration 1\.\d+, and was async$")
        self.assertEqual(self.staleness(), "8")
        self.runs["worker-0"].wait_for(
            "an operator changed staleness from async to 8")
        # And who that was.
        self.assertRegex(
            self.runs["worker-0"].output,
            r'an operator called call=Set asks="key: \\"staleness\\" value: '
            r'\\"8\\"" operator="uid \d+" at="the Unix socket"')
        self.runs["worker-0"].kill()
        self.start("worker-0")
        self.runs["worker-0"].wait_for("worker-0 joined")
        self.assertEqual(self.staleness(), "8")

    def test_every_process_logs_what_it_is_told_to_log(self):
        code, output = self.set("log_level=error")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, "^log_level is error .*, and was info$")
        code, output = self.set("log_level=debug")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, "^log_level is debug .*, and was error$")
        # gRPC's own lines are of that level.
        code, output = self.set("checkpoint.every_steps=20")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, "^checkpoint.every_steps is 20 .*, and was ")
        self.runs["worker-0"].wait_for("checkpoint.every_steps from", "to 20")
        before = len(checkpoints(self.cluster.run_directory))
        while len(checkpoints(self.cluster.run_directory)) == before:
            pass

    def test_a_scale_of_learning_rates_holds_in_all_servers(self):
        def said(*flags):
            code, output = paramd("status", *flags, self.cluster.address("ps-0"))
            self.assertEqual(code, 0, output)
            return output

        def scale():
            return json.loads(said("--format=json"))["job"].get("learning_rate_scale")

        self.assertIsNone(scale())
        for value, shown in (("0.5", 0.5), ("0", 0), ("1", None), ("0.25", 0.25)):
            code, output = self.set(f"learning_rate_scale={value}")
            self.assertEqual(code, 0, output)
            self.assertRegex(output, "^learning_rate_scale is " + value)
            self.assertEqual(scale(), shown)
        self.assertIn("learning rates are multiplied by 0.25", said())
        code, output = self.set("staleness=sync")
        self.assertEqual(code, 0, output)
        code, output = self.set("learning_rate_scale=0.5")
        self.assertEqual(code, 0, output)
        self.runs["worker-0"].kill()
        self.start("worker-0")
        self.runs["worker-0"].wait_for("worker-0 joined")
        self.assertEqual(scale(), 0.5)

    def test_sync_begins_and_ends_while_the_job_runs(self):
        for value in ("sync", "4", "sync", "async"):
            code, output = self.set(f"staleness={value}")
            self.assertEqual(code, 0, output + "".join(
                self.runs[task].output for task in self.cluster.tasks))
            self.assertEqual(self.staleness(), value)

    def test_the_socket_is_its_owners_and_is_found_by_itself(self):
        path = os.path.join(self.cluster.run_directory, "worker-0.sock")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        root = os.path.join(self.cluster.directory, "runs")
        os.mkdir(root)
        os.symlink(self.cluster.run_directory, os.path.join(root, "tiny-1"))
        code, output = paramd("set", "staleness=2",
                              directory=self.cluster.directory)
        self.assertEqual(code, 0, output)

    def test_what_makes_no_sense_is_2_and_changes_nothing(self):
        for setting, why in (
                ("staleness=fast", "staleness must be"),
                ("learning_rate_scale=-1", "needs a number from 0 to 1000000"),
                ("epochs=3", "'epochs' can't be changed while the job runs"),
                ("checkpoint.every_steps=-1",
                 "needs a whole number, at least 0, at most 1000000000000"),
                ("checkpoint.every_seconds=31536001", "at most 31536000"),
                ("log_level=loud", "needs one of debug, info, warning, error"),
                ("staleness", "is not key=value, as in staleness=8")):
            code, output = self.set(setting)
            self.assertEqual(code, 2, output)
            self.assertIn(why, output)
        self.assertEqual(self.staleness(), "async")

    def test_a_chief_that_is_gone_is_138(self):
        self.runs["worker-0"].kill()
        code, output = self.set("staleness=8")
        self.assertEqual(code, 138, output)
        self.assertIn("can't be reached: refused", output)


if __name__ == "__main__":
    unittest.main()
