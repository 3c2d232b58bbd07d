#!/usr/bin/env python3
"""Prints what two stages and several teachers gain, each by itself and together.

usage: bench/smaller/tmkd_table.py [--paramd PATH] [--seeds N] [--epochs N] [--quick]

The models of config/examples/tmkd.json on three sets of 2,000 labels of Fashion-MNIST,
once for each seed. In their own stage students learn from the labels and from one
teacher (KD) or three (MKD); with a general stage before it (TKD, TMKD) they have
learned from the same teachers what these say of all images. The own stage is as long
for all. Means and standard deviations of the accuracy on the test set over sets and
seeds, and in how many of these TMKD is above.
"""

import copy
import tempfile

import tables

_SETS = 3
_LABELS = 2000
_TEACHERS = [f"teacher-{i}" for i in (1, 2, 3)]
# What these say of all images, computed once.
_LABELLED = [f"labels-{i}" for i in (1, 2, 3)]
# Name, labels of teachers, whether there is a general stage.
_WAYS = (("KD", _LABELLED[:1], False), ("MKD", _LABELLED, False),
         ("TKD", _LABELLED[:1], True), ("TMKD", _LABELLED, True))


def job_of(number, seed, epochs, quick):
    """Of a set: the teachers, and a student for each way."""
    job = tables.example("tmkd")
    stages = {stage["name"]: stage for stage in job["stages"]}
    general, own = stages.pop("general"), stages.pop("student")
    job.update(seed=seed, epochs=epochs or job["epochs"])
    before = [{"skip": number * _LABELS, "on": "training"}] if number else []
    job["input"]["stages"] = [
        *before, {"take": 200 if quick else _LABELS, "on": "training"}, "shuffle"]
    own["optimizer"] = {}
    if quick:
        job["epochs"] = general["epochs"] = 1
        for stage in (general, *(stages[name] for name in _LABELLED)):
            stage["input"]["stages"] = [{"take": 640, "on": "training"}, "shuffle"]
    job["stages"] = list(stages.values())
    for name, labels, is_general in _WAYS:
        student = copy.deepcopy(own)
        student["name"] = name
        student["distill"]["teachers"] = [f"stage:{one}" for one in labels]
        del student["from"]
        if is_general:
            first = copy.deepcopy(general)
            first["name"] = student["from"] = f"general-{name}"
            first["distill"]["teachers"] = student["distill"]["teachers"]
            job["stages"].append(first)
        job["stages"].append(student)
    return job


def main():
    arguments = tables.arguments(__doc__, seeds=3, quick=True).parse_args()
    names = [*_TEACHERS, *(name for name, _, _ in _WAYS)]
    found = {name: [] for name in names}
    sets, seeds = (1, 1) if arguments.quick else (_SETS, arguments.seeds)
    for seed in range(1, seeds + 1):
        for number in range(sets):
            with tempfile.TemporaryDirectory() as directory:
                bench = tables.Bench(arguments.paramd, directory)
                stages, _ = bench.stages(bench.write(job_of(
                    number, seed, arguments.epochs, arguments.quick)))
            for name in names:
                found[name].append(100 * stages[name]["metrics"]["accuracy"])
            tables.progress(f"{seed}, set {number + 1}", found)
    tables.header("model", "accuracy", "TMKD is above in")
    for name, accuracies in found.items():
        above = sum(best > one for best, one in zip(found["TMKD"], accuracies))
        tables.row(name, tables.told(accuracies),
                   "" if name == "TMKD" else f"{above} of {len(accuracies)}")


if __name__ == "__main__":
    main()
