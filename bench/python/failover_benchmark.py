"""How soon pushes are accepted again when a server with a backup is killed or told to
end, and what having a backup costs.

    bazel build //tests/cluster:replication_test
    cd bazel-bin/tests/cluster/replication_test.runfiles/paramd
    PYTHONPATH=$OLDPWD python3 $OLDPWD/bench/python/failover_benchmark.py

Three servers and two workers train Fashion-MNIST in async mode with `replication: 2` and
all other settings as they come. A ps drawn at random is killed (kill -9) and started
again at once; the next one when all servers have whole backups. `accepted_again`: from
the kill until the first push that began after it is acknowledged by all servers, by the
worker's own trace, whose clock (CLOCK_MONOTONIC) is that of the kill. `lost_pushes`:
those that are lost or doubled by the last checkpoint's accounts. Any other process that
ends, or a worker that joins twice, ends the benchmark with 1.

`handover_s`: the same of a ps that is stopped with SIGTERM, until the first push is
acknowledged that was under way or began when its backup had taken over, as that says in its
log; the longest of them, and `handover_p50_s`. A server that goes back to a checkpoint ends the
benchmark with 1.

`bytes_over_one_copy`, `cpu_over_one_copy` and `step_over_one_copy`: of a job that nothing
disturbs, over one with `replication: 1`: bytes of gradients that go to servers, CPU of all
processes for a push, and the median time from a step's begin to the next one's. `--job` names
another job for that, `--cost_epochs` for how long.

`sync_equal`: in sync mode, jobs with one server killed at random whose last checkpoint has the
bits of a job that nothing disturbed, of `sync_jobs`.

`move_step_p99`: the 99th percentile of a step while servers move (`paramd scale`, to two ps and
back to three) over that of the same job before. `fill_gb_per_s`: how fast the places get what
the servers hold, by the chief's log, median and fastest; `--table_gb` gives the job a table of so
much to move. A server that goes back to a checkpoint ends the benchmark with 1.

`lost_training`: the share of its steps that a job is short of if a ps is killed every ten minutes.
Measured with a kill every PERIOD_S seconds, which is nearer together: the steps that are missing in
such a time, beside the ones of as long without a kill before and after, are those of one kill.
`lost_training_one_copy` is the same without backups and with a checkpoint a minute;
`lost_pushes_one_copy` is what the servers then lack, of all pushes, at a kill every ten minutes.
"""

import argparse
import datetime
import json
import os
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from tests.cluster import paramd

SERVERS, WORKERS = 3, 2
PLACES = 2  # Of servers, in each of their processes.
# In one job: a trace keeps 262,144 pushes.
MOST_KILLS_AT_ONCE = 20
# Of kills, where training that is lost is measured, and at which it is told.
PERIOD_S, TOLD_PERIOD_S = 20, 600


