"""What a step of a PyTorch loop costs on paramd, beside the same loop alone.

    LIBPARAMD=... PARAMD=... PYTHONPATH=python python3 bench/python/torch_benchmark.py

Fashion-MNIST, 784-128-10, batch 64, SGD 0.1, one thread of PyTorch in each process.
Prints steps per second and CPU-seconds per 1,000 steps of: the loop alone; the same on
paramd in one process; 2 servers and 2 workers, all processes together.
"""

import argparse
import gzip
import os
import resource
import sys
import tempfile
import time

import torch
from torch.nn import functional as F

BATCH = 64


def load(directory):
    """The training set as tensors that are ready."""
    def read(kind, header):
        with gzip.open(f"{directory}/train-{kind}-ubyte.gz") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8,
                                    offset=header)
    images = read("images-idx3", 16).reshape(-1, 784).float() / 255
    return images, read("labels-idx1", 8).long()


class Examples(torch.utils.data.Dataset):
    """Examples as numbers: the batch is gathered at once, in both loops."""

    def __init__(self, tensors):
        self.tensors = tensors

    def __len__(self):
        return len(self.tensors[0])

    def __getitem__(self, index):
        return index

    def gather(self, indices):
        """A batch."""
        indices = torch.as_tensor(indices)
        return self.tensors[0][indices], self.tensors[1][indices]


def network():
    """The model, the same in every process."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(),
                               torch.nn.Linear(128, 10))


def alone(data, epochs):
    """The loop with PyTorch's own optimizer; its steps."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    for _ in range(epochs):
        for indices in torch.randperm(len(data)).split(BATCH):
            x, y = data.gather(indices)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            loss.item()
            steps += 1
    return steps


def on_paramd(data, epochs, run_dir):
    """The same as a worker; the steps it took, and how long from the first on."""
    import paramd.torch as ps
    model = network()
    worker = ps.Worker(model, optimizer={"sgd": {}, "learning_rate": 0.1},
                       run_dir=run_dir, log_level="error")
    steps, begun = 0, None
    for epoch in worker.epochs(epochs):
        for x, y in epoch.batches(data, BATCH, collate_fn=data.gather):
            begun = begun or time.monotonic()
            worker.step(F.cross_entropy(model(x), y))
            steps += 1
    return steps, time.monotonic() - (begun or time.monotonic())


def cpu(who):
    """CPU-seconds."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def report(name, steps, seconds, cpu_seconds):
    """One line."""
    print(f"{name:28} {steps / seconds:7.0f} steps/s "
          f"{1000 * cpu_seconds / steps:6.2f} CPU-s per 1,000 steps", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = Examples(load(options.directory))
    if options.worker:
        before = cpu(resource.RUSAGE_SELF)
        steps, seconds = on_paramd(data, options.epochs, options.worker)
        after = cpu(resource.RUSAGE_SELF)
        print("worker", steps, seconds, after - before, after)
        return
    before, begun = cpu(resource.RUSAGE_SELF), time.monotonic()
    steps = alone(data, options.epochs)
    report("alone", steps, time.monotonic() - begun,
           cpu(resource.RUSAGE_SELF) - before)
    with tempfile.TemporaryDirectory() as directory:
        before = cpu(resource.RUSAGE_SELF)
        steps, seconds = on_paramd(data, options.epochs, directory + "/one")
        report("paramd, one process", steps, seconds,
               cpu(resource.RUSAGE_SELF) - before)
        cluster_of_two(options, directory)


def cluster_of_two(options, directory):
    """2 servers, 2 workers. Importing PyTorch and reading the data is not counted."""
    import paramd
    before = cpu(resource.RUSAGE_CHILDREN)
    command = [sys.executable, os.path.abspath(__file__), "--worker",
               directory + "/two", "--epochs", str(options.epochs),
               "--directory", options.directory]
    with paramd.local(servers=2, workers=[command] * 2,
                      directory=directory + "/logs") as cluster:
        cluster.wait()
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
    report("paramd, 2 ps and 2 workers", steps, seconds, workers + servers)


if __name__ == "__main__":
    main()
