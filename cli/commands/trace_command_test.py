"""paramd trace, as typed, while a cluster trains."""

import json
import os
import tempfile
import time
import unittest

from tests.cluster.paramd import Cluster, Run


def paramd(*arguments):
    run = Run(*arguments)
    return run.wait(), run.output


class Trace:
    """What is in a file: events and flows by process, and what is known of it."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            whole = json.load(file)
        self.other = whole["otherData"]
        self.processes = {}
        self.threads = {}
        for event in whole["traceEvents"]:
            if event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                place = event["pid"], event["tid"]
                self.threads[place] = event["args"]["name"]
        self.events = [e for e in whole["traceEvents"] if e["ph"] == "X"]
        self.flows = {}
        for event in whole["traceEvents"]:
            if event["ph"] in "stf":
                self.flows.setdefault(event["id"], []).append(event)

    def process(self, event):
        return self.processes[event["pid"]]

    def lanes(self, process):
        """Kinds of work that it has events of."""
        return {self.threads[event["pid"], event["tid"]].split()[0]
                for event in self.events if self.process(event) == process}

    def error_us(self, *processes):
        return sum(self.other["clocks"][p]["error_us"] for p in processes)


class TraceCommandTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "trace.json")

    def start(self, *flags):
        self.cluster = Cluster(servers=2, workers=2)
        self.runs = {}
        for task in self.cluster.tasks:
            self.runs[task] = self.cluster.start(
                task, "--epochs=1000000", "--set=checkpoint.every_seconds=0", *flags)
            self.addCleanup(self.runs[task].kill)
        for task in ("worker-0", "worker-1"):
            self.runs[task].wait_for("first push of generation")
        # Some were there before the run's directory.
        self.wait_until(lambda: all(
            os.path.exists(os.path.join(self.cluster.run_directory, f"{task}.sock"))
            for task in self.cluster.tasks))

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def trace(self, *arguments, seconds=1):
        return paramd("trace", *arguments, f"--seconds={seconds}", f"--to={self.path}")

    def audit(self):
        try:
            with open(os.path.join(self.cluster.run_directory, "audit.jsonl"),
                      encoding="utf-8") as audit:
                return audit.read()
        except FileNotFoundError:
            return ""

    def check_flows(self, trace):
        """Arrows lead from a worker over servers and back, and never into the past."""
        ended = 0
        for flow in trace.flows.values():
            start = min((event for event in flow if event["ph"] == "s"),
                        key=lambda event: event["ts"])
            self.assertGreater(len(flow), 1, flow)
            for event in flow:
                bound = trace.error_us(trace.process(event), trace.process(start))
                self.assertGreaterEqual(event["ts"], start["ts"] - bound, flow)
            ends = [event for event in flow if event["ph"] == "f"]
            for end in ends:
                self.assertEqual(end["pid"], start["pid"], flow)
            ended += len(ends) > 0 and len(flow) > 2
        self.assertGreater(ended, 0, trace.flows)

    def check_cluster(self, trace):
        self.assertEqual(set(trace.processes.values()), set(self.cluster.tasks))
        for worker in ("worker-0", "worker-1"):
            self.assertLessEqual({"CPU", "compute", "push", "turns"},
                                 trace.lanes(worker))
        # Each layer's gradient, when it was computed.
        self.assertTrue(any(event["args"]["variables"] for event in trace.events
                            if event["name"] == "gradient"))
        for server in ("ps-0", "ps-1"):
            self.assertEqual({"calls", "turns"}, trace.lanes(server))
        pushed = [event for event in trace.events if event["name"] == "Push"]
        self.assertLessEqual({"ps-0", "ps-1"}, {trace.process(e) for e in pushed})
        for event in pushed:
            self.assertGreater(event["args"]["push"], 0)
            self.assertIn(": slice ", event["args"]["blocks"][0])
        # All are of the second that was asked for.
        begin = min(event["ts"] for event in trace.events)
        end = max(event["ts"] + event["dur"] for event in trace.events)
        self.assertEqual(begin, 0)
        self.assertGreater(end, 0.5e6)
        self.check_flows(trace)

    def test_all_processes_are_in_it_by_one_clock(self):
        self.start()
        code, output = self.trace(self.cluster.run_directory)
        self.assertEqual(code, 0, output)
        self.assertRegex(
            output, r"trace\.json: [1-9]\d* events of worker-0, worker-1, ps-0, ps-1 in "
                    r"1 s; their clocks agree within \d+\.\d{3} ms\n")
        trace = Trace(self.path)
        self.check_cluster(trace)
        # They are all of this machine, and have one clock.
        for process, clock in trace.other["clocks"].items():
            self.assertLessEqual(abs(clock["offset_us"]), clock["error_us"] + 1, process)
            self.assertGreater(clock["calls"], 8)
        self.assertEqual(trace.other["missing"], [])
        # In each process's audit log, which is one file here.
        self.assertEqual(self.audit().count('"Trace"'), 4, self.audit())
        self.assertIn("duration_ms: 1000", self.audit())
        for run in self.runs.values():
            self.assertIsNone(run.process.poll())
        # And again: nothing of the last one is left.
        code, output = self.trace(self.cluster.run_directory)
        self.assertEqual(code, 0, output)
        self.check_cluster(Trace(self.path))

    def test_who_is_missing_is_named_and_the_others_are_there(self):
        self.start()
        self.runs["worker-1"].kill()
        code, output = self.trace(self.cluster.run_directory)
        self.assertEqual(code, 138, output)
        self.assertRegex(output, r"worker-1 is missing: .*can't be reached: refused")
        trace = Trace(self.path)
        self.assertEqual(set(trace.processes.values()), {"worker-0", "ps-0", "ps-1"})
        (missing,) = trace.other["missing"]
        self.assertIn("worker-1 is missing", missing)
        self.check_flows(trace)

    def test_one_at_a_time(self):
        self.start()
        first = Run("trace", self.cluster.run_directory, "--seconds=20", f"--to={self.path}")
        self.addCleanup(first.kill)
        self.wait_until(lambda: self.audit().count('"Trace"') >= 4)
        code, output = paramd("trace", self.cluster.run_directory,
                              f"--to={self.path}.second")
        self.assertEqual(code, 138, output)
        self.assertRegex(output, r"worker-0 is being traced by somebody else, for \d+s more")
        self.assertFalse(os.path.exists(f"{self.path}.second"))
        self.assertEqual(first.wait(), 0, first.output)
        self.check_cluster(Trace(self.path))

    def test_a_job_that_ends_meanwhile_leaves_no_file(self):
        self.start()
        run = Run("trace", self.cluster.run_directory, "--seconds=60", f"--to={self.path}")
        self.addCleanup(run.kill)
        self.wait_until(lambda: self.audit().count('"Trace"') >= 4)
        for process in self.runs.values():
            process.kill()
        self.assertEqual(run.wait(), 138, run.output)
        self.assertIn("there is no trace: worker-0 is missing", run.output)
        self.assertFalse(os.path.exists(self.path))

    def test_who_is_interrupted_leaves_nothing_but_what_was_there(self):
        self.start()
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("kept")
        run = Run("trace", self.cluster.run_directory, "--seconds=60",
                  f"--to={self.path}.new")
        self.addCleanup(run.kill)
        self.wait_until(lambda: self.audit().count('"Trace"') >= 4)
        run.process.terminate()
        self.assertEqual(run.wait(), -15, run.output)
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["trace.json"])
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "kept")

    def test_what_cannot_be_is_a_sentence(self):
        self.start()
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("kept")
        run_directory = self.cluster.run_directory
        for arguments, expected, message in (
                ((run_directory, "--to=/nowhere/t.json"), 2,
                 "--to: '/nowhere/t.json': No such file or directory"),
                ((run_directory, "--seconds=0"), 2, "seconds"),
                ((run_directory, "--seconds=61"), 2, "seconds"),
                (("nowhere",), 2, "nor the directory of a run"),
                ((self.cluster.directory, f"--to={self.path}"), 2, "worker-0.sock"),
                ((self.cluster.address("ps-0"),), 2,
                 "--chief and --tls_dir belong together")):
            code, output = paramd("trace", *arguments)
            self.assertEqual(code, expected, output)
            self.assertIn(message, output)
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "kept")
        self.assertNotIn('"Trace"', self.audit())

    def test_with_certificates_it_is_for_operators_from_anywhere(self):
        directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        tls = os.path.join(directory, "tls")
        code, output = paramd("tls", "init", "--job=tiny", f"--dir={tls}", "--servers=2",
                              "--workers=2", "--readers=1")
        self.assertEqual(code, 0, output)
        self.start(f"--tls_dir={tls}")
        address = self.cluster.address("ps-1")
        code, output = self.trace(address, f"--tls_dir={tls}")
        self.assertEqual(code, 0, output)
        self.check_cluster(Trace(self.path))
        for who in ("reader-0", "worker-1"):
            code, output = self.trace(address, f"--tls_dir={tls}/{who}")
            self.assertEqual(code, 2, output)
            self.assertIn("its certificate is that of", output)

    def test_a_job_in_one_process_is_one_process(self):
        cluster = Cluster(servers=1, workers=1)
        run = Run("run", "--job", cluster.job, "--run_dir", cluster.run_directory,
                  "--epochs=1000000", "--set=checkpoint.every_seconds=0")
        self.addCleanup(run.kill)
        run.wait_for("first push of generation")
        code, output = self.trace(cluster.run_directory)
        self.assertEqual(code, 0, output)
        trace = Trace(self.path)
        self.assertEqual(list(trace.processes.values()), ["paramd"])
        self.assertLessEqual({"compute", "push", "turns"}, trace.lanes("paramd"))
        self.check_flows(trace)


if __name__ == "__main__":
    unittest.main()
