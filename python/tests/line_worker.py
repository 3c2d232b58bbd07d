"""Fits y = 3x - 1 as one worker of a cluster: line_worker.py RUN_DIR [KEY=JSON...]

Some keys are no settings. `together`: so many workers begin their first step before any
ends it, which tells the others by a file beside RUN_DIR. `shards`: the examples come in
so many of them, in batches of 4. `stream`: each worker reads them itself. `slowly`: a
step takes so many milliseconds more. `scale`: in its third step each sets that scale of
learning rates, and prints what is said against it. `again`: behind the job it begins
others, in each of these directories, and prints what is said against it. Prints the numbers of the examples that it was
given, one line a step, and at the end the weights as JSON.
"""

import json
import os
import pathlib
import sys
import time

import numpy as np

import paramd

EXAMPLES = 64
X = np.arange(EXAMPLES) / EXAMPLES
Y = 3 * X - 1


def index():
    """Which worker this is."""
    return json.loads(os.environ["TF_CONFIG"])["task"]["index"]


def meet(count):
    """Waits until so many workers have come here."""
    folder = pathlib.Path(sys.argv[1] + ".met")
    folder.mkdir(exist_ok=True)
    (folder / str(index())).touch()
    while len(list(folder.iterdir())) < count:
        time.sleep(0.01)


def gradient(weights, indices):
    print("step", *indices, flush=True)
    indices = np.asarray(indices)
    error = weights["w"] * X[indices] + weights["b"] - Y[indices]
    return (error ** 2).mean(), {"w": 2 * (error * X[indices]).mean(),
                                 "b": 2 * error.mean()}


def main():
    settings = {"epochs": 20, "batch_size": 8,
                "optimizer": {"sgd": {}, "learning_rate": 0.2}}
    for setting in sys.argv[2:]:
        key, value = setting.split("=", 1)
        settings[key] = json.loads(value)
    together, slowly = settings.pop("together", 1), settings.pop("slowly", 0)
    scale, steps = settings.pop("scale", None), []
    again = settings.pop("again", ())
    examples = EXAMPLES
    if shards := settings.pop("shards", 0):
        size = EXAMPLES // shards
        examples = paramd.Shards(range(0, EXAMPLES, size),
                                 lambda shard: range(shard, shard + size))
        settings["batch_size"] = 4
    elif settings.pop("stream", False):
        examples = paramd.Stream(range(EXAMPLES), examples=EXAMPLES)

    def step(weights, indices):
        if together > 1:
            meet(together)
        time.sleep(slowly / 1000)
        steps.append(indices)
        if scale is not None and len(steps) == 3:
            try:
                worker.set(learning_rate_scale=scale)
            except paramd.Error as error:
                print(f"{type(error).__name__}: {error}", flush=True)
        return gradient(weights, indices)

    with paramd.Worker({"w": 2.0, "b": 0.5}, step, examples=examples,
                       run_dir=sys.argv[1], **settings) as worker:
        weights = worker.train()
    print(json.dumps({name: float(value) for name, value in weights.items()}))
    for run_dir in again:
        try:
            paramd.Worker({"w": 2.0, "b": 0.5}, gradient, examples=examples,
                          run_dir=run_dir, **settings).train()
        except paramd.Error as error:
            print(f"again: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
