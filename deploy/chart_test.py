"""The Helm chart, rendered by the engine that Helm is made of.

Needs Go with sprig: CHART_PACKAGES of third_party/packages.sh, which `test.sh --all`
installs.
"""

import copy
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

try:
    import jsonschema
    import yaml
except ImportError as missing:
    raise unittest.SkipTest(f"needs kubernetes-validate of PyPI: {missing}"
                            ) from missing

from deploy.testing import kustomize
from deploy.testing import pods
from deploy.testing.manifest_checks import (
    ManifestChecks, check_candidates, check_election, lets_in, of_kind,
    policy_of, selects)

try:
    from deploy.testing import schemas
except ImportError:
    schemas = None

CHART = os.path.abspath("deploy/helm/paramd")
GO_PACKAGES = "/usr/share/gocode"
MONITORED = {"monitoring": {"podMonitor": True, "rules": True,
                            "dashboard": True, "labels": {"release": "prom"}}}


def build_renderer(directory):
    """The program that renders, or None with the reason why there is none."""
    if not shutil.which("go"):
        return None, "needs Go"
    renderer = os.path.join(directory, "render_chart")
    done = subprocess.run(
        ["go", "build", "-o", renderer, "deploy/testing/render_chart.go"],
        env={**os.environ, "GO111MODULE": "off", "GOPATH": GO_PACKAGES,
             "GOCACHE": os.path.join(directory, "go"), "HOME": directory},
        capture_output=True, text=True, check=False)
    if "cannot find package" in done.stderr:
        return None, "needs Debian's packages of sprig and sigs.k8s.io/yaml"
    if done.returncode:
        raise AssertionError(done.stderr)
    return renderer, ""


