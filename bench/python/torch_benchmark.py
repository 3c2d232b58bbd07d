"""What a step of a PyTorch loop costs on paramd, beside the same loop alone, PyTorch's
own parameter server (torch_rpc_peer.py) and the worker that paramd has built in.

    LIBPARAMD=... PARAMD=... PYTHONPATH=python python3 bench/python/torch_benchmark.py

Fashion-MNIST, 784-128-10, batch 64, SGD 0.1, one thread of PyTorch in each process. In
each round: the computing alone, without an optimizer; the loop alone, with PyTorch's, and
on paramd in one process, 100 steps of each in turn, so that both find the machine in the
same state; 2 servers and 2 workers on paramd, over PyTorch RPC, and of the built-in
worker, all processes together. Of the built-in worker what it takes to start and evaluate
is subtracted: a run of one epoch.
"""

import argparse
import gzip
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch.nn import functional as F

BATCH = 64


def load(directory, split="train"):
    """The images and labels as tensors that are ready."""
    def read(kind, header):
        with gzip.open(f"{directory}/{split}-{kind}-ubyte.gz") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8,
                                    offset=header)
    images = read("images-idx3", 16).reshape(-1, 784).float() / 255
    return images, read("labels-idx1", 8).long()


class Examples:
    """Examples of which a batch is gathered at once, in all loops."""

    def __init__(self, tensors):
        self.tensors = tensors
        self.dataset = torch.utils.data.TensorDataset(*tensors)

    def __len__(self):
        return len(self.tensors[0])

    def gather(self, indices):
        """A batch."""
        return self.tensors[0][indices], self.tensors[1][indices]


def network():
    """The model, the same in every process."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(),
                               torch.nn.Linear(128, 10))


class Alone:
    """The loop with PyTorch's own optimizer, or with none, so many steps at a time."""

    def __init__(self, data, optimizes=True):
        self._data = data
        self._model = network()
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.1)
        self._optimizes = optimizes
        self._order = iter(())

    def step(self, count):
        """Goes on with them; epochs follow one another."""
        for _ in range(count):
            indices = next(self._order, None)
            if indices is None:
                self._order = iter(torch.randperm(len(self._data)).split(BATCH))
                indices = next(self._order)
            x, y = self._data.gather(indices)
            self._optimizer.zero_grad()
            loss = F.cross_entropy(self._model(x), y)
            loss.backward()
            if self._optimizes:
                self._optimizer.step()
            loss.item()


def on_paramd(data, epochs, run_dir, every_step=lambda: None):
    """The same as a worker: its steps, and seconds and CPU-seconds from the first on."""
    import paramd.torch as ps
    model = network()
    worker = ps.Worker(model, optimizer={"sgd": {}, "learning_rate": 0.1},
                       run_dir=run_dir, log_level="error")
    steps, begun, before = 0, 0.0, 0.0
    for epoch in worker.epochs(epochs):
        for x, y in epoch.batches(data.dataset, BATCH):
            if not steps:
                begun, before = time.monotonic(), cpu(resource.RUSAGE_SELF)
            worker.step(F.cross_entropy(model(x), y))
            steps += 1
            every_step()
    return steps, time.monotonic() - begun, cpu(resource.RUSAGE_SELF) - before


class Turns:
    """100 steps of the loop alone behind each 100 on paramd, with what both take."""

    STEPS = 100

    def __init__(self, data):
        self._alone = Alone(data)
        self._left = self.STEPS
        self._from = None
        self.steps = 0
        self.on_paramd, self.alone = [0.0] * 3, [0.0] * 3

    @staticmethod
    def _now():
        """Seconds; CPU-seconds of the process; of this thread."""
        return time.monotonic(), cpu(resource.RUSAGE_SELF), time.thread_time()

    def step(self):
        """Behind each on paramd. The first hundred do not count."""
        self._left -= 1
        if self._left > 0:
            return
        begun = self._now()
        self._alone.step(self.STEPS)
        ended = self._now()
        if self._from:
            self.steps += self.STEPS
            for place in range(3):
                self.on_paramd[place] += begun[place] - self._from[place]
                self.alone[place] += ended[place] - begun[place]
        self._left, self._from = self.STEPS, ended


