"""Runs the real binary and reads what it left behind."""

import gzip
import json
import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

BINARY = os.path.abspath("cli/paramd")
DATA = "/usr/share/datasets/fashion-mnist"
JOB = os.path.abspath("config/examples/fashion_mnist.json")
SMALL_JOB = os.path.abspath("config/examples/fashion_mnist_small.json")


def need_data():
    """Skips the tests of a module where the data set is not installed."""
    if not os.path.isdir(DATA):
        raise unittest.SkipTest(
            "needs Debian's package dataset-fashion-mnist")


def idx(dimensions, data):
    """A file of MNIST's format: unsigned bytes."""
    return struct.pack(">BBBB", 0, 0, 8, len(dimensions)) + b"".join(
        struct.pack(">I", d) for d in dimensions) + data


def tiny_job(directory):
    """A job of eight steps, as JSON, on examples that it writes there."""
    count = 64
    files = {
        "images-idx3-ubyte.gz":
            idx((count, 4, 4), bytes(i * 7 % 256 for i in range(count * 16))),
        "labels-idx1-ubyte.gz":
            idx((count,), bytes(i % 10 for i in range(count))),
    }
    for data_set in ("train", "t10k"):
        for name, content in files.items():
            path = os.path.join(directory, f"{data_set}-{name}")
            with gzip.open(path, "wb") as file:
                file.write(content)
    return {
        "name": "tiny",
        "batch_per_replica": 8,
        "input": {"format": "idx", "directory": directory},
        "model": {"layers": ["flatten", {"dense": 10}],
                  "loss": "softmax_cross_entropy"},
        "optimizer": {"sgd": {}, "learning_rate": 0.1},
    }


# A process waits where so much of its log is unread: of the smallest job it writes
# 3 KB a second.
_UNREAD_BYTES = 1 << 20


class Run:
    """One `paramd run` or `paramd local` in a directory of its own."""

    def __init__(self, *arguments, directory=None, environment=None,
                 under=()):
        """`under`: the command that starts it, if it is not its own."""
        self.directory = directory or tempfile.mkdtemp(
            dir=os.environ["TEST_TMPDIR"])
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith("PARAMD_") and name != "TF_CONFIG"}
        self.process = subprocess.Popen(
            [*under, BINARY, *arguments], cwd=self.directory, text=True,
            env={**inherited, **(environment or {})},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            pipesize=_UNREAD_BYTES)
        self.output = ""

    def wait(self):
        """Until it has ended. Returns its exit code."""
        self.output += self.process.communicate()[0]
        return self.process.returncode

    def wait_for(self, *texts):
        """Until it has printed lines that contain each of `texts`."""
        missing = set(texts)
        for line in self.process.stdout:
            self.output += line
            missing = {text for text in missing if text not in line}
            if not missing:
                return
        raise AssertionError(f"ended without {missing}:\n{self.output}")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """Ends it without asking, as the test's clean-up."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()

    def kill_task(self, task):
        """Kills one process of the cluster: "ps-1", "worker-0"."""
        (pid,) = [pid for pid in processes_that_mention(self.run_directory())
                  if task in task_of(pid)]
        os.kill(pid, signal.SIGKILL)

    def run_directory(self):
        """The newest directory below runs/."""
        runs = os.path.join(self.directory, "runs")
        newest = max(os.listdir(runs), key=lambda n: int(n.rsplit("-", 1)[1]))
        return os.path.join(runs, newest)

    def result(self):
        with open(os.path.join(self.run_directory(), "result.json"),
                  encoding="utf-8") as file:
            return json.load(file)

    def tensors(self):
        """What it trained: those of its newest checkpoint."""
        root = self.run_directory()
        return tensors(os.path.join(root, "checkpoints",
                                    checkpoints(root)[-1]))

    def accuracy(self):
        evaluation = self.result()["evaluation"]
        return evaluation["metrics"]["accuracy"]

    def log(self, task):
        with open(os.path.join(self.run_directory(), "logs", f"{task}.log"),
                  encoding="utf-8") as file:
            return file.read()


class Cluster:
    """Tasks of a cluster that a test starts one by one, on a tiny job."""

    def __init__(self, servers, workers):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.run_directory = os.path.join(self.directory, "run")
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump(tiny_job(self.directory), file)
        addresses = draw_addresses(servers + workers)
        self.cluster = {"ps": addresses[:servers],
                        "worker": addresses[servers:]}
        self.tasks = [f"{kind}-{index}" for kind, tasks in self.cluster.items()
                      for index in range(len(tasks))]

    def address(self, task):
        kind, index = task.split("-")
        return self.cluster[kind][int(index)]

    def start(self, task, *flags, cluster=None, job=True, environment=None):
        """Starts "ps-0", "worker-2", …; worker-0 is the chief.

        `cluster`: what the task is told instead of what the others are told.
        `job`: whether it is given the job file, which a server can do without.
        `environment`: variables besides TF_CONFIG.
        """
        kind, index = task.split("-")
        tf_config = {"cluster": cluster or self.cluster,
                     "task": {"type": kind, "index": int(index)}}
        job_flags = ["--job", self.job] if job else []
        return Run("run", *job_flags, "--run_dir", self.run_directory,
                   *flags, directory=self.directory,
                   environment={"TF_CONFIG": json.dumps(tf_config),
                                **(environment or {})})


def draw_addresses(count):
    """Addresses of 127.0.0.0/8 that nobody uses now."""
    while True:
        host = ".".join(["127"] + [str(random.randint(1, 254))
                                   for _ in range(3)])
        ports = range(2222, 2222 + count)
        try:
            for port in ports:
                socket.create_server((host, port)).close()
        except OSError:
            continue
        return [f"{host}:{port}" for port in ports]


def checkpoints(run_directory):
    """Names of the committed checkpoints, oldest first."""
    root = os.path.join(run_directory, "checkpoints")
    if not os.path.isdir(root):
        return []
    return sorted(n for n in os.listdir(root) if not n.startswith("."))


def tensors(checkpoint):
    """The bytes of each variable and slot of a checkpoint, parts joined."""
    parts = {}
    for name in os.listdir(checkpoint):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(checkpoint, name), "rb") as file:
            content = file.read()
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8:8 + length])
        for tensor, entry in header.items():
            if tensor == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            variable, first_row = tensor, 0
            if "[" in tensor:
                variable, rows = tensor.replace("]", "").split("[")
                rows, slot = (rows.split("/") + [""])[:2]
                first_row = int(rows.split(":")[0])
                variable += "/" + slot if slot else ""
            parts.setdefault(variable, []).append(
                (first_row, content[8 + length + begin:8 + length + end]))
    return {variable: b"".join(data for _, data in sorted(pieces))
            for variable, pieces in parts.items()}


def processes_that_mention(text):
    """Ids of the processes in whose command line `text` stands."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if text.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            pass  # It ended meanwhile.
    return found


def task_of(pid):
    """"ps-1" for the process that TF_CONFIG says so."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:  # It ended meanwhile.
        return ""
    for entry in entries:
        if entry.startswith(b"TF_CONFIG="):
            task = json.loads(entry[len("TF_CONFIG="):])["task"]
            return f"{task['type']}-{task['index']}"
    return ""
