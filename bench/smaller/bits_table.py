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

import tempfile

import tables


def job_of(bits, seed, epochs):
    """No bits: in float."""
    job = tables.example("quantization_aware")
    job.update(seed=seed, epochs=epochs or job["epochs"])
    aware = job["model"].pop("quantization_aware")
    if bits:
        job["model"]["quantization_aware"] = {**aware, "weight_bits": bits}
    return job


def main():
    parser = tables.arguments(__doc__, seeds=3)
    parser.add_argument("--bits", default="8,4,3,2")
    arguments = parser.parse_args()
    all_bits = [int(bits) for bits in arguments.bits.split(",")]
    in_float = []
    found = {bits: ([], [], []) for bits in all_bits}
    for seed in range(1, arguments.seeds + 1):
        with tempfile.TemporaryDirectory() as directory:
            bench = tables.Bench(arguments.paramd, directory)
            plain = bench.write(job_of(0, seed, arguments.epochs))
            plain_run = bench.train(plain)
            in_float.append(bench.accuracy(plain, plain_run))
            for bits, (static, aware, evaluated) in found.items():
                made = bench.quantise(plain, plain_run, "--calibrate=train",
                                      f"--weight_bits={bits}")
                static.append(bench.accuracy(plain, made))
                job = bench.write(job_of(bits, seed, arguments.epochs))
                run_dir = bench.train(job)
                evaluated.append(bench.accuracy(job, run_dir))
                aware.append(bench.accuracy(job, bench.quantise(job, run_dir)))
    print(f"float32: {tables.told(in_float)}\n")
    tables.header("bits of a weight", "after training", "trained for it",
                  "its evaluation")
    for bits, columns in found.items():
        tables.row(str(bits), *(tables.told(column) for column in columns))


if __name__ == "__main__":
    main()
