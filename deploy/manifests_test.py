"""Manifests are valid for Kubernetes and agree with each other and paramd."""

import copy
import os
import re
import shutil
import subprocess
import tempfile
import unittest

try:
    import yaml  # pylint: disable=unused-import
except ImportError as missing:
    raise unittest.SkipTest("needs PyYAML, which kubernetes-validate of PyPI "
                            "brings") from missing

from deploy.testing import kustomize
from deploy.testing import pods
from deploy.testing.manifest_checks import (
    ManifestChecks, check_candidates, check_election, of_kind, selects)
from tests.cluster import paramd

try:
    from deploy.testing import schemas
except ImportError:
    schemas = None

ROOT = "deploy/kustomize"
JOBS = ["base", "jobset", "tfjob", "overlays/gpu", "overlays/nfs",
        "overlays/monitoring", "overlays/tls", "overlays/cert-manager",
        "overlays/istio", "overlays/stages"]
# Whose chief is two pods, so that what holds of the others does not of it.
ELECTION = "overlays/election"


def rendered(name):
    return kustomize.render(os.path.join(ROOT, name))


@unittest.skipUnless(schemas, "needs kubernetes-validate of PyPI")
class SchemaTest(unittest.TestCase):

    def test_every_object_is_valid(self):
        valid = []
        for name in JOBS + [ELECTION]:
            for document in rendered(name):
                with self.subTest(job=name, kind=document["kind"],
                                  object=document["metadata"]["name"]):
                    if document not in valid:
                        schemas.check(document)
                        valid.append(document)

    def check_refused(self, kind, change, sentence, name="overlays/monitoring"):
        (document, *_) = of_kind(rendered(name), kind)
        document = copy.deepcopy(document)
        change(document)
        with self.assertRaisesRegex(schemas.Wrong, sentence):
            schemas.check(document)

    def test_an_unknown_kind_is_refused(self):
        self.check_refused("Job", lambda o: o.update(kind="Jobs"),
                           "unknown kind batch/v1")
        self.check_refused("PodMonitor",
                           lambda o: o.update(apiVersion="m.io/v1"),
                           "unknown kind m.io/v1")

    def test_an_unknown_field_is_refused(self):
        self.check_refused(
            "Certificate", lambda o: o["spec"].update(uri="x"),
            "'uri' was unexpected", name="overlays/cert-manager")
        self.check_refused("Job", lambda o: o["spec"].update(completion=1),
                           "'completion' was unexpected")
        self.check_refused(
            "JobSet", lambda o: o["spec"]["replicatedJobs"][0]["template"]
            ["spec"]["template"]["spec"].update(restart="x"),
            "'restart' was unexpected", name="jobset")
        self.check_refused("TFJob",
                           lambda o: o["spec"].update(cleanPodPolicy="None"),
                           "'cleanPodPolicy' was unexpected", name="tfjob")
        self.check_refused(
            "AuthorizationPolicy",
            lambda o: o["spec"]["rules"][0]["to"][0]["operation"].update(
                path="/x"), "'path' was unexpected", name="overlays/istio")
        self.check_refused("PodMonitor", lambda o: o.update(extra=1),
                           "unknown: .'extra'.")