def cpu(who):
    """CPU-seconds."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def measure_computing(data, epochs):
    """(steps a second, CPU-seconds for 1,000 steps), as of all that measure."""
    loop, steps = Alone(data, optimizes=False), epochs * len(data) // BATCH
    loop.step(Turns.STEPS)
    before, begun = cpu(resource.RUSAGE_SELF), time.monotonic()
    loop.step(steps)
    return figures(steps, time.monotonic() - begun, cpu(resource.RUSAGE_SELF) - before)


def measure_in_turns(data, epochs, run_dir):
    """Of the loop alone and of paramd in one process, and the CPU-seconds of the loop's
    own thread over those of the loop alone."""
    turns = Turns(data)
    on_paramd(data, epochs, run_dir, turns.step)
    return (figures(turns.steps, *turns.alone[:2]),
            figures(turns.steps, *turns.on_paramd[:2]),
            turns.on_paramd[2] / turns.alone[2])


def figures(steps, seconds, cpu_seconds):
    """What is reported."""
    return steps / seconds, 1000 * cpu_seconds / steps


def measure_cluster(options, directory):
    """2 servers, 2 workers. Importing PyTorch and reading the data is not counted."""
    import paramd
    before = cpu(resource.RUSAGE_CHILDREN)
    command = [sys.executable, os.path.abspath(__file__), "--worker",
               directory + "/two", "--epochs", str(options.epochs),
               "--directory", options.directory]
    with paramd.local(servers=2, workers=[command] * 2,
                      directory=directory + "/logs") as cluster:
        cluster.wait(progress=False)
    # What is not the workers' is the servers'.
    servers = cpu(resource.RUSAGE_CHILDREN) - before
    steps, seconds, workers = 0, 0.0, 0.0
    for index in range(2):
        with open(f"{directory}/logs/worker-{index}.log", encoding="utf-8") as log:
            words = [line.split() for line in log if line.startswith("worker ")][-1]
        steps += int(words[1])
        seconds = max(seconds, float(words[2]))
        workers += float(words[3])
        servers -= float(words[4])
    return figures(steps, seconds, workers + servers)


def measure_rpc(options):
    """The same over PyTorch RPC."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "torch_rpc_peer.py")
    port = str(random.randint(20000, 29999))
    running = [
        subprocess.Popen([sys.executable, script, role, str(index), port,
                          str(options.epochs), options.directory],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for role in ("ps", "worker") for index in range(2)]
    steps, seconds, used = 0, 0.0, 0.0
    for process in running:
        said = process.communicate()[0].split()
        if process.returncode != 0:
            raise SystemExit("a process of PyTorch RPC failed")
        steps += int(said[1])
        seconds = max(seconds, float(said[2]))
        used += float(said[3])
    return figures(steps, seconds, used)


def built_in_job(data, directory):
    """Writes the job file of the same model there; its path."""
    job = directory + "/job.json"
    with open(job, "w", encoding="utf-8") as file:
        json.dump({"name": "built-in", "batch_per_replica": BATCH,
                   "log_level": "error",
                   "input": {"format": "idx", "directory": data},
                   "model": {"layers": ["flatten", {"dense": 128}, "relu",
                                        {"dense": 10}],
                             "loss": "softmax_cross_entropy"},
                   "optimizer": {"sgd": {}, "learning_rate": 0.1}}, file)
    return job


def measure_built_in(options, directory):
    """The worker that computes with oneDNN, on the same."""
    job = built_in_job(options.directory, directory)
    took = []
    for epochs in (1, 1 + options.epochs):
        before, begun = cpu(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run([os.environ["PARAMD"], "local", "--job", job, "--servers=2",
                        "--workers=2", f"--epochs={epochs}",
                        f"--run_dir={directory}/built-in-{epochs}"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took.append((time.monotonic() - begun, cpu(resource.RUSAGE_CHILDREN) - before))
    steps = options.epochs * -(-60000 // BATCH)
    return figures(steps, *(after - before for before, after in zip(*took)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = Examples(load(options.directory))
    if options.worker:
        steps, seconds, used = on_paramd(data, options.epochs, options.worker)
        print("worker", steps, seconds, used, cpu(resource.RUSAGE_SELF))
        return
    found = {}

    def keep(name, figure):
        found.setdefault(name, []).append(figure)
        print(f"{name:24} {figure[0]:7.0f} steps/s {figure[1]:6.2f} CPU-s per 1,000 "
              "steps", flush=True)

    threads = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as directory:
            keep("computing alone", measure_computing(data, options.epochs))
            alone, one, thread = measure_in_turns(data, options.epochs,
                                                  directory + "/one")
            keep("alone", alone)
            keep("paramd, one process", one)
            threads.append(thread)
            keep("paramd, 2 ps, 2 workers", measure_cluster(options, directory))
            keep("PyTorch RPC", measure_rpc(options))
            keep("built-in worker", measure_built_in(options, directory))
    report(found, threads)


def spread(values):
    """A median, and the least and the most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def report(found, threads):
    """What they are over one another, round by round."""
    ours, peer = "paramd, 2 ps, 2 workers", "PyTorch RPC"
    for title, one, other in (("one process over alone", "paramd, one process", "alone"),
                              ("2 ps, 2 workers over PyTorch RPC", ours, peer),
                              ("2 ps, 2 workers over the built-in worker", ours,
                               "built-in worker"),
                              ("the built-in worker over PyTorch RPC",
                               "built-in worker", peer)):
        pairs = list(zip(found[one], found[other]))
        print(f"{title:42} steps/s {spread([a[0] / b[0] for a, b in pairs])}, "
              f"CPU {spread([a[1] / b[1] for a, b in pairs])}")
    print(f"{'the thread of the loop in it, over alone':42} CPU "
          f"{spread(threads)}")
    beyond = [(a[1] - c[1]) / (b[1] - c[1]) for a, b, c in
              zip(found[ours], found[peer], found["computing alone"])]
    print(f"{'beyond computing, over PyTorch RPC':42} CPU {spread(beyond)}")


if __name__ == "__main__":
    main()
