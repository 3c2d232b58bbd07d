"""A small cluster of real processes, for the tests of this folder."""

import ctypes
import json
import os
import random
import signal
import struct
import subprocess
import tempfile

BINARY = os.path.abspath("cli/paramd")


def write_idx(path, shape, values):
    with open(path, "wb") as file:
        file.write(struct.pack(">HBB", 0, 8, len(shape)))
        file.write(struct.pack(f">{len(shape)}I", *shape))
        file.write(bytes(values))


def write_job(directory, **settings):
    """A job on 64 images of 2 by 2 pixels. Returns the path of its file."""
    for name in ("train", "test"):
        write_idx(f"{directory}/{name}-images", (64, 2, 2),
                  [i * 37 % 256 for i in range(256)])
        write_idx(f"{directory}/{name}-labels", (64,),
                  [i % 2 for i in range(64)])
    path = f"{directory}/job.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump({
            "name": "small",
            "model": {"layers": ["flatten", {"dense": 2}],
                      "loss": "softmax_cross_entropy"},
            "input": {"format": "idx", "directory": directory,
                      "train_images": "train-images",
                      "train_labels": "train-labels",
                      "test_images": "test-images",
                      "test_labels": "test-labels"},
            "optimizer": {"sgd": {}, "learning_rate": 0.01},
            **settings}, file)
    return path


def environment(**variables):
    """That of this process without what paramd would read."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("PARAMD_") and name != "TF_CONFIG"}
    return {**kept, **variables}


def paramd(*arguments, **variables):
    """Runs a command to its end. Returns exit code, stdout and stderr."""
    done = subprocess.run([BINARY, *arguments], env=environment(**variables),
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def die_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Process:
    """One `paramd run`, whose log is read line by line."""

    def __init__(self, arguments, variables):
        self.process = subprocess.Popen(
            [BINARY, "run", *arguments], env=environment(**variables),
            text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=die_with_parent)
        self.log = ""

    def wait_for(self, text):
        """Until a line of the log contains `text`."""
        for line in self.process.stderr:
            self.log += line
            if text in line:
                return
        raise AssertionError(f"ended without {text!r}:\n{self.log}")

    def end(self, number=None):
        """Sends a signal, if told, and waits. Returns the exit code."""
        if number is not None:
            self.process.send_signal(number)
        self.log += self.process.stderr.read()
        return self.process.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.process.stderr.close()


class Cluster:
    """Processes of one job, at an address of their own in 127.0.0.0/8."""

    def __init__(self, servers=1, workers=1, **settings):
        self.directory = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.job = write_job(self.directory, **settings)
        host = ".".join(["127"] + [str(random.randrange(1, 255))
                                   for _ in range(3)])
        self.ps = [f"{host}:{2222 + i}" for i in range(servers)]
        self.workers = [f"{host}:{2322 + i}" for i in range(workers)]
        self.processes = []

    def start(self, task_type, index, *arguments, **variables):
        tf_config = json.dumps({
            "cluster": {"ps": self.ps, "worker": self.workers},
            "task": {"type": task_type, "index": index}})
        process = Process(
            [f"--job={self.job}", f"--run_dir={self.directory}/run",
             *arguments], {"TF_CONFIG": tf_config, **variables})
        self.processes.append(process)
        return process

    def kill(self):
        for process in self.processes:
            process.kill()
