#!/usr/bin/env python3
"""Prints how accuracy and compressed size fall with the share of zeros.

usage: bench/smaller/pruning_table.py [--paramd PATH] [--seeds N] [--epochs N]
           [--scope block|global] [--structure weights|two_of_four]

Trains config/examples/pruned.json on Fashion-MNIST, as it is and with each share,
quantises what comes out, and compresses both as `gzip -9` does. Means, and over
several seeds standard deviations, of the accuracy on the test set.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import tempfile

_SHARES = (0, 0.5, 0.75, 0.875, 0.95)
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def compressed(directory):
    """Bytes of the weights in a directory, compressed."""
    total = 0
    for name in sorted(os.listdir(directory)):
        if name.endswith(".safetensors"):
            with open(os.path.join(directory, name), "rb") as file:
                total += len(gzip.compress(file.read(), 9))
    return total


def run(*command):
    done = subprocess.run(command, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout}")
    return done.stdout


def train(paramd, share, kind, seed, epochs, directory):
    """Accuracies and compressed bytes, in float32 and quantised."""
    with open(os.path.join(_ROOT, "config/examples/pruned.json"),
              encoding="utf-8") as file:
        job = json.load(file)
    steps = 938 * (epochs or job["epochs"])  # Of 60,000 images, 64 at a time.
    job.update(seed=seed, epochs=epochs or job["epochs"])
    if kind["scope"] == "global":
        job["staleness"] = "sync"
    pruning = job["optimizer"].pop("pruning")[0]
    if share > 0:
        job["optimizer"]["pruning"] = [{**pruning, **kind, "sparsity": share,
                                        "begin_step": steps // 4,
                                        "end_step": steps * 3 // 4}]
    path = os.path.join(directory, "job.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(job, file)
    run_dir = os.path.join(directory, "run")
    run(paramd, "run", "--job", path, f"--run_dir={run_dir}")
    quantised = os.path.join(directory, "int8")
    run(paramd, "quantize", run_dir, "--job", path, "--calibrate", "train",
        "--output", quantised)
    found = []
    for checkpoint in (run_dir, quantised):
        out = run(paramd, "evaluate", "--job", path, "--checkpoint", checkpoint,
                  "--json")
        exported = os.path.join(directory, f"exported-{len(found)}")
        if checkpoint == run_dir:
            run(paramd, "checkpoint", "export", run_dir, "--to", exported)
            size = compressed(exported)
            plain = sum(os.path.getsize(os.path.join(exported, name))
                        for name in os.listdir(exported))
        else:
            size = compressed(quantised)
        found.append((json.loads(out)["metrics"]["accuracy"], size))
    return plain, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paramd", default=os.path.join(_ROOT, "paramd"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--scope", choices=("block", "global"), default="block")
    parser.add_argument("--structure", choices=("weights", "two_of_four"),
                        default="weights")
    arguments = parser.parse_args()
    kind = {"scope": arguments.scope, "structure": arguments.structure}
    shares = (0, 0.5) if arguments.structure == "two_of_four" else _SHARES
    print("| zeros | accuracy | int8 | compressed | int8 compressed |")
    print("|---|---|---|---|---|")
    for share in shares:
        accuracies, quantised, sizes, small = [], [], [], []
        for seed in range(1, arguments.seeds + 1):
            with tempfile.TemporaryDirectory() as directory:
                plain, ((a, size), (q, int8)) = train(
                    arguments.paramd, share, kind, seed, arguments.epochs,
                    directory)
            accuracies.append(100 * a)
            quantised.append(100 * q)
            sizes.append(plain / size)
            small.append(plain / int8)
        told = [f"{statistics.mean(values):.2f}" + (
            f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else "")
                for values in (accuracies, quantised)]
        print(f"| {100 * share:g} % | {told[0]} | {told[1]} | "
              f"{statistics.mean(sizes):.1f} × | {statistics.mean(small):.1f} × |",
              flush=True)


if __name__ == "__main__":
    main()
