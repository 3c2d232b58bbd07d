"""The image that image/build.sh builds, and a job that runs from it.

Needs root, debootstrap and buildah (IMAGE_PACKAGES of third_party/packages.sh, which
`test.sh --all` installs), a Debian mirror and namespaces; skips itself with the reason if
one is missing. PARAMD_IMAGE names an archive that is already built.
"""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

try:
    import grpc  # pylint: disable=unused-import
    import yaml  # pylint: disable=unused-import
except ImportError as missing:
    raise unittest.SkipTest("needs python3-grpcio and PyYAML") from missing

from deploy.testing import kustomize
from deploy.testing import machine
from deploy.testing import pods
from tests.cluster import paramd

MOST_MEGABYTES = 200
# What debootstrap and apt say where this machine is the reason.
NOT_HERE = {
    "Failed getting release file": "no mirror of Debian answers",
    "Couldn't download packages": "no mirror of Debian answers",
    "Failed to fetch": "no mirror of Debian answers",
    "Hash Sum mismatch": "the mirror of Debian is being changed",
    "404  Not Found": "the mirror of Debian is being changed",
    "Cannot install into target": "debootstrap may not make devices here",
    "Operation not permitted": "debootstrap may not do its work here",
    "apt has no sources of Debian 12": "this is not Debian 12",
}


def build(directory):
    """The archive. SkipTest if this machine can't build it."""
    if "PARAMD_IMAGE" in os.environ:
        return os.environ["PARAMD_IMAGE"]
    for program in ("debootstrap", "buildah"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            raise unittest.SkipTest(f"needs {program}")
    if os.getuid() != 0:
        raise unittest.SkipTest("needs root, as debootstrap does")
    archive = os.path.join(directory, "paramd.tar")
    done = subprocess.run(
        ["deploy/image/build.sh", "--binary", "cli/paramd", archive],
        capture_output=True, text=True, check=False)
    if done.returncode:
        for sentence, why in NOT_HERE.items():
            if sentence in done.stdout + done.stderr:
                raise unittest.SkipTest(why)
        raise AssertionError(done.stdout + done.stderr)
    print(done.stdout.splitlines()[-1])
    return archive


def unpack(archive, root):
    """Fills `root` with the image's files; its configuration."""
    with tarfile.open(archive) as image:
        def blob(digest):
            return image.extractfile("blobs/" + digest.replace(":", "/"))

        index = json.load(image.extractfile("index.json"))
        manifest = json.load(blob(index["manifests"][0]["digest"]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer["digest"])) as files:
                files.extractall(root)  # pylint: disable=consider-using-with
        return json.load(blob(manifest["config"]["digest"]))


class ImageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.root = os.path.join(cls.directory, "image")
        cls.config = unpack(build(cls.directory), cls.root)
        cls.files = [os.path.join(folder, name)
                     for folder, _, names in os.walk(cls.root)
                     for name in names]

    def test_it_runs_paramd_as_a_numeric_user(self):
        self.assertEqual(self.config["config"]["User"], "65532:65532")
        self.assertEqual(self.config["config"]["Entrypoint"],
                         ["/usr/bin/paramd"])

    def test_it_says_of_which_commit_it_is(self):
        version, commit = re.search(
            r"paramd (\S+) \(commit (\S+)\)", subprocess.run(
                ["cli/paramd", "version"], capture_output=True, text=True,
                check=True).stdout).groups()
        labels = self.config["config"]["Labels"]
        self.assertEqual(labels["org.opencontainers.image.version"], version)
        self.assertEqual(labels["org.opencontainers.image.revision"], commit)

    def test_the_number_of_processors_makes_no_threads(self):
        self.assertIn("OPENBLAS_NUM_THREADS=1", self.config["config"]["Env"])

    def test_it_is_small(self):
        size = sum(os.lstat(path).st_size for path in self.files) / 1e6
        print(f"the image has {size:.0f} MB in {len(self.files)} files")
        self.assertLess(size, MOST_MEGABYTES)

    def test_only_what_runs_is_in_it(self):
        for path in self.files:
            name = os.path.relpath(path, self.root)
            self.assertRegex(
                name, r"^(usr/bin/paramd|usr/lib(64)?/.*\.so(\.[0-9.]+)?|"
                r"usr/share/doc/[^/]+/copyright|"
                r"etc/(passwd|group|nsswitch\.conf))$")
            if not os.path.islink(path):
                self.assertEqual(os.lstat(path).st_mode & 0o6022, 0, name)

    def test_a_job_runs_out_of_it_to_its_end(self):
        try:
            machine.enter()
        except OSError as error:
            self.skipTest(str(error))
        dns = machine.Dns()
        objects = kustomize.render("deploy/kustomize/base")
        claim, job = (os.path.join(self.directory, name)
                      for name in ("claim", "job"))
        os.makedirs(os.path.join(claim, "data"))
        os.mkdir(job)
        tiny = paramd.tiny_job(os.path.join(claim, "data"))
        tiny.pop("input")
        with open(os.path.join(job, "job.json"), "w", encoding="utf-8") as file:
            json.dump({**json.loads(pods.config_map(objects, "train-job")
                                    ["job.json"]), **tiny, "epochs": 20}, file)
        running = []
        for number, pod in enumerate(pods.pods_of(objects)):
            root = os.path.join(self.directory, f"root{number}")
            shutil.copytree(self.root, root, symlinks=True)
            machine.mount_here(root)
            running.append(machine.RunningPod(
                pod, root, "/usr/bin/paramd", {"train": claim, "job": job}, dns,
                self.directory))
            self.addCleanup(running[-1].kill)
        for pod in running:
            self.assertEqual(pod.wait(), 0, pod.output())
        self.assertTrue(paramd.checkpoints(os.path.join(claim, "run")))


if __name__ == "__main__":
    unittest.main()
