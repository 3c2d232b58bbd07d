"""A running job between real processes is stopped by an operator."""

import json
import os
import re
import signal
import unittest

from tests.cluster import paramd

STOPPED = re.compile(r"stopped by an operator \(uid (\d+)\) at step (\d+); a later "
                     r"start goes on from (\S+)$", re.M)


def command(*arguments, **options):
    run = paramd.Run(*arguments, **options)
    return run.wait(), run.output


class StopTest(unittest.TestCase):

    def start(self, *flags, servers=2, workers=2, tasks=None):
        self.cluster = paramd.Cluster(servers, workers)
        self.start_again(*flags, tasks=tasks)

    def start_again(self, *flags, tasks=None):
        self.runs = {}
        for task in tasks or self.cluster.tasks:
            self.runs[task] = self.cluster.start(
                task, "--epochs=1000000", "--set=checkpoint.every_seconds=0",
                "--evaluate_every_epochs=0", "--finish_timeout_ms=20000", *flags)
            self.addCleanup(self.runs[task].kill)

    def stop(self, *flags):
        return command("stop", self.cluster.run_directory,
                       "--timeout_ms=120000", *flags)

    def expect_all_ended_with(self, sentence):
        for task, run in self.runs.items():
            self.assertEqual(run.wait(), 0, f"{task}: {run.output}")
            self.assertIn(sentence, run.output, task)

    def stop_and_go_on(self, *flags):
        """The step of the last checkpoint."""
        self.start(*flags)
        for task in ("worker-0", "worker-1"):
            self.runs[task].wait_for("first push of generation")
        code, output = self.stop()
        self.assertEqual(code, 0, output)
        said = STOPPED.search(output)
        self.assertTrue(said, output)
        self.assertEqual(int(said[1]), os.getuid())
        self.expect_all_ended_with(said[0])
        path = os.path.join(self.cluster.directory, said[3])
        self.assertEqual(command("checkpoint", "verify", path)[0], 0)
        self.assertTrue(path.endswith(f".step-{said[2]}"), path)
        self.assertFalse(os.path.exists(
            os.path.join(self.cluster.run_directory, "failure.json")))
        self.start_again(*flags)
        self.runs["worker-0"].wait_for(f"going on from checkpoint {said[3]}")
        self.runs["worker-1"].wait_for("first push of generation")
        code, output = self.stop("--now")
        self.assertEqual(code, 0, output)
        self.assertIn("stopped at once by an operator", output)
        self.expect_all_ended_with("stopped at once by an operator")
        self.assertEqual(paramd.checkpoints(self.cluster.run_directory)[-1],
                         os.path.basename(path))

    def test_async_goes_on_from_the_last_checkpoint(self):
        self.stop_and_go_on()

    def test_sync_goes_on_from_the_last_checkpoint(self):
        self.stop_and_go_on("--staleness=sync")

    def test_bounded_goes_on_from_the_last_checkpoint(self):
        self.stop_and_go_on("--staleness=2")

    def test_twice_the_second_one_waits_too(self):
        self.start("--lease_ms=120000")
        self.runs["worker-1"].wait_for("first push of generation")
        # The first one waits for a worker that stands still.
        os.kill(self.runs["worker-1"].process.pid, signal.SIGSTOP)
        first = paramd.Run("stop", self.cluster.run_directory,
                            "--timeout_ms=120000")
        first.wait_for("waiting for worker-1")
        second = paramd.Run("stop", self.cluster.run_directory,
                            "--timeout_ms=120000")
        second.wait_for("the job is being stopped already; waiting for")
        os.kill(self.runs["worker-1"].process.pid, signal.SIGCONT)
        for run in (first, second):
            self.assertEqual(run.wait(), 0, run.output)
            self.assertRegex(run.output, STOPPED)
        for run in self.runs.values():
            self.assertEqual(run.wait(), 0, run.output)

    def test_before_the_job_runs(self):
        self.start("--finish_timeout_ms=2000", tasks=["worker-0", "worker-1"])
        self.runs["worker-0"].wait_for("waiting core=coordinator for=")
        self.runs["worker-1"].wait_for("waiting core=worker-1")
        code, output = self.stop()
        self.assertEqual(code, 0, output)
        self.assertIn("a later start begins anew", output)
        self.expect_all_ended_with("a later start begins anew")

    def test_those_that_linger_stay_until_a_signal(self):
        self.start("--linger_when_finished", servers=1)
        self.runs["worker-1"].wait_for("first push of generation")
        code, output = self.stop()
        self.assertEqual(code, 0, output)
        for run in self.runs.values():
            run.wait_for("; staying until SIGTERM")
            run.wait_for(" ready")
        # It is not being stopped any more.
        code, output = command("status", self.cluster.address("worker-0"),
                               "--watch")
        self.assertEqual(code, 0, output)
        self.assertIn("job tiny: finished, ", output)
        self.assertRegex(output, STOPPED)
        for run in self.runs.values():
            run.signal(signal.SIGTERM)
            self.assertEqual(run.wait(), 0, run.output)

    def test_what_operators_asked_is_kept(self):
        self.start(servers=1, workers=1)
        self.runs["worker-0"].wait_for("first push of generation")
        self.assertEqual(command("set", "staleness=4", "--run_dir",
                                 self.cluster.run_directory)[0], 0)
        code, output = command("set", "staleness=never", "--run_dir",
                               self.cluster.run_directory)
        self.assertEqual(code, 2, output)
        code, output = command("status", "--format=json",
                               self.cluster.address("worker-0"))
        self.assertEqual(code, 0, output)
        self.assertEqual(self.stop()[0], 0)
        with open(os.path.join(self.cluster.run_directory, "audit.jsonl"),
                  encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        for line in lines:
            self.assertEqual((line["process"], line["who"], line["address"]),
                             ("worker-0", f"uid {os.getuid()}",
                              "the Unix socket"))
        self.assertEqual([(line["call"], line["asks"]) for line in lines],
                         [("Set", 'key: "staleness" value: "4"'),
                          ("Set", 'key: "staleness" value: "never"'),
                          ("Set", 'key: "staleness" value: "never"'),
                          ("StopJob", "")])
        self.assertEqual([bool(line["refused"]) for line in lines],
                         [False, False, True, False])
        calls = {process["name"]: process["status"]["operator_calls"]
                 for process in json.loads(output)["processes"]
                 if "operator_calls" in process["status"]}
        self.assertEqual([call["call"] for call in calls["worker-0"]],
                         ["Set", "Set"])

    def test_a_job_in_one_process(self):
        cluster = paramd.Cluster(1, 1)
        run = paramd.Run("run", "--job", cluster.job, "--epochs=1000000",
                         "--run_dir", cluster.run_directory,
                         "--set=checkpoint.every_seconds=0",
                         "--evaluate_every_epochs=0",
                         directory=cluster.directory)
        self.addCleanup(run.kill)
        run.wait_for("first push of generation")
        code, output = command("set", "learning_rate_scale=0.5", "--run_dir",
                               cluster.run_directory)
        self.assertEqual(code, 0, output)
        code, output = command("checkpoint", "now", "--run_dir",
                               cluster.run_directory)
        self.assertEqual(code, 0, output)
        code, output = command("stop", cluster.run_directory)
        self.assertEqual(code, 0, output)
        said = STOPPED.search(output)
        self.assertTrue(said, output)
        self.assertEqual(run.wait(), 0, run.output)
        self.assertIn(said[0], run.output)
        self.assertEqual(paramd.checkpoints(cluster.run_directory)[-1],
                         os.path.basename(said[3]))
        code, output = command("stop", cluster.run_directory)
        self.assertEqual(code, 2, output)
        self.assertIn("there is no socket", output)

    def test_a_local_cluster(self):
        cluster = paramd.Cluster(1, 1)
        run = paramd.Run("local", "--job", cluster.job, "--epochs=1000000",
                         "--run_dir", cluster.run_directory,
                         "--evaluate_every_epochs=0",
                         directory=cluster.directory)
        self.addCleanup(run.kill)
        run.wait_for("first push of generation")
        code, output = command("stop", cluster.run_directory)
        self.assertEqual(code, 0, output)
        self.assertEqual(run.wait(), 0, run.output)
        self.assertRegex(run.output, "stopped by an operator")
        self.assertRegex(run.output, "to go on: .* --resume")
        self.assertNotIn("restart 1", run.output)


if __name__ == "__main__":
    unittest.main()
