"""paramd input bench, as typed."""

import json
import os
import subprocess
import tempfile
import unittest

from tests.cluster import paramd


class InputBenchTest(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def bench(self, stages, *arguments):
        job = paramd.tiny_job(self.directory)
        job["input"]["stages"] = stages
        return self.bench_job(job, *arguments)

    def bench_job(self, job, *arguments):
        path = os.path.join(self.directory, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        done = subprocess.run(
            ["cli/paramd", "input", "bench", "--job", path, *arguments],
            env={}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_each_stage_the_queue_and_what_limits_are_shown(self):
        code, out, errors = self.bench(
            ["shuffle", {"resize": {"height": 200, "width": 200}},
             {"prefetch": 3}], "--steps=50")
        self.assertEqual((code, errors), (0, ""))
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^400 examples in [0-9.]+ s: [0-9,]+ a "
                         r"second, [0-9.]+ batches of 8 a second$")
        self.assertRegex(lines[2], r"^stage +calls +µs each +share$")
        self.assertEqual([line.split()[0] for line in lines[3:7]],
                         ["read", "shuffle", "resize", "batch"])
        shares = [float(line.split()[3][:-1]) for line in lines[3:7]]
        self.assertAlmostEqual(sum(shares), 100, delta=0.3)
        self.assertRegex(lines[8], r"^threads: 1, idle \d+% of the time$")
        self.assertRegex(lines[9], r"^queue: [0-2]\.\d of 2 batches ready "
                         r"after the one taken; \d+ of 50 takes waited$")
        self.assertRegex(lines[10], r" limits: ")

    def test_the_trace_is_what_perfetto_reads(self):
        trace = os.path.join(self.directory, "trace.json")
        code, _, errors = self.bench(["shuffle"], "--steps=4",
                                     "--trace", trace)
        self.assertEqual((code, errors), (0, ""))
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        lanes = {event["tid"]: event["args"]["name"] for event in events
                 if event["name"] == "thread_name"}
        found = {}
        for event in events:
            if event["ph"] == "M":
                continue
            self.assertEqual(event["ph"], "X")
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            found.setdefault(lanes[event["tid"]], set()).add(event["name"])
        self.assertEqual(found, {"disk": {"read"}, "CPU": {"shuffle", "batch"},
                                 "compute": {"wait for a batch"}})

    def test_a_batch_may_be_larger_than_many_epochs(self):
        code, out, errors = self.bench(
            [{"take": {"examples": 4}}], "--steps=20",
            "--set=batch_per_replica=2000")
        self.assertEqual((code, errors), (0, ""))
        self.assertRegex(out, "^80 examples in ")

    def test_a_trace_that_cannot_be_written_is_one_sentence(self):
        code, _, errors = self.bench(["shuffle"], "--steps=4",
                                     "--trace", "/nowhere/trace.json")
        self.assertEqual(code, 2)
        self.assertRegex(errors, "^paramd: --trace: '/nowhere/trace.json' "
                         "cannot be written: No such file or directory\n$")

    def test_what_is_wrong_with_the_input_is_said(self):
        code, out, errors = self.bench([{"skip": 64}])
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(errors, "^paramd: .*skip")

    def test_a_topic_is_refused(self):
        with open("config/examples/clicks_kafka.json", encoding="utf-8") as file:
            code, out, errors = self.bench_job(json.load(file))
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(errors, "^paramd: input bench reads files; the messages "
                         "of input.train.kafka are read by a job that runs: [^\n]*\n$")


if __name__ == "__main__":
    unittest.main()
