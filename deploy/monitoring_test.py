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
        folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        with open(os.path.join(folder, "rules.yaml"), "w",
                  encoding="utf-8") as file:
            yaml.safe_dump(rules(), file)
        shutil.copy("deploy/testing/rules_test.yaml", folder)
        code, output = promtool("check", "rules", "rules.yaml", folder=folder)
        self.assertEqual(code, 0, output)
        code, output = promtool("test", "rules", "rules_test.yaml",
                                folder=folder)
        self.assertEqual(code, 0, output)

    def test_every_alert_is_tested(self):
        with open("deploy/testing/rules_test.yaml", encoding="utf-8") as file:
            text = file.read()
        for group in rules()["groups"]:
            for rule in group["rules"]:
                self.assertIn(f"alertname: {rule['alert']}\n", text)

    def test_alerts_and_panels_ask_for_metrics_that_are_documented(self):
        with open("docs/metrics.md", encoding="utf-8") as file:
            documented = set(re.findall(r"`(\w+)`", file.read()))
        for expression in expressions():
            for name in re.findall(r"\b(?:paramd|process)_\w+", expression):
                name = re.sub(r"(staleness_pushes)_(sum|count)$", r"\1", name)
                self.assertIn(name, documented)


class MetricsTest(unittest.TestCase):

    @NEEDS_PROMTOOL
    def test_metrics_of_every_role_are_as_they_should_be(self):
        cluster = paramd.Cluster(servers=1, workers=2)
        urls = {}
        for task in ("ps-0", "worker-1", "worker-0"):
            host = cluster.address(task).split(":")[0]
            run = cluster.start(task, "--epochs=1000000",
                                f"--metrics_address={host}:0")
            self.addCleanup(run.kill)
            run.wait_for("serving metrics")
            urls[task] = re.search(r"url=(\S+)", run.output)[1]
            if task == "worker-0":
                run.wait_for("acknowledged")
        for task, url in urls.items():
            with urllib.request.urlopen(url) as reply:
                text = reply.read().decode()
            code, output = promtool("check", "metrics", text=text)
            self.assertEqual((code, output), (0, ""), task)


if __name__ == "__main__":
    unittest.main()
