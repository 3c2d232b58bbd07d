"""Whether anything grows while a job trains for hours and processes fail meanwhile.

    bazel build //tests/cluster:replication_test
    cd bazel-bin/tests/cluster/replication_test.runfiles/paramd
    PYTHONPATH=$OLDPWD python3 $OLDPWD/bench/python/soak.py --hours=6 --csv=soak.csv

Three servers and two workers train Fashion-MNIST in async mode with `replication: 2` and a
checkpoint a minute. Once a minute a process fails: a ps is killed (kill -9), told to end, or
stands still for three seconds; a worker is killed or stands still. ps-0 and worker-0, the
chief, only stand still, so that their figures are of one process for all of the time.

Every ten seconds: memory (Pss) and open descriptors of these two, bytes of the run directory,
and the median and 99th percentile of the chief's steps since the last time, by its metrics.
Each is cut into 24 equal parts of the time; a straight line through their means gives the
growth an hour, with its 95 % confidence interval. What surely grows (the interval is above
zero) by more than a twentieth of its mean in six hours ends the program with 1, as does a lost
push.
"""

import argparse
import csv
import glob
import json
import math
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

from failover_benchmark import Job, SERVERS

PARTS = 24
SAMPLE_S, FAULT_S = 10, 60
LASTING = ("ps-0", "worker-0")
# By which what is flat may seem to grow in six hours, of its mean.
SHARE, HOURS = 0.05, 6


class SoakJob(Job):
    """One that is watched, and not traced."""

    def __init__(self):
        super().__init__("--replication=2", "--epochs=1000000",
                         "--evaluate_every_epochs=0",
                         "--set=checkpoint.every_seconds=60")

    def metrics_address(self, task):
        host = self.address(task).split(":")[0]
        return f"{host}:{9090 + self.tasks.index(task)}"

    def flags_of(self, task):
        return [f"--metrics_address={self.metrics_address(task)}"]

    def buckets(self):
        """Of the chief's steps: how many took at most so many seconds."""
        address = self.metrics_address("worker-0")
        with urllib.request.urlopen(f"http://{address}/metrics") as reply:
            text = reply.read().decode()
        found = re.findall(
            r'paramd_worker_step_seconds_bucket{[^}]*le="([^"]+)"[^}]*} (\S+)',
            text)
        return {float(bound): float(count) for bound, count in found}

    def stand_still(self, task):
        self.runs[task].send_signal(signal.SIGSTOP)
        time.sleep(3)
        self.runs[task].send_signal(signal.SIGCONT)

    def kill_worker(self, task):
        self.runs[task].kill()
        self.runs[task].wait()
        self.begin(task)

    def fail(self, drawn):
        """What happened, in words."""
        kind = drawn.choice(["kill", "end", "still", "worker", "still_worker"])
        ps = f"ps-{drawn.randrange(1, SERVERS)}"
        if kind == "kill":
            self.kill(ps)
            return f"{ps} killed"
        if kind == "end":
            serving = [task for task in self.tasks_with_servers()
                       if task != "ps-0"]
            if not serving:
                return "nothing"
            ps = drawn.choice(serving)
            self.hand_over(ps)
            return f"{ps} told to end"
        if kind == "worker":
            self.kill_worker("worker-1")
            return "worker-1 killed"
        task = f"ps-{drawn.randrange(SERVERS)}"
        if kind == "still_worker":
            task = drawn.choice(["worker-0", "worker-1"])
        self.stand_still(task)
        return f"{task} stood still"


def quantile(before, after, share):
    """Of steps between two counts: the least bound that such a share kept, in ms."""
    counts = {bound: after[bound] - before.get(bound, 0) for bound in after}
    total = max(counts.values(), default=0)
    if total == 0:
        return math.nan
    return 1000 * min(bound for bound, count in counts.items()
                      if count >= share * total)