def report(address):
    """What `paramd status` says, once the chief answers, within a minute."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        done = subprocess.run(
            [paramd.BINARY, "status", "--format", "json", address],
            capture_output=True, text=True, check=False)
        if done.returncode == 0 and "job" in json.loads(done.stdout):
            return json.loads(done.stdout)
    raise SystemExit(f"no chief answers at {address}: {done.stderr}")


class Job(paramd.Cluster):
    """One that goes on until it is stopped. Logs and traces are files."""

    def __init__(self, *flags, job=paramd.SMALL_JOB):
        super().__init__(SERVERS, WORKERS)
        self.job = job
        self.flags = flags
        self.runs, self.starts = {}, {}
        for task in self.tasks:
            self.begin(task)

    def begin(self, task):
        kind, index = task.split("-")
        self.starts[task] = self.starts.get(task, 0) + 1
        command = [paramd.BINARY, "run", "--job", self.job, "--run_dir",
                   self.run_directory, *self.flags, *self.flags_of(task)]
        tf_config = {"cluster": self.cluster,
                     "task": {"type": kind, "index": int(index)}}
        with open(self.log(task), "ab") as log:
            self.runs[task] = subprocess.Popen(
                command, cwd=self.directory, stdout=log, stderr=log,
                env={**os.environ, "TF_CONFIG": json.dumps(tf_config)})

    def flags_of(self, task):
        return [f"--trace={self.trace(task)}"] if "worker" in task else []

    def trace(self, task):
        return os.path.join(self.directory, f"{task}.trace")

    def log(self, task):
        return os.path.join(self.directory, f"{task}.log")

    def report(self):
        return report(self.address("worker-0"))

    def check_others(self):
        for task, run in self.runs.items():
            if run.poll() is not None:
                raise SystemExit(f"{task} has ended: {self.log(task)}")

    def wait_for_backups(self):
        while True:
            self.check_others()
            members = self.report()["job"]["members"]
            if all(m["backup_is_member"] for m in members
                   if m["task"]["type"] == "PS"):
                return
            time.sleep(0.1)

    def tasks_with_servers(self):
        """The ps that are a server now, and not only backups."""
        return sorted({f"ps-{member['peer'] // PLACES}"
                       for member in self.report()["job"]["members"]
                       if member["task"]["type"] == "PS"})

    def noticed(self):
        """How often a place of a server was found to have ended."""
        with open(self.log("worker-0"), encoding="utf-8") as log:
            return len(re.findall("goes on without its backup|"
                                  "its backup takes over", log.read()))

    def kill(self, task):
        """The moment; returns when it was noticed and is made up for."""
        before = self.noticed()
        self.runs[task].send_signal(signal.SIGKILL)
        moment = time.monotonic()
        self.runs[task].wait()
        self.begin(task)
        while self.noticed() < before + PLACES:
            self.check_others()
            time.sleep(0.05)
        self.wait_for_backups()
        return moment

    def take_overs(self):
        """When places took a server over, by the clock of traces, oldest first."""
        ahead = time.time() - time.monotonic()
        found = []
        for index in range(SERVERS):
            with open(self.log(f"ps-{index}"), encoding="utf-8") as log:
                found += [datetime.datetime.fromisoformat(
                    line.split()[0]).timestamp() - ahead
                          for line in log if "this place takes ps-" in line]
        return sorted(found)

    def hand_over(self, task):
        """Has it leave and come back; when it was told to, and when its backup
        took over."""
        self.runs[task].send_signal(signal.SIGTERM)
        moment = time.monotonic()
        if self.runs[task].wait() != 143:
            raise SystemExit(f"{task} did not end as told: {self.log(task)}")
        taken_over = [at for at in self.take_overs() if at >= moment - 0.001]
        self.begin(task)
        self.wait_for_backups()
        if not taken_over:
            raise SystemExit(f"nothing was handed over: {self.log(task)}")
        return moment, max(taken_over)

    def stop(self, undisturbed=range(WORKERS)):
        """How many pushes its last checkpoint lacks, or has twice."""
        done = subprocess.run([paramd.BINARY, "stop", self.run_directory],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        for task, run in self.runs.items():
            if run.wait() != 0:
                raise SystemExit(f"{task} failed: {self.log(task)}")
        for worker in undisturbed:
            with open(self.log(f"worker-{worker}"), encoding="utf-8") as log:
                text = log.read()
            joined = [line for line in text.splitlines()
                      if "joined as generation" in line
                      and line.endswith(f"core=worker-{worker}")]
            if len(joined) != 1 or " is wrong: " in text:
                raise SystemExit(f"a worker was disturbed:\n{text}")
        newest = os.path.join(self.run_directory, "checkpoints",
                              paramd.checkpoints(self.run_directory)[-1],
                              "manifest.json")
        with open(newest, encoding="utf-8") as file:
            files = json.load(file)["files"]
        return sum(int(lost["to"]) - int(lost["from"]) + 1
                   for part in files for lost in part.get("lost", []))

    def stop_unharmed(self):
        """The chief's log, in which no server went back to a checkpoint, and pushes
        lost or doubled."""
        with open(self.log("worker-0"), encoding="utf-8") as log:
            text = log.read()
        if "is back after it was stopped" in text or "came back without" in text:
            raise SystemExit(f"a server went back to a checkpoint:\n{text}")
        said = self.report()["job"]
        return text, self.stop() + said["pushes_lost"] + said["pushes_doubled"]

    def events(self, name):
        """Begin and end in seconds, of all workers, oldest first."""
        found = []
        for worker in range(WORKERS):
            with open(self.trace(f"worker-{worker}"),
                      encoding="utf-8") as file:
                found += [(e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6)
                          for e in json.load(file)["traceEvents"]
                          if e["name"] == name]
        return sorted(found)


def run_kills(kills, drawn):
    """(seconds until pushes were accepted again, lost pushes)."""
    job = Job("--replication=2", "--epochs=1000000",
              "--evaluate_every_epochs=0")
    moments, killed = [], []
    job.wait_for_backups()
    for _ in range(kills):
        time.sleep(drawn.uniform(0.2, 1.2))
        killed.append(f"ps-{drawn.randrange(SERVERS)}")
        moments.append(job.kill(killed[-1]))
    time.sleep(0.2)  # A push behind the last one.
    said = job.report()["job"]
    lost = job.stop() + said["pushes_lost"] + said["pushes_doubled"]
    pushes = job.events("push")
    times = []
    for task, moment in zip(killed, moments):
        ends = [end for begin, end in pushes if begin >= moment]
        if not ends:
            raise SystemExit(f"no push after {moment}: {pushes[-1:]}")
        times.append(min(ends) - moment)
        print(f"{task} killed at {moment:.3f} s: pushes accepted again after "
              f"{times[-1]:.3f} s", file=sys.stderr)
    return times, lost


def run_hand_overs(times, drawn):
    """(seconds until the new place has acknowledged a push, lost pushes)."""
    job = Job("--replication=2", "--epochs=1000000",
              "--evaluate_every_epochs=0")
    job.wait_for_backups()
    moments = []
    for _ in range(times):
        time.sleep(drawn.uniform(0.2, 1.2))
        moments.append(job.hand_over(drawn.choice(job.tasks_with_servers())))
    time.sleep(0.2)  # A push behind the last one.
    _, lost = job.stop_unharmed()
    ends = sorted(end for _, end in job.events("push"))
    seconds = []
    for moment, taken_over in moments:
        seconds.append(next(end for end in ends if end >= taken_over) - moment)
        print(f"told to end at {moment:.3f} s: taken over after "
              f"{taken_over - moment:.3f} s, a push acknowledged after "
              f"{seconds[-1]:.3f} s", file=sys.stderr)
    return seconds, lost


def run_sync_kills(kills, drawn):
    """How many jobs end with the bits of one that nothing disturbs."""
    flags = ("--replication=2", "--set=staleness=sync", "--lease_ms=60000",
             "--epochs=1", "--evaluate_every_epochs=0")

    def finish(job, killed=None):
        for task, run in job.runs.items():
            if task != killed and run.wait() != 0:
                raise SystemExit(f"{task} failed: {job.log(task)}")
        if killed is not None:
            try:
                job.runs[killed].wait(timeout=10)
            except subprocess.TimeoutExpired:  # It came back after the end.
                job.runs[killed].kill()
        return paramd.tensors(os.path.join(
            job.run_directory, "checkpoints",
            paramd.checkpoints(job.run_directory)[-1]))

    job = Job(*flags)
    job.wait_for_backups()
    begin = time.monotonic()
    calm = finish(job)
    lasts = time.monotonic() - begin
    equal = 0
    for number in range(kills):
        job = Job(*flags)
        job.wait_for_backups()
        moment = drawn.uniform(0, 0.8 * lasts)
        time.sleep(moment)
        task = f"ps-{drawn.randrange(SERVERS)}"
        job.runs[task].send_signal(signal.SIGKILL)
        job.runs[task].wait()
        job.begin(task)
        same = finish(job, killed=task) == calm
        with open(job.log("worker-0"), encoding="utf-8") as log:
            if not job.noticed() or "all servers go back" in log.read():
                raise SystemExit(f"it was not taken over: {job.log('worker-0')}")
        equal += same
        print(f"{number + 1}: {task} killed after {moment:.2f} of {lasts:.2f} s: "
              f"{'equal' if same else 'OTHER BITS'}", file=sys.stderr)
        shutil.rmtree(job.directory)
    return equal


def run_moves(times, path):
    """(p99 of a step while servers move over that before, seconds of each
    scaling, GB/s of each server that was copied, lost pushes)"""
    job = Job("--replication=2", "--scalable", "--epochs=1000000",
              "--evaluate_every_epochs=0", job=path)
    job.wait_for_backups()
    spans, quiet = [], []

    def scale(servers):
        begin = time.monotonic()
        subprocess.run([paramd.BINARY, "scale", job.run_directory,
                        f"--servers={servers}"], check=True,
                       stdout=subprocess.DEVNULL)
        job.wait_for_backups()
        spans.append((begin, time.monotonic()))

    last = f"ps-{SERVERS - 1}"
    for _ in range(times):
        begin = time.monotonic()
        time.sleep(5)
        quiet.append((begin, time.monotonic()))
        leaves = job.runs.pop(last)
        scale(SERVERS - 1)
        if leaves.wait() != 0:
            raise SystemExit(f"{last} did not end as told: {job.log(last)}")
        job.begin(last)
        scale(SERVERS)
    chief, lost = job.stop_unharmed()
    steps = job.events("step")

    def p99(within):
        return percentile([end - begin for begin, end in steps
                           if any(a <= begin < b for a, b in within)], 0.99)

    return (p99(spans) / p99(quiet), [end - begin for begin, end in spans],
            copied(job, chief), lost)


def table_job(gigabytes):
    """The path of a job whose model is an embedding of that size."""
    width = 64
    classes = int(gigabytes * 1e9) // (4 * width)
    features = [{"name": "ids", "type": "int32", "dims": [8], "classes": classes},
                {"name": "label", "type": "int32", "classes": 4}]
    source = {"synthetic": {"examples": 4096, "features": features}}
    path = os.path.join(os.environ["TEST_TMPDIR"], "table.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({
            "name": "table", "batch_per_replica": 64,
            "input": {"train": source, "test": source},
            "model": {"layers": [{"embedding": {"width": width, "sparse": True}},
                                 "flatten", {"dense": 4}],
                      "loss": "softmax_cross_entropy"},
            "optimizer": {"sgd": {}, "learning_rate": 0.1},
        }, file)
    return path


def copied(job, chief):
    """GB/s of each server that a backup was told of, by the chief's log."""
    held, rates, begun = {}, [], {}
    for index in range(SERVERS):
        with open(job.log(f"ps-{index}"), encoding="utf-8") as log:
            for server, held_bytes in re.findall(
                    r"generation 1\.(\d+) holds \d+ slices, (\d+) bytes",
                    log.read()):
                held[f"ps-{int(server) - 1}"] = int(held_bytes)
    for moment, server, what in re.findall(
            r"^(\S+) .* (ps-\d+) (tells a backup|has a backup)", chief, re.M):
        at = datetime.datetime.fromisoformat(moment).timestamp()
        if what == "tells a backup":
            begun[server] = at
        elif server in begun:
            rates.append(1e-9 * held[server] / max(1e-3, at - begun.pop(server)))
    return rates


