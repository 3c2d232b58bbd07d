#!/usr/bin/env python3
"""Prints what fewer bits cost: quantised after training, and trained for it.

usage: bench/smaller/bits_table.py [--paramd PATH] [--seeds N] [--epochs N]
                                   [--bits 8,4,3,2]

Trains config/examples/quantization_aware.json on Fashion-MNIST in float and
for each number of bits, and quantises what comes out: the float network with
ranges that are found on the training set, the others with those that training
has learned. Means, and over several seeds standard deviations, of the accuracy
on the test set, of integers; the last column is what training's own evaluation
says of the network that was trained for them.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*command):
    done = subprocess.run(command, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout}")
    return done.stdout


class Bench:
    """One seed's jobs, in a directory."""

    def __init__(self, paramd, directory, seed, epochs):
        self._paramd = paramd
        self._directory = directory
        self._seed = seed
        self._epochs = epochs
        self._made = 0

    def _path(self, name):
        self._made += 1
        return os.path.join(self._directory, f"{name}-{self._made}")

    def job(self, bits):
        """The job's path; no bits: in float."""
        with open(os.path.join(_ROOT, "config/examples/quantization_aware.json"),
                  encoding="utf-8") as file:
            job = json.load(file)
        job.update(seed=self._seed, epochs=self._epochs or job["epochs"])
        aware = job["model"].pop("quantization_aware")
        if bits:
            job["model"]["quantization_aware"] = {**aware, "weight_bits": bits}
        path = self._path("job") + ".json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def train(self, job):
        run_dir = self._path("run")
        run(self._paramd, "run", "--job", job, f"--run_dir={run_dir}")
        return run_dir

    def quantise(self, job, run_dir, *flags):
        output = self._path("made")
        run(self._paramd, "quantize", run_dir, "--job", job, "--output", output,
            *flags)
        return output

    def accuracy(self, job, checkpoint):
        out = run(self._paramd, "evaluate", "--job", job, "--checkpoint",
                  checkpoint, "--json")
        return 100 * json.loads(out)["metrics"]["accuracy"]


def told(values):
    text = f"{statistics.mean(values):.2f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.2f}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paramd", default=os.path.join(_ROOT, "paramd"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--bits", default="8,4,3,2")
    arguments = parser.parse_args()
    all_bits = [int(bits) for bits in arguments.bits.split(",")]
    in_float = []
    found = {bits: ([], [], []) for bits in all_bits}
    for seed in range(1, arguments.seeds + 1):
        with tempfile.TemporaryDirectory() as directory:
            bench = Bench(arguments.paramd, directory, seed, arguments.epochs)
            plain = bench.job(0)
            plain_run = bench.train(plain)
            in_float.append(bench.accuracy(plain, plain_run))
            for bits, (static, aware, evaluated) in found.items():
                made = bench.quantise(plain, plain_run, "--calibrate=train",
                                      f"--weight_bits={bits}")
                static.append(bench.accuracy(plain, made))
                job = bench.job(bits)
                run_dir = bench.train(job)
                evaluated.append(bench.accuracy(job, run_dir))
                aware.append(bench.accuracy(job, bench.quantise(job, run_dir)))
    print(f"float32: {told(in_float)}\n")
    print("| bits of a weight | after training | trained for it | its evaluation |")
    print("|---|---|---|---|")
    for bits, columns in found.items():
        print(f"| {bits} | {' | '.join(told(column) for column in columns)} |")


if __name__ == "__main__":
    main()
