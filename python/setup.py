"""Builds the library and the daemon with Bazel and packs them into the wheel.

With LIBPARAMD and PARAMD set, what they name is packed instead.
"""

import os
import pathlib
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Build(build_py):
    """The package's sources, and beside them what Bazel makes."""

    def run(self):
        super().run()
        library = os.environ.get("LIBPARAMD")
        program = os.environ.get("PARAMD")
        if not library or not program:
            subprocess.run(["bazel", "build", "//program:libparamd.so",
                            "//cli:paramd"], cwd=ROOT, check=True)
            library = ROOT / "bazel-bin/program/libparamd.so"
            program = ROOT / "bazel-bin/cli/paramd"
        folder = pathlib.Path(self.build_lib) / "paramd"
        for source, name in ((library, "libparamd.so"), (program, "paramd")):
            shutil.copyfile(source, folder / name)
        (folder / "paramd").chmod(0o755)


class Wheel(bdist_wheel):
    """For this machine, and every Python: the package compiles nothing for it."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel})
