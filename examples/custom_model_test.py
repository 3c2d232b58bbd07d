"""The custom model, built outside of the tree as its README says, and trained."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

DATA = "/usr/share/datasets/fashion-mnist"
PATH = os.environ.get("PATH", "") + ":/usr/local/cuda/bin"
NVCC = shutil.which("nvcc", path=PATH)
# What Bazel would fetch.
RULES = {"rules_cc": "../rules_cc/cc/defs.bzl",
         "rules_java": "../rules_java/java/defs.bzl"}


@unittest.skipUnless(os.path.isdir(DATA), "needs the data")
class CustomModelTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.home = self.directory / "home"
        shutil.copytree("examples/custom_model", self.home)
        for path in ("program/paramd.h", "program/libparamd.so"):
            shutil.copy(path, self.home)

    def run_here(self, *command):
        run = subprocess.run(command, cwd=self.home, capture_output=True, text=True,
                             env=dict(os.environ, PATH=PATH), check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def check_it_learns(self, program):
        on, accuracy = self.run_here(program, DATA).splitlines()
        self.assertRegex(on, "^computes on ")
        self.assertGreater(float(accuracy.split()[-1]), 0.8)

    def check_has_kernels(self, binary):
        """Where there is nvcc, and only there."""
        for kernel in (b"Scores", b"Losses", b"Gradients"):
            self.assertEqual(
                b"ForEachElementI%d%s" % (len(kernel), kernel)
                in (self.home / binary).read_bytes(), bool(NVCC), kernel)

    @unittest.skipUnless(shutil.which("cmake"), "needs CMake")
    def test_with_cmake(self):
        self.run_here("cmake", "-B", "build", f"-DPARAMD={self.home}")
        self.run_here("cmake", "--build", "build")
        self.check_has_kernels("build/custom_model")
        self.check_it_learns("build/custom_model")

    @unittest.skipUnless(shutil.which("bazel"), "needs Bazel")
    def test_with_bazel(self):
        (self.home / "BUILD.example").rename(self.home / "BUILD")
        (self.home / "WORKSPACE").touch()
        startup = [f"--output_user_root={self.directory}/bazel", "--max_idle_secs=5"]
        self.addCleanup(self.run_here, "bazel", *startup, "shutdown")
        self.run_here("bazel", *startup, "build", *self.local_rules(),
                      "//:custom_model")
        self.check_has_kernels("bazel-bin/libcustom_model_gpu.so")
        self.check_it_learns("bazel-bin/custom_model")

    def local_rules(self):
        flags = []
        for name, definitions in RULES.items():
            home = self.directory / name
            package = home / pathlib.Path(definitions).parent.name
            package.mkdir(parents=True)
            (home / "WORKSPACE").touch()
            (package / "BUILD").touch()
            shutil.copy(definitions, package)
            flags.append(f"--override_repository={name}={home}")
        return flags


if __name__ == "__main__":
    unittest.main()
