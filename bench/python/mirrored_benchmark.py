"""Two replicas of strategy mirrored beside two processes that train for themselves.

    bazel build //cli:paramd
    cd bazel-bin && PYTHONPATH=$OLDPWD python3 $OLDPWD/bench/python/mirrored_benchmark.py

The residual network of config/examples on the processor, batches of 64 a replica, one
thread each: examples a second of both replicas, over those of both processes, which run
at the same time. What only a whole job has, its start and its end, is left out: jobs of
one epoch and of more are subtracted. Nothing is taken off for the reduction.
"""

import argparse
import json
import os
import statistics
import tempfile

from tests.cluster import paramd

EXAMPLES = 10000
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../../config/examples/residual.json")


def write_job(directory, epochs):
    with open(EXAMPLE, encoding="utf-8") as file:
        job = json.load(file)
    job["input"] = {"format": "idx", "directory": paramd.DATA,
                    "train_images": "t10k-images-idx3-ubyte.gz",
                    "train_labels": "t10k-labels-idx1-ubyte.gz"}
    # Its schedule is for more steps.
    job["optimizer"] = {"sgd": {"momentum": 0.9}, "learning_rate": 0.05}
    path = os.path.join(directory, f"job-{epochs}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**job, "epochs": epochs, "evaluate_every_epochs": 0}, file)
    return path


def train(job, *flag_sets):
    """Seconds of training of each of these jobs, which run at the same time."""
    runs = [paramd.Run("run", "--job", job, "--log_level=error", *flags)
            for flags in flag_sets]
    for run in runs:
        if run.wait() != 0:
            raise SystemExit(run.output)
    return [run.result()["seconds"] for run in runs]


def examples_per_second(short, long, epochs, *flag_sets):
    """Of all jobs together."""
    begins, wholes = train(short, *flag_sets), train(long, *flag_sets)
    return sum(epochs * EXAMPLES / (whole - begin)
               for begin, whole in zip(begins, wholes))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rounds, epochs = 1 if options.quick else 3, 1
    jobs = [write_job(os.environ["TEST_TMPDIR"], n) for n in (1, 1 + epochs)]
    alone = ["--strategy=one_device"]
    mirrored, independent = [], []
    for _ in range(rounds):
        independent.append(examples_per_second(*jobs, epochs, alone, alone))
        mirrored.append(examples_per_second(
            *jobs, epochs, ["--strategy=mirrored", "--replicas=2"]))
    ratios = [m / i for m, i in zip(mirrored, independent)]
    figures = {"value": statistics.median(mirrored), "low": min(mirrored),
               "high": max(mirrored), "unit": "examples/s",
               "peer": "two processes",
               "peer_value": statistics.median(independent),
               "ratio": statistics.median(ratios)}
    if options.json:
        print(json.dumps({"bench": "mirrored", "metric": "examples", **figures}))
    else:
        print(f"{figures['value']:.0f} examples/s, two processes "
              f"{figures['peer_value']:.0f}; ratio {figures['ratio']:.3f} "
              f"({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TEST_TMPDIR"] = directory
        main()
