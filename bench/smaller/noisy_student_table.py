#!/usr/bin/env python3
"""Prints what rounds of a noisy student gain, and what they gain without noise.

usage: bench/smaller/noisy_student_table.py [--paramd PATH] [--seeds N] [--epochs N]
                                            [--quick]

Trains config/examples/noisy_student.json on Fashion-MNIST, once for each seed: a
teacher on 1,000 labels, and two rounds of students that learn from what the one
before them says of the other images. Then the same with the same teacher and
without dropout, stochastic depth and RandAugment in the students. Means and standard
deviations of the accuracy on the test set, as it is and with each image changed by
RandAugment (two operations of strength 9, the same changes for all models).
"""

import copy
import os
import tempfile

import tables

_PERTURBED = {"rand_augment": {"operations": 2, "strength": 9},
              "on": "evaluation"}
_ROWS = {"teacher": "teacher", "student-1": "student", "student-2": "its student",
         "quiet-1": "student without noise", "quiet-2": "its student"}


def without_noise(model):
    """A model of the same variables."""
    model = copy.deepcopy(model)
    model["layers"] = [layer for layer in model["layers"]
                       if not (isinstance(layer, dict) and "dropout" in layer)]
    for layer in model["layers"]:
        if isinstance(layer, dict) and "residual" in layer:
            layer["residual"].pop("drop_rate", None)
    return model


def job_of(seed, epochs, quick):
    job = tables.example("noisy_student")
    job.update(seed=seed, epochs=epochs or job["epochs"])
    quiet = []
    for stage in copy.deepcopy(job["stages"][1:]):
        stage["name"] = (stage["name"].replace("student", "quiet")
                         .replace("labels", "quiet-labels"))
        if "from" in stage:
            stage["from"] = stage["from"].replace("student", "quiet")
        else:
            stage["model"] = without_noise(job["model"])
            stage["input"]["stages"] = [
                {"relabel": f"stage:quiet-labels-{stage['name'][-1]}"}, "shuffle"]
        quiet.append(stage)
    job["stages"] += quiet
    if quick:
        job["epochs"] = 1
        job["stages"][0].update(epochs=1)
        few = {"take": 1200, "on": "training"}
        for stage in job["stages"][1:]:
            stage.setdefault("input", {"stages": ["shuffle"]})
            stage["input"]["stages"].insert(0, few)
            stage.get("label", {}).update(threshold=0, per_class=20)
    return job


def main():
    arguments = tables.arguments(__doc__, seeds=3, quick=True).parse_args()
    found = {name: ([], []) for name in _ROWS}
    for seed in range(1, (1 if arguments.quick else arguments.seeds) + 1):
        with tempfile.TemporaryDirectory() as directory:
            bench = tables.Bench(arguments.paramd, directory)
            job = job_of(seed, arguments.epochs, arguments.quick)
            stages, run_dir = bench.stages(bench.write(job))
            for stage in job["stages"]:
                if "label" not in stage:
                    stage.setdefault("input", {})["stages"] = [_PERTURBED]
            perturbed = bench.write(job)
            for name, (plain, changed) in found.items():
                plain.append(100 * stages[name]["metrics"]["accuracy"])
                changed.append(bench.accuracy(perturbed,
                                              os.path.join(run_dir, name),
                                              f"--stage={name}"))
        tables.progress(seed, {name: plain for name, (plain, _) in found.items()})
        tables.progress(f"{seed}, changed images",
                        {name: changed for name, (_, changed) in found.items()})
    tables.header("model", "accuracy", "of changed images")
    for name, (plain, changed) in found.items():
        tables.row(_ROWS[name], tables.told(plain), tables.told(changed))


if __name__ == "__main__":
    main()
