"""A cluster on one machine: every pod is a process in namespaces of its own.

A pod has its own network (an address on a bridge), host name, process ids, mounts
(the root file system is read-only) and user: the numeric one of its manifest, with
no capability. Where the machine has control groups of version 1 that may be made, it
has the memory limit of its container. The DNS server behaves like a cluster's: a name
resolves some time after its pod has started, and negative answers are cached. RunningPod
has what the kubelet does: probes, termination log, signals.

Call enter() first: everything stays within this process's namespaces and ends with
it.
"""

import ctypes
import os
import signal
import socket
import struct
import subprocess
import threading
import time

from deploy.testing import probe

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
_NETWORK = "10.77.0"
_GROUPS = "/sys/fs/cgroup/memory"
_UNITS = {"Mi": 2**20, "Gi": 2**30}
_SEARCH = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"]
# In the pod: waits until it has a network, then executes the command. Arguments:
# root, host name, user, command.
_BECOME = """
read -r _ || exit 1
root=$1 name=$2 user=$3
shift 3
mount -t proc proc "$root/proc" && hostname "$name" &&
  exec unshare --cgroup --user --map-user="$user" --map-group="$user" \
    --root="$root" --wd=/ -- "$@"
"""


def enter():
    """Moves this process into a network and mounts of its own.

    REQUIRES: it has one thread. OSError if the machine does not let it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    flags = _CLONE_NEWNS | _CLONE_NEWNET | (_CLONE_NEWUSER if user else 0)
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "namespaces can't be created here")
    if user:
        for path, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"),
                           ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{path}", "w", encoding="ascii") as file:
                file.write(text)
    try:
        _run("mount", "--make-rprivate", "/")
        _run("ip", "link", "set", "lo", "up")
        # Without an address of its own it takes another one with each pod, and the
        # pods' packets for the DNS server go to the one before.
        _run("ip", "link", "add", "pods", "address", "02:00:00:00:00:01", "type",
             "bridge")
        _run("ip", "address", "add", f"{_NETWORK}.1/24", "dev", "pods")
        _run("ip", "link", "set", "pods", "up")
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        raise OSError(f"no network can be created here: {error}") from error


def _run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)


def _write(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


class Dns:
    """Answers for A records at _NETWORK.1:53, from a thread of its own."""

    DELAY = 0.02  # Of each answer.
    PUBLISHED_AFTER = 0.5  # From a pod's start until its name resolves.
    # For how long a negative answer is cached. CoreDNS: 30 s.
    NEGATIVE_TTL = 3.0

    def __init__(self):
        self._lock = threading.Lock()
        self._names = {}  # Name to (address, known from then on).
        self._missing = {}  # Name to when it may be looked up again.
        # Name to when its address could be told first, once somebody has asked.
        self._known = {}
        self.negative_answers = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((f"{_NETWORK}.1", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def add(self, name, address):
        with self._lock:
            self._names[name] = (address,
                                 time.monotonic() + self.PUBLISHED_AFTER)
            self._known.pop(name, None)

    def remove(self, name):
        with self._lock:
            self._names.pop(name, None)

    def known_since(self, name):
        """Since when whoever asks is told the address that the name has now.

        KeyError if nobody has asked since then.
        """
        with self._lock:
            return self._known[name]

    def _find(self, name):
        now = time.monotonic()
        with self._lock:
            address, since = self._names.get(name, (None, 0))
            until = self._missing.get(name, 0)
            if address and max(since, until) <= now:
                self._known.setdefault(name, max(since, until))
                return address
            if until <= now:
                self._missing[name] = now + self.NEGATIVE_TTL
            self.negative_answers += 1
            return None

    def _serve(self):
        while True:
            query, caller = self._socket.recvfrom(4096)
            threading.Timer(self.DELAY, self._answer, (query, caller)).start()

    def _answer(self, query, caller):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        question = query[12:at + 5]
        (kind,) = struct.unpack_from(">H", query, at + 1)
        address = self._find(".".join(labels).lower())
        answers = b""
        if address and kind == 1:
            answers = struct.pack(">HHHIH", 0xC00C, 1, 1, 5, 4) + \
                socket.inet_aton(address)
        header = struct.pack(">2sHHHHH", query[:2],
                             0x8580 | (0 if address else 3), 1,
                             1 if answers else 0, 0, 0)
        self._socket.sendto(header + question + answers, caller)


def make_root(root, binary):
    """An empty root file system with the host's libraries and `/paramd`."""
    os.makedirs(root)
    _run("mount", "-t", "tmpfs", "tmpfs", root)
    for name in ("usr", "etc", "etc/alternatives", "proc", "dev"):
        os.mkdir(os.path.join(root, name))
    for name in ("usr", "etc/alternatives"):  # The latter leads to OpenBLAS.
        _run("mount", "--rbind", f"/{name}", os.path.join(root, name))
    for name in ("bin", "lib", "lib64"):
        os.symlink(f"usr/{name}", os.path.join(root, name))
    mount_file(binary, os.path.join(root, "paramd"))
    return "/paramd"


def mount_here(root):
    """Makes a folder a file system of its own, which can be made read-only."""
    _run("mount", "--bind", root, root)


