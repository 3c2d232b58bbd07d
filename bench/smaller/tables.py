"""What the scripts that print learning tables share: jobs, runs and numbers."""

import argparse
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def arguments(doc, seeds, quick=False):
    """A parser with what all have: --paramd, --seeds, --epochs and --quick."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--paramd", default=os.path.join(ROOT, "paramd"))
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--epochs", type=int, default=0,
                        help="0: as many as the figures are of")
    if quick:
        parser.add_argument("--quick", action="store_true",
                            help="a few examples: does it run at all?")
    return parser


def example(name):
    """A job of config/examples."""
    path = os.path.join(ROOT, "config/examples", f"{name}.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def progress(seed, found):
    """Says the latest of each row's numbers on standard error: a table takes long."""
    print(f"seed {seed}:", ", ".join(f"{name} {numbers[-1]:.2f}"
                                     for name, numbers in found.items()),
          file=sys.stderr, flush=True)


def run(*command):
    done = subprocess.run(command, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout}")
    return done.stdout


class Bench:
    """Jobs and runs in a directory of their own."""

    def __init__(self, paramd, directory):
        self.paramd = paramd
        self._directory = directory
        self._made = 0

    def path(self, name):
        """A new one."""
        self._made += 1
        return os.path.join(self._directory, f"{name}-{self._made}")

    def write(self, job):
        path = self.path("job") + ".json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        return path

    def train(self, job):
        """The run's directory; `job` is the path of one."""
        run_dir = self.path("run")
        run(self.paramd, "run", "--job", job, f"--run_dir={run_dir}")
        return run_dir

    def stages(self, job):
        """Of a job with stages: each stage's figures by its name, and where it is."""
        run_dir = self.train(job)
        with open(os.path.join(run_dir, "stages.json"), encoding="utf-8") as file:
            return {stage["name"]: stage
                    for stage in json.load(file)["stages"]}, run_dir

    def quantise(self, job, run_dir, *flags):
        output = self.path("made")
        run(self.paramd, "quantize", run_dir, "--job", job, "--output", output,
            *flags)
        return output

    def metrics(self, job, checkpoint, *flags):
        out = run(self.paramd, "evaluate", "--job", job, "--checkpoint",
                  checkpoint, "--json", *flags)
        return json.loads(out)["metrics"]

    def accuracy(self, job, checkpoint, *flags):
        """In percent."""
        return 100 * self.metrics(job, checkpoint, *flags)["accuracy"]


def told(values, digits=2):
    """The mean, and of several the standard deviation."""
    text = f"{statistics.mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.{digits}f}"
    return text


def header(*cells):
    print(f"| {' | '.join(cells)} |")
    print("|---" * len(cells) + "|", flush=True)


def row(*cells):
    print(f"| {' | '.join(cells)} |", flush=True)
