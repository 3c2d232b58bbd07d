"""Packs the wheel from what is built: make_wheel.py OUT LIBPARAMD PARAMD

Needs nothing but Python 3.11, for Bazel; `pip install ./python` does the same
through setup.py. The wheel is for every CPython from 3.9 on: the package compiles
nothing for it, it calls libparamd.so through ctypes.
"""

import base64
import hashlib
import pathlib
import re
import sys
import tomllib
import zipfile

import bundled

HERE = pathlib.Path(__file__).parent
# What is written in it does not depend on when.
_TIME = (1980, 1, 1, 0, 0, 0)


def metadata(project, version):
    """METADATA of a wheel."""
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}",
             f"Version: {version}", f"Summary: {project['description']}",
             f"License: {project['license']['text']}",
             f"Requires-Python: {project['requires-python']}",
             "Description-Content-Type: text/markdown"]
    lines += [f"Requires-Dist: {needed}" for needed in project["dependencies"]]
    for extra, needed in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {one} ; extra == '{extra}'" for one in needed]
    readme = (HERE / project["readme"]).read_text(encoding="utf-8")
    return "\n".join(lines) + "\n\n" + readme


class Wheel:
    """A wheel that is being written."""

    def __init__(self, path):
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._record = []

    def add(self, name, content, mode=0o644):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
        self._record.append(
            f"{name},sha256={digest.decode().rstrip('=')},{len(content)}")
        self._write(name, content, mode)

    def _write(self, name, content, mode):
        info = zipfile.ZipInfo(name, _TIME)
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(info, content)

    def close(self, info_folder):
        record = f"{info_folder}/RECORD"
        lines = self._record + [f"{record},,"]
        self._write(record, ("\n".join(lines) + "\n").encode(), 0o644)
        self._zip.close()


def main(out, library, program):
    with open(HERE / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    package = HERE / "paramd"
    version = re.search('"(.*)"', (package / "_version.py").read_text())[1]
    platform = pathlib.Path(out).stem.rsplit("-", 1)[1]
    wheel = Wheel(out)
    for path in sorted(package.glob("*.py")) + [package / "py.typed"]:
        wheel.add(f"paramd/{path.name}", path.read_bytes())
    wheel.add("paramd/libparamd.so", bundled.stripped(library), 0o755)
    wheel.add("paramd/paramd", bundled.stripped(program), 0o755)
    libraries = bundled.libraries(library, program)
    for name, path in libraries.items():
        wheel.add(f"paramd/lib/{name}", path.read_bytes(), 0o755)
    for package, path in bundled.licences(libraries.values()).items():
        wheel.add(f"paramd/lib/licences/{package}", path.read_bytes())
    info = f"paramd-{version}.dist-info"
    wheel.add(f"{info}/METADATA", metadata(project, version).encode())
    wheel.add(f"{info}/WHEEL", ("Wheel-Version: 1.0\nGenerator: paramd\n"
                                "Root-Is-Purelib: false\n"
                                f"Tag: py3-none-{platform}\n").encode())
    scripts = [f"{name} = {function}\n"
               for name, function in project["scripts"].items()]
    wheel.add(f"{info}/entry_points.txt",
              ("[console_scripts]\n" + "".join(scripts)).encode())
    wheel.add(f"{info}/top_level.txt", b"paramd\n")
    wheel.close(info)


if __name__ == "__main__":
    main(*sys.argv[1:])