def mount_file(source, target):
    """Puts `source` at `target`, which may be missing."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "ab"):
        pass
    _run("mount", "--bind", source, target)


class RunningPod:
    """A pod that was started; `kill` or `wait` ends its life."""

    _addresses = iter(range(2, 255))

    def __init__(self, pod, root, entry, volumes, dns, directory):
        """`root` has `entry` in it; `volumes` are folders to mount, by name."""
        self.pod = pod
        self.address = f"{_NETWORK}.{next(self._addresses)}"
        self._dns = dns
        self._root = root
        self._full_name = f"{pod.dns_name}.{_SEARCH[0]}"
        self.log = os.path.join(directory,
                                f"{pod.host_name}.{self.address}.log")
        self._prepare(root, volumes)
        arguments = [entry, *pod.container["args"]]
        user = str(pod.spec["securityContext"]["runAsUser"])
        self.memory_limit = None  # In bytes, if it has one.
        self._group = self._make_group(root)
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid",
                 "--fork", "--kill-child", "sh", "-c", _BECOME, "sh", root,
                 pod.host_name, user, *arguments],
                env={"PATH": os.environ["PATH"], **pod.environment},
                stdin=subprocess.PIPE, stdout=log, stderr=log)
        self.pid = self._wait_for_child()
        self._connect()
        if self._group:
            _write(os.path.join(self._group, "cgroup.procs"), self.pid)
        self._process.stdin.write(b"\n")
        self._process.stdin.close()
        dns.add(self._full_name, self.address)

    def _make_group(self, root):
        """A control group with the container's limit, which it sees; or None."""
        group = os.path.join(_GROUPS, f"paramd-{os.getpid()}-{self.address}")
        limit = self.pod.container["resources"]["limits"]["memory"]
        try:
            os.mkdir(group)
        except OSError:
            return None
        self.memory_limit = int(limit[:-2]) * _UNITS[limit[-2:]]
        _write(os.path.join(group, "memory.limit_in_bytes"), self.memory_limit)
        _run("mount", "--bind", group, root + _GROUPS)
        return group

    def _prepare(self, root, volumes):
        etc = os.path.join(root, "etc")
        files = {
            "resolv.conf": f"nameserver {_NETWORK}.1\nsearch "
                           f"{' '.join(_SEARCH)}\noptions ndots:5\n",
            "hosts": f"127.0.0.1 localhost\n{self.address} {self._full_name} "
                     f"{self.pod.host_name}\n",
            "nsswitch.conf": "hosts: files dns\n",
        }
        os.makedirs(etc, exist_ok=True)
        for name, text in files.items():
            with open(os.path.join(etc, name), "w", encoding="ascii") as file:
                file.write(text)
        for device in ("null", "zero", "urandom", "random"):
            mount_file(f"/dev/{device}", os.path.join(root, "dev", device))
        # As the kubelet makes it.
        self._message = self.log.replace(".log", ".termination")
        with open(self._message, "wb"):
            pass
        mount_file(self._message, os.path.join(root, "dev", "termination-log"))
        for mount in self.pod.container["volumeMounts"]:
            target = root + mount["mountPath"]
            os.makedirs(target, exist_ok=True)
            _run("mount", "--bind", volumes[mount["name"]], target)
            if mount.get("readOnly"):
                _run("mount", "-o", "remount,bind,ro", target)
        os.makedirs(root + _GROUPS, exist_ok=True)
        _run("mount", "-o", "remount,bind,ro", root)

    def _wait_for_child(self):
        path = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        while True:
            with open(path, encoding="ascii") as file:
                children = file.read().split()
            if children:
                return int(children[0])
            if self._process.poll() is not None:
                raise AssertionError(self.output())
            time.sleep(0.001)

    def _connect(self):
        outside = f"veth{self.address.rsplit('.', 1)[1]}"
        _run("ip", "link", "add", outside, "type", "veth", "peer", "name",
             "eth0", "netns", str(self.pid))
        _run("ip", "link", "set", outside, "master", "pods", "up")
        inside = ("nsenter", f"--net=/proc/{self.pid}/ns/net", "ip")
        _run(*inside, "address", "add", f"{self.address}/24", "dev", "eth0")
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "link", "set", "eth0", "up")

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, text, seconds=60):
        """Until `text` stands in its log."""
        self._until(lambda: text in self.output(), f"waits for {text}", seconds)

    def probe(self, service):
        """Whether the kubelet's gRPC probe of the service succeeds."""
        port = self.pod.container["readinessProbe"]["grpc"]["port"]
        return probe.serves(f"{self.address}:{port}", service)

    def wait_until_serving(self, service, seconds=60):
        self._until(lambda: self.probe(service), f"is not {service}", seconds)

    def known_since(self):
        """Since when DNS tells its address."""
        return self._dns.known_since(self._full_name)

    def user_and_capabilities(self):
        """Of the process, as it sees itself: (uid, effective capabilities)."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            values = dict(line.split(":", 1) for line in file)
        with open(f"/proc/{self.pid}/uid_map", encoding="ascii") as file:
            inside, outside, _ = map(int, file.read().split())
        assert int(values["Uid"].split()[0]) == outside
        return inside, int(values["CapEff"], 16)

    def terminate(self):
        """As `kubectl delete pod`: the name goes, the process gets SIGTERM."""
        self._dns.remove(self._full_name)
        os.kill(self.pid, signal.SIGTERM)

    def kill(self):
        """Without a word to anybody: the name and the address go."""
        self._dns.remove(self._full_name)
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait()
        if self._group:
            _run("umount", self._root + _GROUPS)
            os.rmdir(self._group)
            self._group = None

    def wait(self, seconds=120):
        """Until it has ended; its exit code."""
        code = self._process.wait(timeout=seconds)
        self._dns.remove(self._full_name)
        return code

    def termination_message(self):
        with open(self._message, encoding="utf-8") as file:
            return file.read()

    def _until(self, is_so, what, seconds):
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end or self._process.poll() is not None:
                raise AssertionError(
                    f"{self.pod.host_name} {what}\n{self.output()}")
            time.sleep(0.02)
