"""Builds the library and the daemon with Bazel and packs them into the wheel.

With LIBPARAMD and PARAMD set, what they name is packed instead.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import bundled  # pylint: disable=wrong-import-position


class Build(build_py):
    """The package's sources, and beside them what Bazel makes."""

    def run(self):
        super().run()
        library = os.environ.get("LIBPARAMD")
        program = os.environ.get("PARAMD")
        if not library or not program:
            subprocess.run(["bazel", "build", "//program:libparamd.so",
                            "//cli:paramd"], cwd=HERE.parent, check=True)
            library = HERE.parent / "bazel-bin/program/libparamd.so"
            program = HERE.parent / "bazel-bin/cli/paramd"
        folder = pathlib.Path(self.build_lib) / "paramd"
        for source, name in ((library, "libparamd.so"), (program, "paramd")):
            (folder / name).write_bytes(bundled.stripped(source))
        (folder / "paramd").chmod(0o755)
        libraries = bundled.libraries(library, program)
        shutil.rmtree(folder / "lib", ignore_errors=True)  # Of an earlier build.
        (folder / "lib" / "licences").mkdir(parents=True)
        for name, path in libraries.items():
            shutil.copyfile(path, folder / "lib" / name)
        for package, path in bundled.licences(libraries.values()).items():
            shutil.copyfile(path, folder / "lib" / "licences" / package)


class Wheel(bdist_wheel):
    """For this machine, and every Python: the package compiles nothing for it."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel})
