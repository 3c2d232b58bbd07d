#!/usr/bin/env python3
"""Prints how much of an ensemble's gain one student gets, by temperature.

usage: bench/smaller/distillation_table.py [--paramd PATH] [--seeds N] [--epochs N]
           [--teachers N] [--teacher_epochs N] [--labels N]
           [--temperatures 1,2,5,10] [--quick]

A small convolutional network is trained on the first labels of Fashion-MNIST, once
for each teacher, each with a seed of its own; the mean of their probabilities is the
ensemble. Each of them labels all images once (paramd label). Students of the same kind
learn from these files what the ensemble says, and see no label (alpha 1), once for each
seed. Accuracy and the cross entropy of the
labels, on the test set; means and standard deviations, of the teachers and of the
students. "of the gain" is how far the students' mean is on the way from the teachers'
mean to the ensemble.
"""

import array
import gzip
import math
import statistics
import tempfile

import tables

_DATA = "/usr/share/datasets/fashion-mnist"
_CLASSES = 10


def job_of(seed, epochs, stages, **settings):
    layers = []
    for filters in (8, 16, 32):
        layers += [{"conv2d": {"filters": filters, "stride": 2}}, "relu"]
    return {
        "name": "distillation", "seed": seed, "epochs": epochs,
        "batch_per_replica": 64,
        "input": {"format": "idx", "directory": _DATA,
                  "stages": [*stages, "shuffle"]},
        "model": {"layers": [*layers, "flatten", {"dense": _CLASSES}],
                  "loss": "softmax_cross_entropy"},
        "optimizer": {"adam": {}, "learning_rate": 0.002, "schedule": "cosine"},
        **settings,
    }


def probabilities(bench, job, checkpoint):
    output = bench.path("predicted")
    tables.run(bench.paramd, "predict", "--job", job, "--checkpoint", checkpoint,
               "--format=npy", f"--output={output}")
    with open(output, "rb") as file:
        content = file.read()
    values = array.array("f")
    values.frombytes(content[10 + int.from_bytes(content[8:10], "little"):])
    return values


def ensemble_of(predicted):
    """Accuracy in percent and cross entropy of the mean of the probabilities."""
    with gzip.open(f"{_DATA}/t10k-labels-idx1-ubyte.gz") as file:
        labels = file.read()[8:]
    correct = loss = 0
    for i, label in enumerate(labels):
        row = [sum(one[_CLASSES * i + c] for one in predicted) / len(predicted)
               for c in range(_CLASSES)]
        correct += row.index(max(row)) == label
        loss -= math.log(max(row[label], 1e-30))
    return 100 * correct / len(labels), loss / len(labels)


def labels(bench, job, run_dir):
    """What the run's model says of the job's training set."""
    path = bench.path("labels")
    tables.run(bench.paramd, "label", "--job", bench.write(job), "--checkpoint",
               run_dir, "--to", path)
    return path


def train(bench, job):
    """(accuracy in percent, loss), and where the run is."""
    path = bench.write(job)
    run_dir = bench.train(path)
    metrics = bench.metrics(path, run_dir)
    return (100 * metrics["accuracy"], metrics["loss"]), (path, run_dir)


def row(name, found, base, gain):
    accuracies, losses = zip(*found)
    share = (f"{100 * (statistics.mean(accuracies) - base) / gain:.0f} %"
             if gain else "")
    tables.row(name, tables.told(accuracies), share, tables.told(losses, 4))


def main():
    parser = tables.arguments(__doc__, seeds=3, quick=True)
    parser.add_argument("--teachers", type=int, default=10)
    parser.add_argument("--teacher_epochs", type=int, default=25)
    parser.add_argument("--labels", type=int, default=6000)
    parser.add_argument("--temperatures", default="1,2,5,10")
    arguments = parser.parse_args()
    transfer = []
    if arguments.quick:
        arguments.teachers = min(arguments.teachers, 2)
        arguments.teacher_epochs, arguments.labels = 1, 640
        transfer = [{"take": 1280, "on": "training"}]
    epochs = 1 if arguments.quick else arguments.epochs or 20
    with tempfile.TemporaryDirectory() as directory:
        bench = tables.Bench(arguments.paramd, directory)
        alone, teachers = zip(*(
            train(bench, job_of(seed, arguments.teacher_epochs,
                                [{"take": arguments.labels, "on": "training"}]))
            for seed in range(1, arguments.teachers + 1)))
        ensemble = ensemble_of([probabilities(bench, *teacher)
                                for teacher in teachers])
        base = statistics.mean(accuracy for accuracy, _ in alone)
        gain = ensemble[0] - base
        tables.header("model", "accuracy", "of the gain", "cross entropy")
        row(f"one teacher, {arguments.labels:,} labels", alone, base, 0)
        row(f"ensemble of {len(teachers)}", [ensemble], base, gain)
        labelled = [labels(bench, job_of(0, 1, transfer), run_dir)
                    for _, run_dir in teachers]
        for temperature in arguments.temperatures.split(","):
            distill = {"teachers": labelled,
                       "temperature": float(temperature), "alpha": 1}
            students = [
                train(bench, job_of(1000 + seed, epochs, transfer,
                                    distill=distill))[0]
                for seed in range(1, arguments.seeds + 1)]
            row(f"student, T = {temperature}", students, base, gain)


if __name__ == "__main__":
    main()