RENDERER, WHY_NOT = build_renderer(
    tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"]))


def render(values, release="train"):
    """The objects, and what the notes say."""
    done = subprocess.run([RENDERER, CHART, release], input=json.dumps(values),
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [o for o in yaml.safe_load_all(done.stdout) if o], done.stderr


def load(name):
    with open(os.path.join(CHART, name), encoding="utf-8") as file:
        return yaml.safe_load(file)


def without_tests(objects):
    return [o for o in objects
            if "helm.sh/hook" not in o["metadata"].get("annotations", {})]


def comparable(pod):
    """All of a pod but where its environment comes from and its labels."""
    spec = copy.deepcopy(pod.spec)
    spec["containers"][0].pop("env", None)
    environment = {
        name: json.loads(value) if name == "TF_CONFIG" else value.split()
        for name, value in pod.environment.items()}
    return pod.host_name, spec, environment, pod.failure_policy


@unittest.skipUnless(RENDERER, WHY_NOT)
class ChartTest(ManifestChecks, unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.jobs = {name: render({"controller": name, **MONITORED})[0]
                    for name in ("plain", "jobset", "tfjob")}
        cls.jobs["tls"], _ = render({"tls": {"enabled": True}, **MONITORED})
        for name, values in (("stages", {}),
                             ("jobset with stages", {"controller": "jobset"}),
                             ("tls with stages", {"tls": {"enabled": True}})):
            cls.jobs[name], _ = render({"stage": {"perWorker": 1}, **values,
                                        **MONITORED})

    def test_every_object_is_valid(self):
        if schemas is None:
            self.skipTest("needs kubernetes-validate of PyPI")
        for objects in self.jobs.values():
            for document in objects:
                with self.subTest(document["metadata"]["name"]):
                    schemas.check(document)

    def test_pods_are_those_of_the_kustomizations(self):
        for name, folder in (("plain", "base"), ("jobset", "jobset"),
                             ("tfjob", "tfjob"), ("tls", "overlays/tls"),
                             ("stages", "overlays/stages")):
            ours = pods.pods_of(self.jobs[name])
            theirs = pods.pods_of(
                kustomize.render(f"deploy/kustomize/{folder}"))
            self.assertEqual([comparable(pod) for pod in ours],
                             [comparable(pod) for pod in theirs])

    def test_monitoring_is_that_of_the_overlay(self):
        overlay = kustomize.render("deploy/kustomize/overlays/monitoring")
        for objects in self.jobs.values():
            for kind in ("PrometheusRule", "PodMonitor"):
                (ours,) = of_kind(objects, kind)
                (theirs,) = of_kind(overlay, kind)
                self.assertEqual(ours["spec"], theirs["spec"])
                self.assertEqual(ours["metadata"]["labels"]["release"], "prom")
            self.assertEqual(pods.config_map(objects, "train-dashboard"),
                             pods.config_map(overlay, "train-dashboard"))

    def test_the_job_file_is_that_of_the_kustomization(self):
        overlay = kustomize.render("deploy/kustomize/common")
        self.assertEqual(
            json.loads(pods.config_map(self.jobs["plain"],
                                       "train-job")["job.json"]),
            json.loads(pods.config_map(overlay, "train-job")["job.json"]))

    def test_helm_test_asks_a_server(self):
        for objects in self.jobs.values():
            (test,) = [o for o in objects if o not in without_tests(objects)]
            command, address, *more = test["spec"]["containers"][0]["args"]
            self.assertEqual(command, "status")
            server = pods.pods_of(objects)[0]
            self.assertEqual(more, [a for a in server.container["args"]
                                    if a.startswith("--tls_dir=")])
            secrets = [source["secret"]["name"]
                       for volume in test["spec"].get("volumes", [])
                       for source in volume["projected"]["sources"]]
            self.assertEqual(secrets,
                             ["train-tls-operator-0"] if more else [])
            self.assertTrue(f"{server.dns_name}:7077".startswith(
                address.split(":")[0]), address)
            (policy,) = [
                o["spec"] for o in of_kind(objects, "NetworkPolicy")
                if selects(o["spec"]["podSelector"], test["metadata"]["labels"])]
            self.assertEqual(policy, policy_of(objects, server))

    def test_notes_name_the_release(self):
        self.assertIn("kubectl logs -n default", render({}, "other")[1])


@unittest.skipUnless(RENDERER, WHY_NOT)
class ValuesTest(unittest.TestCase):

    def test_counts_reach_every_place(self):
        objects, _ = render({"ps": {"count": 3}, "worker": {"count": 4}}, "big")
        found = pods.pods_of(objects)
        self.assertEqual([pod.role for pod in found],
                         ["ps"] * 3 + ["worker"] * 3 + ["chief"])
        self.assertEqual(found[0].environment["PARAMD_CLUSTER"].split(),
                         ["chief=big-chief-0.big:7077",
                          "ps=big-ps-{0..2}.big:7077",
                          "worker=big-worker-{0..2}.big:7077"])
        (budget,) = of_kind(objects, "PodDisruptionBudget")
        self.assertEqual(budget["spec"]["minAvailable"], 2)

    def test_each_worker_has_its_stages(self):
        objects, _ = render({"worker": {"count": 3}, "stage": {
            "perWorker": 2, "resources": {"limits": {"nvidia.com/gpu": 1}}}})
        self.check_schemas(objects)
        found = pods.pods_of(objects)
        stages = [pod for pod in found if pod.role == "stage"]
        workers = [pod for pod in found if pod.role in ("worker", "chief")]
        self.assertIn("stage=train-stage-{0..5}.train:7077",
                      found[0].environment["PARAMD_CLUSTER"].split())
        called = {worker.host_name: [stage.host_name for stage in stages
                                     if lets_in(objects, worker, stage, 7077)]
                  for worker in workers}
        self.assertEqual(called, {
            "train-chief-0": ["train-stage-0", "train-stage-1"],
            "train-worker-0": ["train-stage-2", "train-stage-3"],
            "train-worker-1": ["train-stage-4", "train-stage-5"]})
        for pod in found:
            self.assertEqual(
                "nvidia.com/gpu" in pod.container["resources"]["limits"],
                pod.role == "stage")
        with self.assertRaisesRegex(AssertionError,
                                    "stage.perWorker: needs controller plain"):
            render({"stage": {"perWorker": 1}, "controller": "tfjob"})

    def test_the_chief_may_be_the_only_worker(self):
        for controller in ("plain", "jobset", "tfjob"):
            objects, _ = render({"worker": {"count": 1},
                                 "controller": controller})
            self.assertEqual([pod.role for pod in pods.pods_of(objects)],
                             ["ps", "ps", "chief"])

    def test_values_reach_the_pods(self):
        objects, _ = render({
            "image": {"repository": "r.example/p", "tag": "2"},
            "imagePullSecrets": [{"name": "s"}], "priorityClassName": "high",
            "podLabels": {"a": "b"}, "podAnnotations": {"c": "d"},
            "extraEnv": [{"name": "E", "value": "f"}], "port": 2222,
            "worker": {"nodeSelector": {"gpu": "yes"},
                       "tolerations": [{"operator": "Exists"}],
                       "resources": {"limits": {"nvidia.com/gpu": 1}}},
            "storage": {"existingClaim": "mine"},
            "networkPolicy": {"enabled": False},
            "disruptionBudget": {"enabled": False}})
        for kind in ("PersistentVolumeClaim", "NetworkPolicy",
                     "PodDisruptionBudget", "PodMonitor"):
            self.assertEqual(of_kind(objects, kind), [])
        for pod in pods.pods_of(objects):
            self.assertEqual(pod.container["image"], "r.example/p:2")
            self.assertEqual(pod.spec["priorityClassName"], "high")
            self.assertEqual(pod.labels["a"], "b")
            self.assertEqual(pod.environment["E"], "f")
            self.assertIn(":2222", pod.environment["PARAMD_CLUSTER"])
            self.assertEqual(
                pod.spec["volumes"][1]["persistentVolumeClaim"]["claimName"],
                "mine")
            trains = pod.role != "ps"
            self.assertEqual(pod.spec["nodeSelector"],
                             {"kubernetes.io/arch": "amd64",
                              **({"gpu": "yes"} if trains else {})})
            limits = pod.container["resources"]["limits"]
            self.assertEqual("nvidia.com/gpu" in limits, trains)

    def test_a_digest_stands_in_place_of_the_tag(self):
        digest = "sha256:" + 32 * "0a"
        objects, _ = render({"image": {"repository": "r.example/p",
                                       "tag": "2", "digest": digest}})
        images = {spec["containers"][0]["image"]
                  for spec in self.specs(objects)}
        self.assertEqual(images, {f"r.example/p@{digest}"})

    def specs(self, objects):
        """Of all pods, that of `helm test` included."""
        return ([pod.spec for pod in pods.pods_of(objects)] +
                [o["spec"] for o in of_kind(objects, "Pod")])

    def test_a_role_has_the_volumes_and_the_affinity_that_it_is_given(self):
        apart = {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname",
                 "labelSelector": {"matchLabels": {"a": "b"}}}]}}
        rows = {"name": "rows", "emptyDir": {"sizeLimit": "50Gi"}}
        mount = {"name": "rows", "mountPath": "/rows"}
        for controller in ("plain", "jobset", "tfjob"):
            for role, roles in (("ps", ["ps"]),
                                ("worker", ["worker", "chief"])):
                objects, _ = render({
                    "controller": controller, "tls": {"enabled": True},
                    role: {"affinity": apart, "extraVolumes": [rows],
                           "extraVolumeMounts": [mount]}})
                self.check_schemas(objects)
                for pod in pods.pods_of(objects):
                    has = pod.role in roles
                    self.assertEqual(pod.spec.get("affinity"),
                                     apart if has else None)
                    self.assertEqual(rows in pod.spec["volumes"], has)
                    self.assertEqual(
                        mount in pod.container["volumeMounts"], has)

    def check_schemas(self, objects):
        for document in objects if schemas else []:
            schemas.check(document)

    def test_pods_run_as_the_account_that_is_given_or_made(self):
        for values, name in (
                ({}, None), ({"name": "mine"}, "mine"),
                ({"create": True}, "train"),
                ({"create": True, "name": "mine", "annotations": {"a": "b"}},
                 "mine")):
            objects, _ = render({"serviceAccount": values})
            self.check_schemas(objects)
            for spec in self.specs(objects):
                self.assertEqual(spec.get("serviceAccountName"), name)
                self.assertIs(spec["automountServiceAccountToken"], False)
            made = of_kind(objects, "ServiceAccount")
            self.assertEqual([o["metadata"]["name"] for o in made],
                             [name] if "create" in values else [])
            for account in made:
                self.assertEqual(account["metadata"].get("annotations"),
                                 values.get("annotations"))

    def test_a_lease_elects_one_of_several_candidates(self):
        account = {"serviceAccount": {"create": True}}
        objects, _ = render({"election": {"candidates": 2}, **account})
        self.check_schemas(objects)
        check_election(self, objects)
        # The arguments come in another order than patches make.
        for pod in pods.pods_of(objects):
            pod.container["args"].sort(
                key=lambda a: (a == "--task_index=0"))
        check_candidates(self, objects)
        for values, sentence in (
                ({}, "needs serviceAccount.create"),
                ({"controller": "jobset", **account}, "needs controller plain"),
                ({"tls": {"enabled": True}, **account}, "and no tls")):
            with self.assertRaisesRegex(AssertionError, sentence):
                render({"election": {"candidates": 2}, **values})

    def test_the_architecture_is_that_of_the_image(self):
        for architecture, selector in (
                ("arm64", {"kubernetes.io/arch": "arm64"}), ("", None)):
            objects, _ = render({"architecture": architecture,
                                 "ps": {"nodeSelector": None}})
            for spec in self.specs(objects):
                self.assertEqual(spec.get("nodeSelector"), selector)
        objects, _ = render({"ps": {"nodeSelector":
                                    {"kubernetes.io/arch": "s390x"}}})
        for pod in pods.pods_of(objects):
            self.assertEqual(pod.spec["nodeSelector"]["kubernetes.io/arch"],
                             "s390x" if pod.role == "ps" else "amd64")

    def test_a_long_release_has_short_host_names(self):
        objects, _ = render({"controller": "jobset"}, "r" * 53)
        for pod in pods.pods_of(objects):
            self.assertLessEqual(len(pod.host_name), 63)