def memory_mb(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return int(re.search(r"Pss: +(\d+) kB", file.read())[1]) / 1000


def disk_mb(directory):
    return sum(os.path.getsize(path) for path in
               glob.glob(os.path.join(directory, "**"), recursive=True)
               if os.path.isfile(path)) / 1e6


class Samples:
    """Figures over time, which a thread takes until it is told to end."""

    def __init__(self, job, path):
        self.job, self.rows = job, []
        self.begin, self.last = time.monotonic(), job.buckets()
        self.path = path
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def take(self):
        row = {"hours": (time.monotonic() - self.begin) / 3600}
        for task in LASTING:
            pid = self.job.runs[task].pid
            row[f"{task} memory, MB"] = memory_mb(pid)
            row[f"{task} descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
        row["run directory, MB"] = disk_mb(self.job.run_directory)
        now = self.job.buckets()
        row["step p50, ms"] = quantile(self.last, now, 0.5)
        row["step p99, ms"] = quantile(self.last, now, 0.99)
        self.last = now
        self.rows.append(row)

    def run(self):
        while not self.done.wait(SAMPLE_S):
            try:
                self.take()
            except OSError as error:  # A file that has just gone, a busy chief.
                print(f"a sample is missing: {error}", file=sys.stderr)

    def end(self):
        self.done.set()
        self.thread.join()
        if self.path and self.rows:
            with open(self.path, "w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(self.rows[0]))
                writer.writeheader()
                writer.writerows(self.rows)


def line_through(points):
    """Growth for each unit of the first number, and half the width of its 95 %
    confidence interval: by least squares, normal residuals."""
    xs, ys = zip(*points)
    x_mean, y_mean = statistics.fmean(xs), statistics.fmean(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in points) / spread
    left = sum((y - y_mean - slope * (x - x_mean)) ** 2 for x, y in points)
    error = math.sqrt(left / (len(points) - 2) / spread)
    return slope, statistics.NormalDist().inv_cdf(0.975) * error


def growth(rows, name):
    """(mean, growth an hour, half the interval's width) of a figure."""
    rows = [row for row in rows if not math.isnan(row[name])]
    # Processes come to their size in the first part.
    rows = rows[len(rows) // PARTS:]
    points = []
    for part in range(PARTS):
        own = rows[part * len(rows) // PARTS:(part + 1) * len(rows) // PARTS]
        points.append((statistics.fmean(row["hours"] for row in own),
                       statistics.fmean(row[name] for row in own)))
    return (statistics.fmean(y for _, y in points), *line_through(points))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=6)
    parser.add_argument("--csv", help="a file for all samples")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.hours * 3600 < 3 * PARTS * SAMPLE_S:
        parser.error(f"--hours: at least {3 * PARTS * SAMPLE_S / 3600:.2f}, "
                     "for three samples in each part of the time")
    drawn = random.Random(options.seed)
    job, faults = SoakJob(), 0
    job.wait_for_backups()
    samples = Samples(job, options.csv)
    try:
        while time.monotonic() - samples.begin < options.hours * 3600:
            time.sleep(FAULT_S)
            print(f"{(time.monotonic() - samples.begin) / 60:.0f} min: "
                  f"{job.fail(drawn)}", file=sys.stderr)
            faults += 1
            job.wait_for_backups()
    finally:
        samples.end()
    lost = job.report()["job"]["pushes_lost"] + job.stop(undisturbed=[0])
    wrong = [f"{lost} pushes lost"] if lost else []
    names = list(samples.rows[0])[1:]
    for name in names:
        mean, slope, half = growth(samples.rows, name)
        grows = slope - half > 0 and slope * HOURS > SHARE * mean
        if grows:
            wrong.append(f"{name} grows")
        if options.json:
            print(json.dumps({"bench": "soak", "metric": name, "value": mean,
                              "growth_an_hour": slope, "interval": half}))
        else:
            print(f"{name:24} {mean:9.2f}  {slope:+8.3f} ± {half:.3f} an hour"
                  f"{'  grows' if grows else ''}")
    print(f"{faults} faults in {options.hours:g} hours, {lost} pushes lost",
          file=sys.stderr)
    if wrong:
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TEST_TMPDIR"] = directory
        main()
