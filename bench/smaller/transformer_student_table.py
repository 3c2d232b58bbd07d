#!/usr/bin/env python3
"""Prints what a transformer of half of its teacher's layers keeps of its score.

usage: bench/smaller/transformer_student_table.py [--paramd PATH] [--seeds N]
                                                  [--epochs N] [--quick]

The model of config/examples/gpt.json with four blocks learns the licences that Debian
installs, byte by byte. Students of two blocks learn from it (temperature 2, alpha 0.7):
one begins with every second of its blocks and what is around them, as DistilBERT
does, one with random weights. Means and standard deviations of the accuracy of the
next byte of a text that none has seen, parameters, and how many examples a second one
thread predicts, as times what the teacher does.
"""

import copy
import statistics
import tempfile

import tables

_BLOCKS = 4
_ROWS = {"teacher": "teacher", "layers": "student of its layers",
         "random": "student, random start"}


def variables(block):
    """Of a block, counted from 1: names of its layers."""
    return [f"layer_norm_{2 * block - 1}/*", f"attention_{block}/*",
            f"layer_norm_{2 * block}/*", f"dense_{2 * block - 1}/*",
            f"dense_{2 * block}/*"]


def around(blocks):
    """Of what stands before and behind the blocks."""
    return ["embedding_1/*", "positional_embedding_1/*",
            f"layer_norm_{2 * blocks + 1}/*", f"dense_{2 * blocks + 1}/*"]


def model_of(blocks):
    model = tables.example("gpt")["model"]
    layers = model["layers"]
    first, block, last = layers[:3], layers[3:5], layers[-2:]
    model["layers"] = [*first, *copy.deepcopy(block * blocks), *last]
    return model


def job_of(seed, epochs, quick):
    job = tables.example("gpt")
    job.update(name="transformer_student", seed=seed,
               epochs=epochs or job["epochs"], model=model_of(_BLOCKS // 2))
    if quick:
        job["epochs"] = 1
        job["input"]["stages"] = [{"take": 64}, "shuffle"]
        job["optimizer"].pop("warmup_steps")
    student = {"distill": {"teachers": "stage:teacher", "temperature": 2,
                           "alpha": 0.7}}
    pairs = list(zip(around(_BLOCKS // 2), around(_BLOCKS)))
    for block in range(1, _BLOCKS // 2 + 1):
        pairs += zip(variables(block), variables(2 * block - 1))
    job["stages"] = [
        {"name": "teacher", "model": model_of(_BLOCKS)},
        {"name": "layers", **student, "model": model_of(_BLOCKS // 2),
         "from": {"stage": "teacher",
                  "variables": ",".join(one for one, _ in pairs),
                  "from": ",".join(other for _, other in pairs)}},
        {"name": "random", **student},
    ]
    return job


def main():
    arguments = tables.arguments(__doc__, seeds=3, quick=True).parse_args()
    found = {name: ([], [], []) for name in _ROWS}
    for seed in range(1, (1 if arguments.quick else arguments.seeds) + 1):
        with tempfile.TemporaryDirectory() as directory:
            bench = tables.Bench(arguments.paramd, directory)
            stages, _ = bench.stages(bench.write(
                job_of(seed, arguments.epochs, arguments.quick)))
        teacher = stages["teacher"]
        for name, (accuracies, shares, speeds) in found.items():
            accuracy = stages[name]["metrics"]["accuracy"]
            accuracies.append(100 * accuracy)
            shares.append(100 * accuracy / teacher["metrics"]["accuracy"])
            speeds.append(stages[name]["examples_per_second"] /
                          teacher["examples_per_second"])
        tables.progress(seed, {name: numbers[0] for name, numbers in found.items()})
    tables.header("model", "accuracy", "of the teacher's", "parameters",
                  "times as fast")
    for name, (accuracies, shares, speeds) in found.items():
        tables.row(_ROWS[name], tables.told(accuracies),
                   f"{statistics.mean(shares):.1f} %",
                   f"{stages[name]['bytes'] // 4:,}", tables.told(speeds))


if __name__ == "__main__":
    main()
