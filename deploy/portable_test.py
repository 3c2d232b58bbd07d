"""What portable/pack.sh packs runs where little but a shell is installed."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from tests.cluster import paramd

MOST_MEGABYTES = 200


class PortableTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        archive = os.path.join(cls.directory, "paramd.tar.gz")
        subprocess.run(["deploy/portable/pack.sh", "--binary", paramd.BINARY, archive],
                       check=True, stdout=subprocess.DEVNULL)
        cls.root = os.path.join(cls.directory, "root")
        with tarfile.open(archive) as files:
            cls.top = files.getnames()[0]
            files.extractall(cls.root)

    def test_it_has_libraries_and_their_licences_and_is_small(self):
        top = os.path.join(self.root, self.top)
        files = [os.path.join(folder, name)
                 for folder, _, names in os.walk(top) for name in names]
        for path in files:
            self.assertRegex(
                os.path.relpath(path, top),
                r"^(paramd|bin/paramd|lib/[^/]+\.so(\.[0-9.]+)?|doc/[^/]+/copyright)$")
        self.assertTrue(any(path.endswith("/copyright") for path in files))
        # What a GPU's libraries ask for, and paramd itself does not.
        for name in ("libdl.so.2", "libpthread.so.0", "librt.so.1"):
            self.assertIn(os.path.join(top, "lib", name), files)
        self.assertLess(sum(map(os.path.getsize, files)) / 1e6, MOST_MEGABYTES)

    def test_a_cluster_trains_where_no_library_is_installed(self):
        if os.getuid() != 0:
            self.skipTest("needs root, for chroot")
        self._install("/bin/sh")
        for program in ("readlink", "dirname"):
            self._install(shutil.which(program))
        train = os.path.join(self.root, "train")
        os.makedirs(train)
        os.makedirs(os.path.join(self.root, "tmp"))
        job = paramd.tiny_job(train)
        job["input"]["directory"] = "/train"
        with open(os.path.join(train, "job.json"), "w", encoding="utf-8") as file:
            json.dump(job, file)
        done = subprocess.run(
            ["chroot", self.root, f"/{self.top}/paramd", "local", "--job",
             "/train/job.json", "--servers=2", "--workers=2", "--run_dir=/train/run"],
            capture_output=True, text=True, timeout=60, check=False,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "0 lost, 0 doubled")
        self.assertTrue(os.listdir(os.path.join(train, "run", "checkpoints")))

    def _install(self, program):
        """The program, with the libraries that it loads, where it lies here."""
        loaded = subprocess.run(["ldd", program], capture_output=True, text=True,
                                check=True).stdout
        for path in [program, *re.findall(r"(/\S+) \(", loaded)]:
            to = self.root + path
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(os.path.realpath(path), to)


if __name__ == "__main__":
    unittest.main()
