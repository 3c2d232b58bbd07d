"""The examples, as a user runs them."""

import difflib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

DATA = "/usr/share/datasets/fashion-mnist"
ENVIRONMENT = dict(os.environ, LIBPARAMD=os.path.abspath("program/libparamd.so"),
                   PARAMD=os.path.abspath("cli/paramd"), OMP_NUM_THREADS="1",
                   PYTHONPATH=os.path.abspath("python"))


def can_import(module):
    return importlib.util.find_spec(module) is not None


class ExamplesTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def run_example(self, *command, **variables):
        run = subprocess.run(command, env=dict(ENVIRONMENT, **variables),
                             cwd=self.directory, capture_output=True, text=True,
                             check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_ten_lines_make_a_pytorch_loop_a_worker(self):
        alone, ours = (pathlib.Path(f"examples/{name}.py").read_text().splitlines()
                       for name in ("pytorch_mnist_alone", "pytorch_mnist"))
        changed = [line for line in difflib.unified_diff(alone, ours, n=0)
                   if line[0] in "+-" and line[:3] not in ("+++", "---")]
        # A line in place of another one counts once; the first says what it is.
        taken = sum(line[0] == "-" for line in changed)
        added = sum(line[0] == "+" for line in changed)
        self.assertLessEqual(max(taken, added), 10, "\n".join(changed))

    @unittest.skipUnless(can_import("numpy"), "needs NumPy")
    def test_numpy_regression(self):
        said = self.run_example(sys.executable,
                                os.path.abspath("examples/numpy_regression.py"))
        self.assertLess(float(said.split()[-1]), 0.05)

    @unittest.skipUnless(can_import("torch"), "needs PyTorch")
    def test_pytorch_mnist(self):
        said = self.run_example(sys.executable,
                                os.path.abspath("examples/pytorch_mnist.py"))
        self.assertGreater(float(said.split()[-1]), 0.82)

    def run_keras_mnist(self, backend):
        said = self.run_example(
            sys.executable, os.path.abspath("examples/keras_mnist.py"),
            KERAS_BACKEND=backend, JAX_PLATFORMS="cpu")
        self.assertGreater(float(said.split()[-1]), 0.82)

    @unittest.skipUnless(can_import("keras") and can_import("torch"),
                         "needs Keras and PyTorch")
    def test_keras_mnist_with_pytorch(self):
        self.run_keras_mnist("torch")

    @unittest.skipUnless(can_import("keras") and can_import("jax"),
                         "needs Keras and JAX")
    def test_keras_mnist_with_jax(self):
        self.run_keras_mnist("jax")

    @unittest.skipUnless(can_import("keras") and can_import("tensorflow"),
                         "needs Keras and TensorFlow")
    def test_keras_mnist_with_tensorflow(self):
        self.run_keras_mnist("tensorflow")

    @unittest.skipUnless(can_import("torch"), "needs PyTorch")
    def test_pytorch_gpt(self):
        paths = sorted(str(path) for path in
                       pathlib.Path("/usr/share/common-licenses").glob("*")
                       if re.match(r"(L?GPL|BSD|Artistic)", path.name))[:3]
        said = self.run_example(sys.executable,
                                os.path.abspath("examples/pytorch_gpt.py"), *paths)
        bits = [float(line.split()[2]) for line in said.splitlines()
                if line.startswith("epoch ")]
        self.assertEqual(len(bits), 3)
        self.assertLess(bits[-1], bits[0])

    @unittest.skipUnless(shutil.which("g++") and os.path.isdir(DATA),
                         "needs g++ and the data")
    def test_a_model_in_cpp_outside_of_the_tree(self):
        for path in ("program/paramd.h", "program/libparamd.so",
                     *pathlib.Path("examples/custom_model").iterdir()):
            shutil.copy(path, self.directory)
        # Without CUDA; with it examples/custom_model_test.py builds.
        self.run_example("g++", "-std=c++14", "-O2", "-Wall", "-Wextra", "-Werror",
                         "-I.", "main.cc", "processor.cc", "-xc++", "gpu.cu",
                         "-xnone", "./libparamd.so", "-lz", "-Wl,-rpath,$ORIGIN",
                         "-o", "custom_model")
        said = self.run_example("./custom_model", DATA)
        self.assertGreater(float(said.split()[-1]), 0.8)


if __name__ == "__main__":
    unittest.main()
