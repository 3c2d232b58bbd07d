"""Accuracy of a PyTorch loop on paramd beside that of the worker that is built in.

    LIBPARAMD=... PARAMD=... PYTHONPATH=python python3 bench/python/torch_accuracy.py

Fashion-MNIST, 784-128-10, batch 64, SGD 0.1, 2 servers and 2 workers that do not wait
for each other. For each seed both are trained from weights of the same distribution
(Glorot's), and PyTorch counts what their checkpoints get right of the test images.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch.nn import functional as F

import paramd
from torch_benchmark import (Examples, built_in_job, load, network)


def train(options):
    """One worker of the loop."""
    import paramd.torch as ps
    torch.set_num_threads(1)
    data, model = Examples(load(options.directory)), network()
    torch.manual_seed(options.seed)
    for layer in (model[0], model[2]):
        torch.nn.init.xavier_uniform_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    worker = ps.Worker(model, optimizer={"sgd": {}, "learning_rate": 0.1},
                       seed=options.seed, run_dir=options.worker, log_level="error")
    for epoch in worker.epochs(options.epochs):
        for x, y in epoch.batches(data.dataset, 64):
            worker.step(F.cross_entropy(model(x), y))


def of_loop(options, seed, directory):
    """Accuracy of what the loop trains."""
    command = [sys.executable, os.path.abspath(__file__), f"--seed={seed}",
               f"--worker={directory}/loop", f"--epochs={options.epochs}",
               f"--directory={options.directory}"]
    with paramd.local(2, [command] * 2, directory=directory + "/logs") as cluster:
        cluster.wait(progress=False)
    weights = paramd.load(directory + "/loop")
    return accuracy([weights["0.weight"].T, weights["0.bias"], weights["2.weight"].T,
                     weights["2.bias"]], options.directory)


def of_built_in(options, seed, directory):
    """The same of the built-in worker."""
    job = built_in_job(options.directory, directory)
    subprocess.run([os.environ["PARAMD"], "local", "--job", job, "--servers=2",
                    "--workers=2", f"--epochs={options.epochs}", f"--seed={seed}",
                    f"--run_dir={directory}/built-in"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    weights = paramd.load(directory + "/built-in")
    return accuracy([weights["dense_1/kernel"], weights["dense_1/bias"],
                     weights["dense_2/kernel"], weights["dense_2/bias"]],
                    options.directory)


def accuracy(weights, directory):
    """Of the test images."""
    kernel, bias, last_kernel, last_bias = (
        torch.from_numpy(np.ascontiguousarray(values)) for values in weights)
    x, y = load(directory, "t10k")
    scores = (x @ kernel + bias).relu() @ last_kernel + last_bias
    return float((scores.argmax(1) == y).float().mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        train(options)
        return
    found = {"the loop": [], "built in": []}
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory() as directory:
            found["the loop"].append(of_loop(options, seed, directory))
            found["built in"].append(of_built_in(options, seed, directory))
        print(seed, *(f"{name} {values[-1]:.4f}" for name, values in found.items()),
              flush=True)
    for name, values in found.items():
        print(f"{name}: mean {statistics.mean(values):.4f}, standard deviation "
              f"{statistics.stdev(values):.4f}")


if __name__ == "__main__":
    main()
