"""The wheel, installed where there is nothing of paramd."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

try:
    import numpy as np
except ImportError:
    np = None

WHEEL = os.path.abspath("python/paramd-0.1-py3-none-linux_x86_64.whl")
SCRIPT = os.path.abspath("python/tests/line_worker.py")

# Without LIBPARAMD and PARAMD: what the wheel brings is used.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name not in ("LIBPARAMD", "PARAMD", "PYTHONPATH", "TF_CONFIG")}

USE = """
import json, sys, time
began = time.process_time()
import paramd
took = time.process_time() - began
modules = [name for name in ("numpy", "torch", "keras") if name in sys.modules]
with paramd.local(1, [[sys.argv[1], sys.argv[2]]], directory=sys.argv[3]) as cluster:
    cluster.wait(100)
weight = float(paramd.load(sys.argv[2])["w"])  # By the library.
with open("/proc/self/maps") as maps:
    loaded = sorted({line.split()[-1] for line in maps if ".so" in line})
print(json.dumps({"loaded": loaded, "file": paramd.__file__, "seconds": took, "modules": modules,
                  "w": weight}))
"""


def has(*modules):
    # One by one: pip and setuptools replace parts of each other.
    return all(subprocess.run([sys.executable, "-c", f"import {module}"],
                              capture_output=True, check=False).returncode == 0
               for module in modules)


class WheelTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def run_python(self, *arguments, python=sys.executable, **extra):
        run = subprocess.run([python, *arguments], env={**ENVIRONMENT, **extra},
                             cwd=self.directory, capture_output=True, text=True,
                             check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def check_libraries(self, loaded, home):
        """Those that the wheel brings are the ones that are loaded."""
        with zipfile.ZipFile(WHEEL) as wheel:
            brought = {pathlib.Path(name).name for name in wheel.namelist()
                       if name.startswith("paramd/lib/lib")}
        ours = [path for path in loaded if pathlib.Path(path).name in brought]
        self.assertIn("libgrpc++.so.1.51", map(os.path.basename, ours))
        self.assertEqual([path for path in ours if not path.startswith(str(home))], [])

    @unittest.skipUnless(shutil.which("objdump"), "needs binutils")
    def test_it_asks_for_no_newer_system_than_the_manual_says(self):
        with zipfile.ZipFile(WHEEL) as wheel:
            wheel.extractall(self.directory)
        package = self.directory / "paramd"
        newest = {}
        for path in [package / "paramd", package / "libparamd.so",
                     *(package / "lib").glob("lib*.so*")]:
            said = subprocess.run(["objdump", "-T", path], capture_output=True,
                                  text=True, check=True).stdout
            for of, version in re.findall(
                    r"\*UND\*.*\((GLIBC|GLIBCXX)_([0-9.]+)\)", said):
                number = tuple(map(int, version.split(".")))
                newest[of] = max(newest.get(of, number), number)
        self.assertEqual(newest, {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 30)})

    @unittest.skipUnless(np and has("pip"), "needs NumPy and pip")
    def test_a_fresh_environment_trains_with_what_the_wheel_brings(self):
        home = self.directory / "venv"
        venv.create(home, with_pip=False)
        python = str(home / "bin" / "python")
        site = self.run_python(
            "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
            python=python).strip()
        # NumPy is there as if it had been installed.
        where = pathlib.Path(np.__file__).parent.parent
        pathlib.Path(site, "numpy.pth").write_text(f"{where}\n")
        self.run_python("-m", "pip", "--python", python, "install", "--no-index",
                        "--quiet", WHEEL)
        said = json.loads(self.run_python(
            "-c", USE, SCRIPT, str(self.directory / "run"),
            str(self.directory / "logs"), python=python).splitlines()[-1])
        self.assertTrue(said["file"].startswith(str(home)), said)
        self.assertAlmostEqual(said["w"], 3, delta=0.2)
        self.assertEqual(said["modules"], [], "loaded by the import alone")
        self.assertLess(said["seconds"], 2)  # Of 0.2 on an idle machine.
        self.check_libraries(said["loaded"], home)
        programs = subprocess.run(["ldd", pathlib.Path(said["file"]).with_name("paramd")],
                                  capture_output=True, text=True, check=True).stdout
        self.check_libraries(re.findall(r"=> (/\S+)", programs), home)
        program = str(home / "bin" / "paramd")
        for command in ([program], [python, "-m", "paramd"]):
            self.assertTrue(self.run_python(*command[1:], "version",
                                            python=command[0]).startswith("paramd "))

    @unittest.skipUnless(has("pip", "setuptools", "wheel"),
                         "needs pip, setuptools and wheel")
    def test_pip_makes_the_same_wheel(self):
        source = self.directory / "python"
        shutil.copytree("python", source, ignore=shutil.ignore_patterns("*.whl"))
        self.run_python("-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps",
                        "--no-build-isolation", "-w", str(self.directory),
                        str(source), LIBPARAMD=os.path.abspath("program/libparamd.so"),
                        PARAMD=os.path.abspath("cli/paramd"))
        made = self.directory / os.path.basename(WHEEL)
        self.assertTrue(made.exists(), list(self.directory.iterdir()))
        with zipfile.ZipFile(WHEEL) as ours, zipfile.ZipFile(made) as pips:
            names = [name for name in ours.namelist() if "dist-info" not in name]
            # Setuptools has another place for what is put beside its modules.
            theirs = {name.replace("paramd-0.1.data/purelib/", ""): name
                      for name in pips.namelist() if "dist-info" not in name}
            self.assertEqual(sorted(names), sorted(theirs))
            for name in names:
                self.assertEqual(ours.read(name), pips.read(theirs[name]), name)


if __name__ == "__main__":
    unittest.main()
