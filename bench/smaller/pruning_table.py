#!/usr/bin/env python3
"""Prints how accuracy and compressed size fall with the share of zeros.

usage: bench/smaller/pruning_table.py [--paramd PATH] [--seeds N] [--epochs N]
           [--scope block|global] [--structure weights|two_of_four]

Trains config/examples/pruned.json on Fashion-MNIST, as it is and with each share,
quantises what comes out, and compresses both as `gzip -9` does. Means, and over
several seeds standard deviations, of the accuracy on the test set.
"""

import gzip
import os
import statistics
import tempfile

import tables

_SHARES = (0, 0.5, 0.75, 0.875, 0.95)


def compressed(directory):
    """Bytes of the weights in a directory, compressed."""
    total = 0
    for name in sorted(os.listdir(directory)):
        if name.endswith(".safetensors"):
            with open(os.path.join(directory, name), "rb") as file:
                total += len(gzip.compress(file.read(), 9))
    return total


def job_of(share, kind, seed, epochs):
    job = tables.example("pruned")
    job.update(seed=seed, epochs=epochs or job["epochs"])
    steps = 938 * job["epochs"]  # Of 60,000 images, 64 at a time.
    if kind["scope"] == "global":
        job["staleness"] = "sync"
    pruning = job["optimizer"].pop("pruning")[0]
    if share > 0:
        job["optimizer"]["pruning"] = [{**pruning, **kind, "sparsity": share,
                                        "begin_step": steps // 4,
                                        "end_step": steps * 3 // 4}]
    return job


def train(bench, job):
    """Bytes, and of float32 and quantised accuracy and compressed bytes."""
    run_dir = bench.train(job)
    quantised = bench.quantise(job, run_dir, "--calibrate=train")
    exported = bench.path("exported")
    tables.run(bench.paramd, "checkpoint", "export", run_dir, "--to", exported)
    plain = sum(os.path.getsize(os.path.join(exported, name))
                for name in os.listdir(exported))
    return plain, [(bench.accuracy(job, run_dir), compressed(exported)),
                   (bench.accuracy(job, quantised), compressed(quantised))]


def main():
    parser = tables.arguments(__doc__, seeds=1)
    parser.add_argument("--scope", choices=("block", "global"), default="block")
    parser.add_argument("--structure", choices=("weights", "two_of_four"),
                        default="weights")
    arguments = parser.parse_args()
    kind = {"scope": arguments.scope, "structure": arguments.structure}
    shares = (0, 0.5) if arguments.structure == "two_of_four" else _SHARES
    tables.header("zeros", "accuracy", "int8", "compressed", "int8 compressed")
    for share in shares:
        accuracies, quantised, sizes, small = [], [], [], []
        for seed in range(1, arguments.seeds + 1):
            with tempfile.TemporaryDirectory() as directory:
                bench = tables.Bench(arguments.paramd, directory)
                plain, ((a, size), (q, int8)) = train(
                    bench,
                    bench.write(job_of(share, kind, seed, arguments.epochs)))
            accuracies.append(a)
            quantised.append(q)
            sizes.append(plain / size)
            small.append(plain / int8)
        tables.row(f"{100 * share:g} %", tables.told(accuracies),
                   tables.told(quantised), f"{statistics.mean(sizes):.1f} ×",
                   f"{statistics.mean(small):.1f} ×")


if __name__ == "__main__":
    main()