class SchemaOfValuesTest(unittest.TestCase):

    def setUp(self):
        self.values = load("values.yaml")
        with open(os.path.join(CHART, "values.schema.json"),
                  encoding="utf-8") as file:
            self.schema = json.load(file)

    def check(self, path, value):
        inner = self.values
        *steps, last = path.split(".")
        for step in steps:
            inner = inner[step]
        inner[last] = value
        jsonschema.Draft7Validator(self.schema).validate(self.values)

    def test_the_defaults_are_valid(self):
        jsonschema.Draft7Validator.check_schema(self.schema)
        jsonschema.Draft7Validator(self.schema).validate(self.values)

    def test_what_makes_no_sense_is_refused(self):
        for path, value in [
                ("controller", "deployment"), ("ps.count", 0),
                ("ps.count", "2"), ("stage.perWorker", -1),
                ("stage.count", 2), ("port", 80), ("userId", 0),
                ("worker.replicas", 3), ("job", {}), ("storage.size", "much"),
                ("job.run_dir", "/x"), ("networkPolicies", True),
                ("extraEnv", [{"name": "TF_CONFIG", "value": "{}"}]),
                ("storage.accessModes", []),
                ("image.digest", "sha256:12"), ("image.digest", "latest"),
                ("serviceAccount.create", "yes"), ("election.candidates", 0),
                ("ps.affinity", {"podAffinities": {}}),
                ("ps.extraVolumes", [{"name": "train", "emptyDir": {}}]),
                ("worker.extraVolumeMounts", [{"name": "a"}]),
                ("worker.extraVolumeMounts",
                 [{"name": "a", "mountPath": "/train/"}])]:
            with self.subTest(path), self.assertRaises(
                    jsonschema.ValidationError):
                self.check(path, value)
            self.setUp()

    def test_every_value_has_a_sentence(self):
        with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        for before, line in zip([""] + lines, lines):
            key = re.match(r"^( {0,2})([a-zA-Z]+):( .*)?$", line)
            in_job = key and key[1] and self.section(lines, line) == "job"
            is_group = key and not key[3]
            if key and not in_job and not is_group:
                self.assertRegex(before, r"^ *# .*\S", line)

    def section(self, lines, line):
        """The top-level key that `line` stands under."""
        above = lines[:lines.index(line)]
        return [l for l in above if re.match("^[a-z]", l)][-1].split(":")[0]

    def test_values_and_schema_have_the_same_keys(self):
        def keys(schema):
            return {name: set(inner.get("properties", {}))
                    for name, inner in schema["properties"].items()}

        known = keys(self.schema)
        known.pop("global")
        self.assertEqual(set(known), set(self.values))
        for name, inner in known.items():
            if name != "job" and inner:
                self.assertEqual(inner, set(self.values[name]), name)


if __name__ == "__main__":
    unittest.main()
