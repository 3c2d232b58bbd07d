"""Alerts, dashboard and metrics: promtool of Debian's package prometheus.

It lies where test.sh has put it, beside this Python, or in PATH.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

try:
    import yaml
except ImportError as missing:
    raise unittest.SkipTest("needs PyYAML, which kubernetes-validate of PyPI "
                            "brings") from missing

from deploy.testing import kustomize
from deploy.testing import pods
from tests.cluster import paramd

OVERLAY = kustomize.render("deploy/kustomize/overlays/monitoring")
PROMTOOL = shutil.which("promtool", path=os.pathsep.join(
    [os.path.dirname(sys.executable), os.environ["PATH"]]))
NEEDS_PROMTOOL = unittest.skipUnless(
    PROMTOOL, "needs promtool of Debian's package prometheus")


def promtool(*arguments, text=None, folder=None):
    done = subprocess.run([PROMTOOL, *arguments], input=text, cwd=folder,
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def outages():
    """(outage, alert) of the table of docs/operating.md."""
    with open("docs/operating.md", encoding="utf-8") as file:
        section = file.read().split("\n## Outages and alerts\n")[1]
    section = section.split("\n## ")[0]
    return re.findall(r"^\| ([^|`]+) \| `(\w+)` \|", section, re.MULTILINE)


def cases():
    """The tests of rules_test.yaml, by their names."""
    with open("deploy/testing/rules_test.yaml", encoding="utf-8") as file:
        return {case["name"]: case for case in yaml.safe_load(file)["tests"]}


def try_rules(*tests):
    """Checks the rules, and puts files of tests to promtool beside them."""
    folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
    with open(os.path.join(folder, "rules.yaml"), "w",
              encoding="utf-8") as file:
        yaml.safe_dump(rules(), file)
    code, output = promtool("check", "rules", "rules.yaml", folder=folder)
    for path in tests:
        if not code:
            shutil.copy(path, folder)
            code, output = promtool("test", "rules", os.path.basename(path),
                                    folder=folder)
    return code, output


def rules():
    (found,) = [o["spec"] for o in OVERLAY if o["kind"] == "PrometheusRule"]
    return found


def expressions():
    """Of all alerts and panels."""
    for group in rules()["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]
    dashboard = json.loads(pods.config_map(OVERLAY, "train-dashboard")
                           ["paramd.json"])
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


class RulesTest(unittest.TestCase):

    @NEEDS_PROMTOOL
    def test_every_alert_fires_when_it_should(self):
        code, output = try_rules("deploy/testing/rules_test.yaml")
        self.assertEqual(code, 0, output)

    def test_every_outage_of_the_manual_fires_its_alert(self):
        tested = cases()
        self.assertGreater(len(outages()), 15)
        for outage, alert in outages():
            with self.subTest(outage):
                fired = [rule["exp_alerts"] for rule
                         in tested[outage]["alert_rule_test"]
                         if rule["alertname"] == alert]
                self.assertTrue(any(fired), alert)

    def test_every_alert_is_for_an_outage_of_the_manual(self):
        self.assertEqual([alert for _, alert in outages()],
                         [rule["alert"] for group in rules()["groups"]
                          for rule in group["rules"]])

    def test_alerts_and_panels_ask_for_metrics_that_are_documented(self):
        with open("docs/metrics.md", encoding="utf-8") as file:
            documented = set(re.findall(r"`(\w+)`", file.read()))
        for expression in expressions():
            for name in re.findall(r"\b(?:paramd|process)_\w+", expression):
                name = re.sub(r"(staleness_pushes|_seconds)_(sum|count|bucket)$", r"\1", name)
                self.assertIn(name, documented)


class Monitored:
    """A cluster whose processes serve metrics, each in a pod of its name."""

    def __init__(self, test, tasks):
        self.runs, self._urls = {}, {}
        cluster = paramd.Cluster(servers=1, workers=2)
        for task in tasks:
            host = cluster.address(task).split(":")[0]
            run = cluster.start(task, "--epochs=1000000",
                                f"--metrics_address={host}:0")
            test.addCleanup(run.kill)
            run.wait_for("serving metrics")
            self.runs[task] = run
            self._urls[task] = re.search(r"url=(\S+)", run.output)[1]
        for state in ('type="ps",state="alive"} 1\n',
                      'type="worker",state="alive"} 2\n'):
            self.wait_for(f"paramd_job_member_processes{{{state}")

    def kill(self, task):
        self.runs.pop(task).kill()
        del self._urls[task]

    def metrics(self, task):
        """What it serves, once it has said something of itself."""
        text = ""
        while "paramd_task_info" not in text:
            with urllib.request.urlopen(self._urls[task]) as reply:
                text = reply.read().decode()
        return text

    def wait_for(self, sample):
        """Until the chief serves it."""
        while sample not in self.metrics("worker-0"):
            pass

    def series(self):
        """All that Prometheus would have of it, from series to value."""
        found = {}
        for task in self.runs:
            pod = (f'namespace="n",app_kubernetes_io_instance="train",'
                   f'pod="{task}"')
            found[f'up{{app_kubernetes_io_name="paramd",{pod}}}'] = "1"
            for name, labels, value in re.findall(
                    r"^(paramd_\w+)(?:\{(.*)\})? (\S+)$",
                    self.metrics(task), re.MULTILINE):
                labels = f"{labels},{pod}" if labels else pod
                found[f"{name}{{{labels}}}"] = value
        return found


def then(before, after):
    """Series for promtool: 20 minutes of `before`, three hours of `after`."""
    for series in before.keys() | after.keys():
        first = f"{before[series]}x19" if series in before else "_x20"
        last = f"{after[series]}x180" if series in after else "stale"
        yield {"series": series, "values": f"{first} {last}"}


class MetricsTest(unittest.TestCase):

    @NEEDS_PROMTOOL
    def test_metrics_of_every_role_are_as_they_should_be(self):
        tasks = ["ps-0", "worker-1", "worker-0"]
        cluster = Monitored(self, tasks)
        for task in tasks:
            code, output = promtool("check", "metrics",
                                    text=cluster.metrics(task))
            self.assertEqual((code, output), (0, ""), task)

    def fires(self, before, after, alerts):
        """Asserts that nothing fires before, and `alerts` 7 minutes on."""
        tests = {
            "rule_files": ["rules.yaml"], "evaluation_interval": "1m",
            "tests": [{
                "interval": "1m", "input_series": list(then(before, after)),
                "promql_expr_test": [
                    {"expr": 'ALERTS{alertstate="firing"}',
                     "eval_time": "19m", "exp_samples": []},
                    {"expr": 'count by (alertname) '
                             '(ALERTS{alertstate="firing"})',
                     "eval_time": "27m", "exp_samples": [
                         {"labels": f'{{alertname="{alert}"}}', "value": 1}
                         for alert in alerts]}]}]}
        path = os.path.join(tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"]),
                            "live_test.yaml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump(tests, file)
        code, output = try_rules(path)
        self.assertEqual(code, 0, output)

    @NEEDS_PROMTOOL
    def test_the_end_of_a_chief_fires_over_what_the_others_serve(self):
        cluster = Monitored(self, ["ps-0", "worker-1", "worker-0"])
        before = cluster.series()
        cluster.kill("worker-0")
        self.fires(before, cluster.series(), ["ParamdChiefGone"])

    @NEEDS_PROMTOOL
    def test_the_end_of_all_fires_over_what_they_served(self):
        cluster = Monitored(self, ["ps-0", "worker-1", "worker-0"])
        self.fires(cluster.series(), {}, ["ParamdJobGone"])

    @NEEDS_PROMTOOL
    def test_the_end_of_the_last_server_fires_over_what_the_chief_serves(self):
        cluster = Monitored(self, ["ps-0", "worker-1", "worker-0"])
        before = cluster.series()
        cluster.kill("ps-0")
        cluster.wait_for(
            'paramd_job_member_processes{type="ps",state="alive"} 0\n')
        self.fires(before, cluster.series(),
                   ["ParamdNoServerUp", "ParamdMemberLost"])


if __name__ == "__main__":
    unittest.main()
