"""How soon a worker that was killed is back in step, and that nothing is lost by it.

    bazel build //cli:paramd
    cd bazel-bin && PYTHONPATH=$OLDPWD python3 $OLDPWD/bench/python/rejoin_benchmark.py

Two workers of strategy multi_worker_mirrored train a job of some seconds; one of them,
each in turn, the chief too, is killed (kill -9) at a random moment and started again at
once. `rejoin`: from its start until the first step that it has made with the other one;
`read`: what of that it takes to read its data and make its model. Each job's variables
and slots are compared with those of a job that nothing disturbed; one bit that differs
ends the benchmark with 1.
"""

import argparse
import datetime
import json
import os
import random
import shutil
import statistics
import tempfile
import time

from tests.cluster import multi_worker_test as jobs
from tests.cluster import paramd

JOB = {**jobs.JOB, "epochs": 4}
LATEST_KILL = 1.5  # Seconds behind the first step, of some two that it takes.


def time_of(output, text):
    """When the log first says it, in seconds as time.time() has them."""
    for line in output.splitlines():
        if text in line:
            moment = datetime.datetime.fromisoformat(line.split(" ")[0])
            return moment.timestamp()
    raise SystemExit(f"nothing says '{text}':\n{output}")


def train(victim=None, pause=0):
    """The directory of the job's tensors, and of the victim, if its job had not
    ended before, the seconds until it was back and of these those of reading."""
    workers = jobs.Workers(2, JOB)
    runs = [workers.start(0), workers.start(1)]
    times = None
    if victim is not None:
        runs[victim].wait_for("first push of generation")
        time.sleep(pause)
        if runs[victim].process.poll() is None:
            runs[victim].kill()
            begin = time.time()
            runs[victim] = workers.start(victim)
    for run in runs:
        if run.wait() != 0:
            raise SystemExit(f"a worker failed:\n{run.output}")
    if victim is not None and "first push" in runs[victim].output:
        output = runs[victim].output
        times = (time_of(output, "first push of generation") - begin,
                 time_of(output, "listening") - time_of(output, "configured"))
    tensors = workers.tensors()
    shutil.rmtree(workers.directory)
    return tensors, times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    expected, _ = train()
    drawn = random.Random(1)
    wanted, kills = 4 if options.quick else 50, []
    while len(kills) < wanted:
        found, times = train(victim=len(kills) % 2,
                             pause=drawn.uniform(0, LATEST_KILL))
        if found != expected:
            raise SystemExit(f"kill {len(kills) + 1}: the weights differ")
        if times is not None:
            kills.append(times)
    for metric, values in (("rejoin", [rejoin for rejoin, _ in kills]),
                           ("read", [read for _, read in kills]),
                           ("rejoin_but_read", [a - b for a, b in kills])):
        figures = {"value": statistics.median(values), "low": min(values),
                   "high": max(values), "unit": "s"}
        if options.json:
            print(json.dumps({"bench": "rejoin", "metric": metric, **figures}))
        else:
            print(f"{metric:20} {figures['value']:8.3f} s "
                  f"({figures['low']:.3f} to {figures['high']:.3f})")
    print(f"{len(kills)} kills, weights and slots bit-equal each time")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TEST_TMPDIR"] = directory
        main()
