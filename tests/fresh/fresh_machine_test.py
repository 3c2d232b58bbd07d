"""Both commands of the README begin on a machine that has nothing."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

# How this machine reaches the distribution's packages and PyPI.
_SETTINGS = ["etc/apt/sources.list.d", "etc/apt/apt.conf.d", "etc/resolv.conf",
             "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt"]


def source_root():
    """The tree itself: the test's files are links into it."""
    return os.path.dirname(os.path.realpath("WORKSPACE"))


def mirror():
    """Where this machine's packages come from; empty if nowhere."""
    for path in sorted(pathlib.Path("/etc/apt").glob("sources.list*")) + \
            sorted(pathlib.Path("/etc/apt/sources.list.d").glob("*")):
        if path.is_file():
            found = re.search(r"^(?:URIs:|deb)\s+(?:\[.*?\]\s+)?(\S+://\S+)",
                              path.read_text(), re.MULTILINE)
            if found:
                return found[1]
    return ""


@unittest.skipUnless(os.geteuid() == 0, "needs root")
@unittest.skipUnless(shutil.which("debootstrap"), "needs debootstrap")
@unittest.skipUnless(mirror(), "no source of packages is set up here")
class FreshMachineTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.root = pathlib.Path(cls.folder)
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=git,ca-certificates",
             "bookworm", cls.folder, mirror()], check=True,
            stdout=subprocess.DEVNULL)
        (cls.root / "etc/apt/sources.list").unlink(missing_ok=True)
        for name in _SETTINGS:
            source, copy = pathlib.Path("/", name), cls.root / name
            if source.is_dir():
                shutil.copytree(source, copy, dirs_exist_ok=True)
            elif source.exists():
                shutil.copyfile(source, copy)
        subprocess.run(["git", "clone", "--quiet", source_root(),
                        cls.root / "home/paramd"], check=True)

    def begin(self, command):
        """Runs the command inside until it has compiled something; what it says
        if it ends before."""
        made = self.root / "home/paramd/.bazel"
        shutil.rmtree(made, ignore_errors=True)
        log = self.root / "log"
        settings = [f"{name}={os.environ[name]}" for name in ("PIP_INDEX_URL",)
                    if name in os.environ]
        inside = (
            f"mount -t proc proc {self.root}/proc && "
            f"mount --rbind /dev {self.root}/dev && exec env -i HOME=/root "
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "
            "PIP_CERT=/etc/ssl/certs/ca-certificates.crt "
            f"{' '.join(settings)} chroot {self.root} "
            f"bash -c 'cd /home/paramd && exec {command}'")
        with open(log, "wb") as out, subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "--kill-child",
                 "bash", "-c", inside], stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True) as process:
            while process.poll() is None and not any(made.rglob("*.o")):
                time.sleep(1)
            ended = process.poll()
            if ended is None:
                os.killpg(process.pid, signal.SIGKILL)
        if ended is not None:
            said = log.read_text(errors="replace").splitlines()[-20:]
            self.fail(f"{command} ended with {ended}:\n" + "\n".join(said))

    def test_both_commands_come_to_compile(self):
        self.begin("./quickstart.sh --yes")
        self.begin("./test.sh")


if __name__ == "__main__":
    unittest.main()
