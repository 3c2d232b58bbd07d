"""What the wheel brings beside the package: libraries that its programs load.

Not those that a machine has to have: glibc's, GCC's of C++, and what Python itself
loads, of which a process can have one alone.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

_OF_MACHINE = re.compile(
    r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|crypto|ssl|z))\.so\.")


def libraries(*programs):
    """{name under which they are loaded: file} of all that these load, on a
    machine that has them. They are looked for in the folder lib beside them."""
    found = {}
    for program in programs:
        said = subprocess.run(["ldd", program], check=True, capture_output=True,
                              text=True).stdout
        for name, path in re.findall(r"(\S+) => (.+?)(?: \(0x|$)", said, re.M):
            if not os.path.exists(path):
                raise SystemExit(f"{program} needs {name}, which is not installed")
            if not _OF_MACHINE.match(name):
                found[name] = pathlib.Path(path).resolve()
    return dict(sorted(found.items()))


def stripped(program):
    """Its bytes without what only a debugger needs, four fifths of them."""
    with tempfile.NamedTemporaryFile() as file:
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-debug", "-o", file.name, program],
                           check=True)
            program = file.name
        return pathlib.Path(program).read_bytes()


def licences(files):
    """{package: its copyright file} of these, where the distribution says so."""
    found = {}
    for path in files:
        # Packages call /usr/lib/... /lib/..., as it once was.
        for asked in (str(path), str(path).removeprefix("/usr")):
            try:
                said = subprocess.run(["dpkg-query", "-S", asked], check=True,
                                      capture_output=True, text=True).stdout
            except (OSError, subprocess.CalledProcessError):
                continue
            package = said.partition(":")[0]
            copyright_file = pathlib.Path("/usr/share/doc", package, "copyright")
            if copyright_file.exists():
                found[package] = copyright_file
            break
    return dict(sorted(found.items()))