class RenderTest(unittest.TestCase):

    @unittest.skipUnless(shutil.which("kubectl"), "needs kubectl")
    def test_kubectl_renders_the_same(self):
        def key(document):
            return document["kind"], document["metadata"]["name"]

        # kustomize refuses Bazel's links, since they lead out of the folder.
        copied = os.path.join(tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"]),
                              "kustomize")
        shutil.copytree(ROOT, copied)
        for name in JOBS + [ELECTION]:
            done = subprocess.run(
                ["kubectl", "kustomize", os.path.join(copied, name)],
                capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(
                sorted(filter(None, yaml.safe_load_all(done.stdout)), key=key),
                sorted(rendered(name), key=key), name)


class ManifestsTest(ManifestChecks, unittest.TestCase):
    jobs = {name: rendered(name) for name in JOBS}


class ElectionTest(unittest.TestCase):

    def test_pods_may_ask_who_is_the_chief(self):
        check_election(self, rendered(ELECTION))

    def test_the_chief_is_two_candidates(self):
        check_candidates(self, rendered(ELECTION))

    def test_other_pods_are_those_of_the_base_but_for_the_election(self):
        before, after = ([pod for pod in pods.pods_of(rendered(name))
                          if pod.role != "chief"]
                         for name in ("base", ELECTION))
        for old, new in zip(before, after, strict=True):
            self.assertEqual(new.container["args"], old.container["args"])
            self.assertEqual(new.environment["PARAMD_CLUSTER"],
                             old.environment["PARAMD_CLUSTER"])
            self.assertEqual(new.container["livenessProbe"],
                             old.container["livenessProbe"])


class IstioTest(unittest.TestCase):
    """The policies of overlays/istio say what services.proto says."""

    objects = rendered("overlays/istio")
    # The service that only one role has; all have Control.
    SERVICES = {"ps": "ParameterServer", "chief": "Coordinator", "worker": None}

    def callers(self):
        """{(service, method): the roles that may call it}"""
        table = {}
        service = None
        with open("proto/paramd/v1/services.proto", encoding="utf-8") as file:
            text = re.sub("//.*", "", file.read())
        for name, method, roles in re.findall(
                r"service (\w+)|rpc (\w+)|callers: \[?([\w, ]+)", text):
            if name:
                service = name
            elif method:
                called = method
            else:
                table[service, called] = {
                    role.split("_")[1].lower()
                    for role in re.findall(r"ROLE_\w+", roles)}
        return table

    def is_allowed(self, caller, pod, path, port):
        policies = [o["spec"] for o in of_kind(self.objects,
                                               "AuthorizationPolicy")
                    if selects(o["spec"]["selector"], pod.labels)]
        self.assertEqual([p["action"] for p in policies], ["ALLOW"])
        for rule in policies[0]["rules"]:
            accounts = [account for source in rule.get("from", [])
                        for account in source["source"]["serviceAccounts"]]
            if "from" in rule and caller not in accounts:
                continue
            for to in rule["to"]:
                if port in to["operation"]["ports"] and \
                        path in to["operation"].get("paths", [path]):
                    return True
        return False

    def test_each_role_may_call_what_the_table_of_methods_lets_it(self):
        table = self.callers()
        self.assertGreater(len(table), 15)
        members = ["ps", "worker", "chief"]
        for pod in pods.pods_of(self.objects):
            for (service, method), callers in table.items():
                path = f"/paramd.v1.{service}/{method}"
                serves = service in ("Control", self.SERVICES[pod.role])
                for role in members:
                    self.assertEqual(
                        self.is_allowed(f"train-{role}", pod, path, "7077"),
                        serves and (role in callers or "anyone" in callers),
                        f"{role} calls {path} of {pod.role}")
                self.assertFalse(
                    self.is_allowed("default", pod, path, "7077"), path)
            self.assertTrue(self.is_allowed("prometheus", pod, "/metrics",
                                            "9090"))

    def test_a_pod_is_the_account_of_its_role(self):
        accounts = [o["metadata"]["name"]
                    for o in of_kind(self.objects, "ServiceAccount")]
        for pod in pods.pods_of(self.objects):
            self.assertEqual(pod.spec["serviceAccountName"],
                             f"train-{pod.role}")
            self.assertIn(pod.spec["serviceAccountName"], accounts)

    def test_a_caller_without_a_certificate_of_the_mesh_reads_metrics_alone(self):
        (authentication,) = of_kind(self.objects, "PeerAuthentication")
        for pod in pods.pods_of(self.objects):
            self.assertTrue(selects(authentication["spec"]["selector"],
                                    pod.labels))
        self.assertEqual(authentication["spec"]["mtls"]["mode"], "STRICT")
        self.assertEqual(list(authentication["spec"]["portLevelMtls"]), ["9090"])


class BinaryTest(unittest.TestCase):
    """The binary takes what the manifests tell it."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def check(self, objects, pod, *more):
        """`paramd config check` with what the pod's container is told."""
        job = os.path.join(self.directory, "job.json")
        with open(job, "w", encoding="utf-8") as file:
            file.write(pods.config_map(objects, "train-job")["job.json"])
        command, *arguments = pod.container["args"]
        self.assertEqual(command, "run")
        # The certificates are a secret's; both let others in.
        arguments = ["--insecure" if a.startswith("--tls_dir=")
                     else a.replace("/etc/paramd/job.json", job)
                     for a in arguments]
        # What the claim would hold.
        arguments += [f"--set=input.directory={self.directory}", *more]
        return subprocess.run(
            [*in_a_pod(pod), os.path.abspath("cli/paramd"), "config", "check",
             *arguments], env=pod.environment, capture_output=True, text=True,
            check=False)

    @unittest.skipUnless(
        subprocess.run(["unshare", "--map-root-user", "--uts", "true"],
                       check=False, stderr=subprocess.DEVNULL).returncode == 0,
        "no process may have a host name of its own here")
    def test_every_argument_is_known_and_every_pod_is_its_task(self):
        for name in ("base", "jobset", "tfjob", "overlays/tls",
                     "overlays/stages"):
            objects = rendered(name)
            seen = []
            for pod in pods.pods_of(objects):
                done = self.check(objects, pod)
                wrong = [line for line in done.stderr.splitlines()
                         if "input." not in line]
                self.assertEqual(wrong, [], f"{name} {pod.host_name}")
                done = self.check(objects, pod, "--task_type=x")
                seen.append(done.returncode)
            self.assertEqual(set(seen), {2}, name)


class ProbesTest(unittest.TestCase):

    def test_the_binary_serves_what_is_probed(self):
        try:
            from deploy.testing import probe
        except ImportError:
            self.skipTest("needs python3-grpcio")
        cluster = paramd.Cluster(servers=1, workers=1)
        server = cluster.start("ps-0")
        self.addCleanup(server.kill)
        server.wait_for(" ready")
        asked = {pod.container[kind]["grpc"]["service"]
                 for name in JOBS for pod in pods.pods_of(rendered(name))
                 for kind in ("startupProbe", "livenessProbe",
                              "readinessProbe")}
        for service in asked:
            self.assertTrue(probe.serves(cluster.address("ps-0"), service))
        self.assertFalse(probe.serves(cluster.address("ps-0"), "other"))


def in_a_pod(pod):
    """The command that gives the next one the pod's host name."""
    return ["/usr/bin/unshare", "--map-root-user", "--uts", "/bin/sh", "-c",
            f'hostname {pod.host_name}; exec "$@"', "sh"]


if __name__ == "__main__":
    unittest.main()
