"""/metrics of processes that live, as Prometheus would read it."""

import re
import unittest
import urllib.error
import urllib.request

from tests.cluster.paramd import Cluster

NAME = r"[a-z][a-z_]*"
SAMPLE = re.compile(
    rf'({NAME})(?:\{{{NAME}="[^"\\\n]*"(?:,{NAME}="[^"\\\n]*")*\}})? (\S+)')
OURS = re.compile(
    r"paramd_[a-z]+(_[a-z]+)*_(info|ratio|seconds|bytes|blocks|checkpoints"
    r"|clicks|connections|directories|entries|epochs|messages|offsets|processes|sessions"
    r"|pulls|pushes|refusals|shards|steps|batches|examples|threads|value|workers"
    r"|per_example|per_second)(_total)?")


def parse(text):
    """Checks the exposition format. Returns {name: [value, ...]}."""
    if not text.endswith("\n"):
        raise AssertionError("the last line is not ended")
    families, samples, current = {}, {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            if current in families or len(line.split(None, 3)) < 4:
                raise AssertionError(f"twice, or without help: {line}")
            families[current] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            if name != current or families[name] is not None:
                raise AssertionError(f"a type out of place: {line}")
            families[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            if match is None:
                raise AssertionError(f"no sample: {line}")
            name, value = match.groups()
            kind = families[current]
            suffixes = (("_bucket", "_sum", "_count") if kind == "histogram"
                        else ("",))
            if name not in [current + suffix for suffix in suffixes]:
                raise AssertionError(f"{line} is not one of {current}")
            samples.setdefault(name, []).append(float(value))
    return families, samples


class LiveMetricsTest(unittest.TestCase):

    def setUp(self):
        self.cluster = Cluster(servers=1, workers=1)

    def start(self, task, *flags):
        run = self.cluster.start(task, "--epochs=1000000", *flags)
        self.addCleanup(run.kill)
        return run

    def serve(self, task, message):
        """Starts a task and returns its URL once it has said `message`."""
        run = self.start(task, "--metrics_address=127.0.0.1:0")
        run.wait_for(message)
        return re.search(r"serving metrics url=(\S+)", run.output)[1]

    def test_every_metric_has_help_and_type_and_a_name_after_the_rule(self):
        urls = [self.serve("ps-0", "ready"),
                self.serve("worker-0", "worker-0 joined")]
        names = set()
        for url in urls:
            samples = {}
            # On a busy machine an answer may come before the process's figures.
            while "paramd_status_age_seconds" not in samples:
                with urllib.request.urlopen(url) as answer:
                    self.assertEqual(answer.headers["Content-Type"],
                                     "text/plain; version=0.0.4; charset=utf-8")
                    families, samples = parse(answer.read().decode())
            for name, kind in families.items():
                self.assertIsNotNone(kind, name)
                if name.startswith("paramd_"):
                    self.assertRegex(name, OURS)
                else:
                    self.assertRegex(name, r"^process_")
            names |= samples.keys()
        for name in ("paramd_server_answered_pulls_total",
                     "paramd_server_staleness_pushes_bucket",
                     "paramd_worker_acknowledged_pushes_total",
                     "paramd_job_member_processes",
                     "process_resident_memory_bytes"):
            self.assertIn(name, names)

    def test_another_path_is_not_found_and_the_process_lives_on(self):
        url = self.serve("ps-0", "ready")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url + "/other")
        with refused.exception as answer:
            self.assertEqual(answer.code, 404)
        with urllib.request.urlopen(url) as answer:
            self.assertEqual(answer.status, 200)

    def test_an_address_that_others_reach_needs_insecure(self):
        run = self.start("ps-0", "--metrics_address=0.0.0.0:0")
        self.assertEqual(run.wait(), 2)
        self.assertIn("pass --insecure", run.output)

    def test_what_is_no_address_is_said_before_anything_starts(self):
        run = self.start("ps-0", "--metrics_address=9090")
        self.assertEqual(run.wait(), 2)
        self.assertEqual(
            run.output, "paramd: --metrics_address: metrics_address: "
            '"9090" has no port; write host:port\n')

    def test_without_the_setting_nothing_is_served(self):
        run = self.start("ps-0")
        run.wait_for("ready")
        self.assertNotIn("metrics", run.output)


if __name__ == "__main__":
    unittest.main()
