"""Machines of a test's own: network namespaces, joined by a bridge.

All of it lies in namespaces of the test's process, which it makes for itself:
no other process of the real machine sees them, and they are gone with that
process and its children, however it ends.
"""

import ctypes
import os
import shutil
import subprocess
import unittest

# Of <sched.h>.
_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
# Nobody has it: what is sent there arrives nowhere.
_NOBODY = "02:00:00:00:00:ff"


def enter():
    """Puts this process in namespaces of its own, in which it may do anything.

    Skips the tests of the module where it may not, or can't.
    """
    for program in ("ip", "tc"):
        if shutil.which(program, path=_path()) is None:
            raise unittest.SkipTest(
                f"needs {program} of Debian's package iproute2")
    # An ordinary user may have the others in a namespace of users.
    user, group, flags = os.geteuid(), os.getegid(), 0
    if user != 0:
        flags = _NEW_USER
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags | _NEW_MOUNTS | _NEW_NETWORK) != 0:
        raise unittest.SkipTest(
            "no process may have network namespaces of its own here: "
            f"{os.strerror(ctypes.get_errno())}")
    if user != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"),
                           ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    try:
        _do("mount", "--make-rprivate", "/")
        _do("mount", "-t", "tmpfs", "tmpfs", "/run")  # Where ip keeps names.
        _do("ip", "link", "set", "lo", "up")
        network = Network()
        network.add("probe")
        network.deafen("probe")
        network.slow("probe", "1mbit")
        network.close()
    except subprocess.CalledProcessError as error:
        raise unittest.SkipTest(
            "network namespaces can't be made here: "
            f"{error.cmd[0]}: {error.stderr.strip()}") from error


class Network:
    """A bridge, and machines on it that each have one address.

    The test itself is at 10.N.0.1. Faults are silent: no reset, no end of a
    connection, no refusal, as where a machine, a cable or a switch fails.
    """

    _count = 0

    def __init__(self):
        Network._count += 1
        self._number = Network._count
        self._bridge = f"bridge{self._number}"
        self._machines = {}  # Their numbers, by name.
        _do("ip", "link", "add", self._bridge, "type", "bridge")
        _do("ip", "address", "add", f"10.{self._number}.0.1/24", "dev",
            self._bridge)
        _do("ip", "link", "set", self._bridge, "up")

    def close(self):
        """REQUIRES: no process of the test runs in a machine any more."""
        for name in list(self._machines):
            self.remove(name)
        _do("ip", "link", "delete", self._bridge)

    def add(self, name):
        """A machine. Its address."""
        self._machines[name] = max(self._machines.values(), default=1) + 1
        space, port = self._space(name), self._port(name)
        _do("ip", "netns", "add", space)
        _do("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0",
            "netns", space)
        _do("ip", "link", "set", port, "master", self._bridge, "up")
        _do("ip", "-n", space, "address", "add", f"{self.address(name)}/24",
            "dev", "eth0")
        for device in ("eth0", "lo"):
            _do("ip", "-n", space, "link", "set", device, "up")
        return self.address(name)

    def remove(self, name):
        _do("ip", "link", "delete", self._port(name))
        _do("ip", "netns", "delete", self._space(name))
        del self._machines[name]

    def address(self, name):
        return f"10.{self._number}.0.{self._machines[name]}"

    def under(self, name, hosts=None):
        """What starts a program in the machine; it dies with the test.

        `hosts`: a file that is /etc/hosts there.
        """
        command = ["ip", "netns", "exec", self._space(name),
                   "setpriv", "--pdeathsig", "KILL"]
        if hosts is not None:
            command += ["sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"',
                        hosts]
        return command

    # ---- faults

    def unplug(self, name):
        """The machine is gone: its cable is out."""
        _do("ip", "link", "set", self._port(name), "down")

    def plug(self, name):
        _do("ip", "link", "set", self._port(name), "up")

    def deafen(self, name):
        """Nothing reaches the machine; what it sends arrives."""
        _do("tc", "qdisc", "replace", "dev", self._port(name), "root",
            "blackhole")

    def mute(self, name):
        """Nothing that the machine sends arrives; what others send does."""
        _do("ip", "netns", "exec", self._space(name), "tc", "qdisc", "replace",
            "dev", "eth0", "root", "blackhole")

    def slow(self, name, rate):
        """What reaches the machine does so at that rate: "1mbit"."""
        _do("tc", "qdisc", "replace", "dev", self._port(name), "root", "tbf",
            "rate", rate, "burst", "4k", "latency", "400ms")

    def part(self, name, other):
        """What `name` sends to `other` does not arrive."""
        _do("ip", "-n", self._space(name), "neighbour", "replace",
            self.address(other), "lladdr", _NOBODY, "dev", "eth0",
            "nud", "permanent")

    def heal(self, name):
        """All is well again with the machine, however it was cut off."""
        space = self._space(name)
        self.plug(name)
        _do("ip", "-n", space, "neighbour", "flush", "dev", "eth0", "nud",
            "permanent")
        # Where all is well there is none to delete.
        for command in (["tc"], ["ip", "netns", "exec", space, "tc"]):
            device = self._port(name) if command == ["tc"] else "eth0"
            subprocess.run([*command, "qdisc", "delete", "dev", device, "root"],
                           env=_environment(), capture_output=True, check=False)

    def _space(self, name):
        return f"{self._number}-{name}"

    def _port(self, name):
        return f"port{self._number}-{self._machines[name]}"


def _path():
    """Where an ordinary user's PATH does not lead."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def _environment():
    return {**os.environ, "PATH": _path(), "LC_ALL": "C"}


def _do(*command):
    subprocess.run(command, env=_environment(), capture_output=True, text=True,
                   check=True)