def run_lost_training(kills, drawn, replication):
    """(share of the steps that is lost at a kill every TOLD_PERIOD_S, pushes lost a kill,
    steps a second)"""
    job = Job(f"--replication={replication}", "--epochs=1000000",
              "--evaluate_every_epochs=0", "--set=checkpoint.every_seconds=60")
    if replication > 1:
        job.wait_for_backups()
    else:
        job.report()
    time.sleep(5)
    quiet, disturbed = [], []

    def wait_into(spans):
        begin = time.monotonic()
        time.sleep(PERIOD_S)
        spans.append((begin, time.monotonic()))

    for _ in range(kills):
        wait_into(quiet)
        task = f"ps-{drawn.randrange(SERVERS)}"
        job.runs[task].send_signal(signal.SIGKILL)
        job.begin(task)
        wait_into(disturbed)
    wait_into(quiet)
    lost = job.stop(undisturbed=())
    ends = [end for _, end in job.events("step")]

    def rate(spans):
        return (sum(begin <= end < until for end in ends for begin, until in spans) /
                sum(until - begin for begin, until in spans))

    seconds = PERIOD_S * (1 - rate(disturbed) / rate(quiet))
    print(f"replication {replication}: {rate(quiet):.1f} steps a second, "
          f"{rate(disturbed):.1f} with a kill every {PERIOD_S} s: "
          f"{seconds:.2f} s lost by one", file=sys.stderr)
    return seconds / TOLD_PERIOD_S, lost / kills, rate(quiet)


