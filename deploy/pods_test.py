"""Runs the pods of the manifests, each in namespaces of its own.

The job trains, loses pods as in a cluster, and ends with exit code 0. Skips itself
with the reason where network namespaces can't be created.
"""

import json
import os
import re
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.request

try:
    import grpc  # pylint: disable=unused-import
    import yaml  # pylint: disable=unused-import
except ImportError as missing:
    raise unittest.SkipTest("needs python3-grpcio and PyYAML") from missing

from deploy.testing import kustomize
from deploy.testing import machine
from deploy.testing import pods
from deploy.testing import probe
from deploy.testing.secret_volume import SecretVolume
from tests.cluster import paramd

FAILED, BAD_CONFIGURATION, RETRY, STOPPED = 1, 2, 138, 143


def setUpModule():
    try:
        machine.enter()
    except OSError as error:
        raise unittest.SkipTest(str(error)) from error
    PodsTest.dns = machine.Dns()


class PodsTest(unittest.TestCase):
    dns = None  # Once this process has a network of its own.

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.claim = self.folder("claim")
        self.job = self.folder("job")
        self.roots = 0
        self.secrets = {}  # Name to the folder of its files.
        self.secret_volumes = []  # Of all pods that were started.

    def folder(self, name):
        path = os.path.join(self.directory, name)
        os.mkdir(path)
        return path

    def load(self, name, **changes):
        """The pods of a kustomization, by host name, and their job file."""
        objects = kustomize.render(f"deploy/kustomize/{name}")
        job = json.loads(pods.config_map(objects, "train-job")["job.json"])
        os.mkdir(os.path.join(self.claim, "data"))
        tiny = paramd.tiny_job(os.path.join(self.claim, "data"))
        tiny.pop("input")
        job.update(tiny, **changes)
        with open(os.path.join(self.job, "job.json"), "w",
                  encoding="utf-8") as file:
            json.dump(job, file)
        return {pod.host_name: pod for pod in pods.pods_of(objects)}

    def start(self, pod):
        self.roots += 1
        root = os.path.join(self.directory, f"root{self.roots}")
        volumes = {"train": self.claim, "job": self.job}
        for volume in pod.spec["volumes"]:
            if "projected" in volume:
                secrets = SecretVolume(volume, self.secrets, f"{root}.secrets")
                volumes[volume["name"]] = secrets.folder
                self.secret_volumes.append(secrets)
        entry = machine.make_root(root, paramd.BINARY)
        running = machine.RunningPod(pod, root, entry, volumes, self.dns,
                                     self.directory)
        self.addCleanup(running.kill)
        return running

    def replace_server(self, running, pod):
        """Kills a ps, whose next pod has another address."""
        running[pod.host_name].kill()
        begin = time.monotonic()
        server = running[pod.host_name] = self.start(pod)
        server.wait_until_serving("readiness")
        up = time.monotonic() - begin
        server.wait_until_serving("restored")
        found = time.monotonic() - server.known_since()
        print(f"{pod.host_name} was ready {up:.2f} s after its start, and "
              f"filled {found:.2f} s after DNS told its new address")
        # gRPC by itself would ask for the name again after 30 s.
        self.assertLess(found, 30)

    def replace_worker(self, running, pod):
        """Deletes a worker, as a drained node does."""
        worker = running[pod.host_name]
        worker.terminate()
        self.assertEqual(worker.wait(), STOPPED, worker.output())
        self.assertIn("SIGTERM", worker.termination_message())
        running[pod.host_name] = self.start(pod)
        running[pod.host_name].wait_for("acknowledged")

    def assert_the_budget_follows_the_limit(self, server):
        if server.memory_limit is None:
            return  # No control group could be made.
        with urllib.request.urlopen(
                f"http://{server.address}:9090/metrics") as page:
            (value,) = re.findall(
                r"^paramd_server_memory_limit_bytes\S* (\S+)$",
                page.read().decode(), re.MULTILINE)
        # Nine tenths, of which what arrives may have 256 MiB.
        self.assertEqual(int(float(value)),
                         server.memory_limit // 10 * 9 - 2**28)

    def assert_all_finish(self, running):
        # On a busy machine tens of thousands of steps take minutes.
        codes = {pod.pod.host_name: pod.wait(600) for pod in running}
        self.assertEqual(set(codes.values()), {0}, "\n".join(
            f"{pod.pod.host_name}:\n{pod.output()}" for pod in running))
        with open(os.path.join(self.claim, "run", "result.json"),
                  encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(int(result["pushes_doubled"]), 0, result)


class LifeTest(PodsTest):

    def test_pods_that_are_lost_are_replaced_and_the_job_ends(self):
        all_pods = self.load("base", epochs=5000,
                             checkpoint={"every_seconds": 1})
        running = {}
        # Whoever needs the others comes first, and asks for names that are not.
        for name in ("train-chief-0", "train-worker-0", "train-ps-1",
                     "train-ps-0"):
            running[name] = self.start(all_pods[name])
            running[name].wait_until_serving("liveness")
            self.assertTrue(running[name].probe("readiness"), name)
            self.assertFalse(running[name].probe("other"))
            uid, capabilities = running[name].user_and_capabilities()
            self.assertEqual((uid, capabilities), (65532, 0))
        chief = running["train-chief-0"]
        chief.wait_for("checkpoint")
        self.assertGreater(self.dns.negative_answers, 0)
        self.assert_the_budget_follows_the_limit(running["train-ps-0"])

        self.replace_server(running, all_pods["train-ps-1"])
        self.replace_worker(running, all_pods["train-worker-0"])

        chief.kill()
        running["train-chief-0"] = self.start(all_pods["train-chief-0"])
        running["train-chief-0"].wait_for("acknowledged")
        self.assert_all_finish(running.values())

    def test_a_job_set_replaces_what_it_loses_and_ends(self):
        all_pods = self.load("jobset", epochs=6000,
                             checkpoint={"every_seconds": 1})
        running = {name: self.start(pod) for name, pod in all_pods.items()}
        running["train-chief-0-0"].wait_for("checkpoint")
        self.replace_server(running, all_pods["train-ps-0-1"])
        self.replace_worker(running, all_pods["train-worker-0-0"])
        self.assert_all_finish(running.values())

    def test_a_stage_is_replaced_and_its_worker_computes_the_batch_anew(self):
        all_pods = self.load("overlays/stages", epochs=300, model={
            "layers": ["flatten", {"dense": 16}, "relu", {"dense": 10}],
            "loss": "softmax_cross_entropy"})
        running = {name: self.start(pod) for name, pod in all_pods.items()}
        chief = running["train-chief-0"]
        running["train-stage-0"].wait_for("computes for worker-0")
        running["train-stage-1"].wait_for("computes for worker-1")
        self.assertTrue(running["train-stage-1"].probe("readiness"))
        # Killed as with its node, and stopped as a node is drained.
        running["train-stage-0"].kill()
        running["train-stage-0"] = self.start(all_pods["train-stage-0"])
        chief.wait_for("all stages answer")
        running["train-stage-1"].terminate()
        self.assertEqual(running["train-stage-1"].wait(), STOPPED)
        running["train-stage-1"] = self.start(all_pods["train-stage-1"])
        running["train-worker-0"].wait_for("all stages answer")
        self.assert_all_finish(running.values())

    def test_a_tf_job_trains_to_its_end(self):
        all_pods = self.load("tfjob", epochs=5)
        self.assert_all_finish([self.start(pod) for pod in all_pods.values()])


class CertificatesTest(PodsTest):

    def setUp(self):
        super().setUp()
        self.tls = os.path.join(self.directory, "tls")
        self.run_paramd("tls", "init", "--job", "tiny", "--dir", self.tls,
                        "--servers", "2", "--workers", "2")
        self.secrets = {f"train-tls-{task}": os.path.join(self.tls, task)
                        for task in os.listdir(self.tls)}

    def run_paramd(self, *arguments):
        subprocess.run([paramd.BINARY, *arguments], check=True,
                       stdout=subprocess.DEVNULL)

    def certificate_of(self, pod):
        """What it shows to whom has a certificate too."""
        context = ssl.create_default_context(
            cafile=os.path.join(self.tls, "ca.crt"))
        context.check_hostname = False  # The name is the task's.
        context.load_cert_chain(os.path.join(self.tls, "operator-0", "tls.crt"),
                                os.path.join(self.tls, "operator-0", "tls.key"))
        context.set_alpn_protocols(["h2"])
        with socket.create_connection((pod.address, 7077)) as connection, \
                context.wrap_socket(connection) as secured:
            return secured.getpeercert(binary_form=True)

    def certificate_in(self, task):
        with open(os.path.join(self.tls, task, "tls.crt"),
                  encoding="ascii") as file:
            return ssl.PEM_cert_to_DER_cert(file.read())

    def test_pods_train_and_take_up_new_certificates(self):
        all_pods = self.load("overlays/tls", epochs=6000,
                             checkpoint={"every_seconds": 1})
        running = {name: self.start(pod) for name, pod in all_pods.items()}
        running["train-chief-0"].wait_for("checkpoint")
        server = running["train-ps-0"]
        self.assertTrue(server.probe("readiness"))
        self.assertFalse(probe.serves(f"{server.address}:7077", "readiness"))
        self.assertEqual(self.certificate_of(server),
                         self.certificate_in("ps-0"))

        old = self.certificate_in("ps-0")
        self.run_paramd("tls", "renew", "--dir", self.tls)
        self.assertNotEqual(self.certificate_in("ps-0"), old)
        for volume in self.secret_volumes:
            volume.update()
        end = time.monotonic() + 60
        while self.certificate_of(server) == old:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        self.assertEqual(self.certificate_of(server),
                         self.certificate_in("ps-0"))

        # Makes and takes connections with the new ones.
        self.replace_server(running, all_pods["train-ps-1"])
        self.assert_all_finish(running.values())


class MistakesTest(PodsTest):

    def assert_ends(self, pod, code, sentence):
        running = self.start(pod)
        self.assertEqual(running.wait(), code, running.output())
        self.assertRegex(running.termination_message(), sentence)

    def test_a_host_name_without_an_index(self):
        pod = self.load("base")["train-ps-0"]
        pod.host_name = "train-ps"
        self.assert_ends(pod, BAD_CONFIGURATION,
                         'host name "train-ps": ends in no index')

    def test_an_index_out_of_range(self):
        pod = self.load("base")["train-ps-0"]
        pod.host_name = "train-ps-2"
        self.assert_ends(pod, BAD_CONFIGURATION,
                         "ends in 2, but 'ps' has 2 tasks")

    def test_a_service_that_never_resolves(self):
        pod = self.load("base", start_timeout_ms=4000)["train-chief-0"]
        self.assert_ends(
            pod, RETRY,
            "waiting for ps-0 at train-ps-0.train:7077: no such host")

    def test_two_pods_with_one_index(self):
        all_pods = self.load("base", epochs=100000)
        running = {name: self.start(pod) for name, pod in all_pods.items()}
        running["train-worker-0"].wait_for("acknowledged")
        self.assert_ends(all_pods["train-worker-0"], BAD_CONFIGURATION,
                         "worker-1 is process 1 on train-worker-0, which is "
                         "alive")
        self.assert_ends(all_pods["train-chief-0"], BAD_CONFIGURATION,
                         "the chief of '/train/run' is process 1 on "
                         "train-chief-0, which is alive")

    def test_a_claim_that_is_read_only(self):
        pod = self.load("base")["train-chief-0"]
        for mount in pod.container["volumeMounts"]:
            mount["readOnly"] = True
        self.assert_ends(pod, BAD_CONFIGURATION,
                         "'/train/run': read-only file system")

    def test_a_memory_limit_below_what_the_shard_needs(self):
        all_pods = self.load("base", model={
            "layers": ["flatten", {"dense": 4000}, {"dense": 4000},
                       {"dense": 10}],
            "loss": "softmax_cross_entropy"})
        all_pods["train-ps-0"].container["resources"]["limits"]["memory"] = (
            "48Mi")
        running = {name: self.start(pod) for name, pod in all_pods.items()}
        if running["train-ps-0"].memory_limit is None:
            self.skipTest("no control group with a memory limit can be made")
        chief = running["train-chief-0"]
        self.assertEqual(chief.wait(), FAILED, chief.output())
        self.assertRegex(chief.termination_message(),
                         "the variables do not fit: weights .*; the limit is")


if __name__ == "__main__":
    unittest.main()