def cost(replication, path, epochs):
    """Of a push: CPU-seconds, bytes to servers, and seconds between steps."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    job = Job(f"--replication={replication}", f"--epochs={epochs}",
              "--evaluate_every_epochs=0", "--finish_timeout_ms=1000", job=path)
    while True:
        found = job.report()
        if found["job"]["epochs_done"] >= 0.8 * epochs:
            break
        time.sleep(0.3)
    pushes = found["job"]["pushes"]
    stats = [process["status"]["server"] for process in found["processes"]
             if "server" in process.get("status", {})]
    with open(job.log("worker-0"), encoding="utf-8") as file:
        values = re.search(r"slices with (\d+) bytes of values", file.read())
    one_copy = pushes * int(values.group(1))  # Slots do not travel.
    told = sum(server.get("replicated_bytes", 0) for server in stats)
    for task, run in job.runs.items():
        if run.wait() != 0:
            raise SystemExit(f"{task} failed: {job.log(task)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    steps = len(job.events("push"))
    gaps = []
    for worker in range(WORKERS):
        with open(job.trace(f"worker-{worker}"), encoding="utf-8") as file:
            begins = sorted(e["ts"] / 1e6
                            for e in json.load(file)["traceEvents"]
                            if e["name"] == "step")
        gaps += [b - a for a, b in zip(begins, begins[1:])]
    return cpu / steps, (one_copy + told) / one_copy, statistics.median(gaps)


def percentile(values, share):
    """The least value that so many of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="three kills")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--hand_overs", type=int, default=10)
    parser.add_argument("--sync_jobs", type=int, default=10)
    parser.add_argument("--moves", type=int, default=3)
    parser.add_argument("--only", choices=["kills", "hand_overs", "sync", "moves",
                                           "cost", "lost_training"])
    parser.add_argument("--job", default=paramd.SMALL_JOB,
                        help="of the costs and the moves")
    parser.add_argument("--table_gb", type=float, help="of the moves' job")
    parser.add_argument("--cost_epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    figures = []
    if options.only in (None, "kills"):
        drawn, times, lost = random.Random(options.seed), [], 0
        wanted = 3 if options.quick else options.kills
        while len(times) < wanted:
            some, more = run_kills(
                min(MOST_KILLS_AT_ONCE, wanted - len(times)), drawn)
            times += some
            lost += more
        figures += [("accepted_again_p50_s", statistics.median(times), "s"),
                    ("accepted_again_p99_s", percentile(times, 0.99), "s"),
                    ("accepted_again_least_s", min(times), "s"),
                    ("lost_pushes", lost, ""), ("kills", len(times), "")]
    if options.only in (None, "hand_overs"):
        times, lost = run_hand_overs(3 if options.quick else options.hand_overs,
                                     random.Random(options.seed))
        figures += [("handover_s", max(times), "s"),
                    ("handover_p50_s", statistics.median(times), "s"),
                    ("handover_lost_pushes", lost, "")]
    if options.only in (None, "sync"):
        wanted = 2 if options.quick else options.sync_jobs
        figures += [("sync_equal",
                     run_sync_kills(wanted, random.Random(options.seed)), ""),
                    ("sync_jobs", wanted, "")]
    if options.only in (None, "moves"):
        ratio, seconds, rates, lost = run_moves(
            1 if options.quick else options.moves,
            options.job if options.table_gb is None else table_job(options.table_gb))
        figures += [("move_step_p99", ratio, ""),
                    ("scaling_p50_s", statistics.median(seconds), "s"),
                    ("fill_gb_per_s", statistics.median(rates), "GB/s"),
                    ("fill_fastest_gb_per_s", max(rates), "GB/s"),
                    ("move_lost_pushes", lost, "")]
    if options.only in (None, "lost_training"):
        drawn, kills = random.Random(options.seed), 2 if options.quick else 6
        figures += [("lost_training", run_lost_training(kills, drawn, 2)[0], "")]
        share, lost, steps = run_lost_training(kills, drawn, 1)
        figures += [("lost_training_one_copy", share, ""),
                    ("lost_pushes_one_copy", lost / (steps * TOLD_PERIOD_S), "")]
    if options.only in (None, "cost"):
        one, two = (cost(copies, options.job, options.cost_epochs)
                    for copies in (1, 2))
        figures += [("bytes_over_one_copy", two[1] / one[1], ""),
                    ("cpu_over_one_copy", two[0] / one[0], ""),
                    ("step_over_one_copy", two[2] / one[2], "")]
    for metric, value, unit in figures:
        if options.json:
            print(json.dumps({"bench": "failover", "metric": metric,
                              "value": value, "unit": unit}))
        else:
            print(f"{metric:24} {value:8.3f} {unit}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TEST_TMPDIR"] = directory
        main()
