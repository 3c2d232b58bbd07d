"""What it costs that a pod is watched, and how soon it is ready.

    bazel build //cli:paramd
    cd bazel-bin && PYTHONPATH=$OLDPWD /usr/bin/python3 \\
      $OLDPWD/bench/python/observe_benchmark.py

`ready`: from a process's start until its health is "readiness", with a model of 100 MB,
beside `paramd version`, which only starts. `calls`: processor time of a scrape of
/metrics and of a probe, on processes of a job whose training stands still meanwhile.
`share`: a job on Fashion-MNIST with 2 servers and 2 workers, watched WATCHED times as
often as deploy/ has it and with its log, beside the same job unwatched, in turn; and
what calls at the rates of deploy/ take of the unwatched one's processor time.
"""

import argparse
import glob
import json
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

import grpc

from tests.cluster import paramd

# Seconds between two: what Prometheus asks unless told; periodSeconds of probes.
SCRAPES, LIVENESS, READINESS = 15, 10, 5
WATCHED = 20
NETWORK = [{"dense": 128}, "relu", {"dense": 10}]
LARGE = [{"dense": 31500}, {"dense": 10}]  # 25 million parameters.


class Health:
    """The kubelet's probe, over a connection of its own."""

    def __init__(self, address):
        self._channel = grpc.insecure_channel(
            address, [("grpc.max_reconnect_backoff_ms", 100)])
        self._check = self._channel.unary_unary("/grpc.health.v1.Health/Check")

    def serves(self, service):
        try:
            return self._check(bytes([10, len(service)]) + service.encode(),
                               timeout=5) == b"\x08\x01"
        except grpc.RpcError:
            return False

    def close(self):
        self._channel.close()


class Job:
    """A cluster on Fashion-MNIST, in a directory that goes with it."""

    def __init__(self, servers, workers, layers, **settings):
        self.cluster = paramd.Cluster(servers, workers)
        with open(self.cluster.job, "w", encoding="utf-8") as file:
            json.dump({"name": "watched", "batch_per_replica": 64,
                       "input": {"format": "idx", "directory": paramd.DATA},
                       "model": {"layers": ["flatten", *layers],
                                 "loss": "softmax_cross_entropy"},
                       "optimizer": {"sgd": {}, "learning_rate": 0.1},
                       **settings}, file)
        self.running = {}

    def start(self, task, *flags):
        run = self.running[task] = self.cluster.start(task, *flags)
        # Nobody waits for a reader.
        threading.Thread(target=run.process.stdout.read, daemon=True).start()
        return run

    def metrics_address(self, task):
        host = self.cluster.address(task).split(":")[0]
        return f"{host}:{9090 + self.cluster.tasks.index(task)}"

    def start_watched(self, task, *flags):
        return self.start(task, f"--metrics_address={self.metrics_address(task)}",
                          *flags)

    def scrape(self, task):
        """The metrics; empty while nobody listens."""
        try:
            with urllib.request.urlopen(
                    f"http://{self.metrics_address(task)}/metrics") as reply:
                return reply.read().decode()
        except OSError:
            return ""

    def close(self):
        for run in self.running.values():
            if run.process.poll() is None:
                run.process.kill()
            run.process.wait()
        shutil.rmtree(self.cluster.directory)


def processor_seconds(pid):
    """Of all threads that it has now."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def used_by_ended():
    """Processor seconds of all processes that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wait_for_listener(address):
    host, port = address.split(":")
    while True:
        try:
            socket.create_connection((host, int(port))).close()
            return
        except OSError:
            time.sleep(0.001)


def measure_ready(rounds):
    """Seconds, and processor seconds, until a ps, the chief and a program that only
    starts are there."""
    found = {"ps-0": [], "worker-0": [], "version": []}
    for _ in range(rounds):
        for task in ("ps-0", "worker-0"):
            job = Job(1, 1, LARGE)
            begin = time.monotonic()
            run = job.start(task)
            wait_for_listener(job.cluster.address(task))
            health = Health(job.cluster.address(task))
            while not health.serves("readiness"):
                time.sleep(0.002)
            found[task].append((time.monotonic() - begin,
                                processor_seconds(run.process.pid)))
            health.close()
            job.close()
        begin, before = time.monotonic(), used_by_ended()
        subprocess.run([paramd.BINARY, "version"], check=True,
                       stdout=subprocess.DEVNULL)
        found["version"].append((time.monotonic() - begin,
                                 used_by_ended() - before))
    return found


def cost_of(call, pid, times):
    """Processor seconds of the process for each call, beyond its idling."""
    begin, before = time.monotonic(), processor_seconds(pid)
    for _ in range(times):
        call()
    took, used = time.monotonic() - begin, processor_seconds(pid) - before
    before = processor_seconds(pid)
    time.sleep(took)
    return (used - (processor_seconds(pid) - before)) / times


def measure_calls(times):
    """(of a scrape, of a probe) for a ps and for the chief."""
    job = Job(1, 1, NETWORK, lease_ms=300000)
    for task in ("ps-0", "worker-0"):
        job.start_watched(task, "--epochs=100000")
    while not re.search(r"^paramd_worker_acknowledged_pushes_total\S* [1-9]",
                        job.scrape("worker-0"), re.MULTILINE):
        time.sleep(0.1)
    costs = {}
    for asked, other in (("ps-0", "worker-0"), ("worker-0", "ps-0")):
        still = job.running[other].process
        still.send_signal(signal.SIGSTOP)
        time.sleep(2)  # What is under way ends.
        pid = job.running[asked].process.pid
        health = Health(job.cluster.address(asked))
        costs[asked] = (cost_of(lambda t=asked: job.scrape(t), pid, times),
                        cost_of(lambda h=health: h.serves("readiness"), pid,
                                times))
        health.close()
        still.send_signal(signal.SIGCONT)
    job.close()
    return costs


def train(epochs, watched):
    """Processor seconds and seconds of a whole job."""
    job = Job(2, 2, NETWORK)
    over = threading.Event()

    def every(seconds, call):
        def again():
            while not over.wait(seconds / WATCHED):
                call()
        threading.Thread(target=again, daemon=True).start()

    begin, before = time.monotonic(), used_by_ended()
    for task in job.cluster.tasks:
        if watched:
            job.start_watched(task, f"--epochs={epochs}", "--log_format=json")
            health = Health(job.cluster.address(task))
            every(SCRAPES, lambda t=task: job.scrape(t))
            every(LIVENESS, lambda h=health: h.serves("liveness"))
            every(READINESS, lambda h=health: h.serves("readiness"))
        else:
            job.start(task, f"--epochs={epochs}", "--log_level=error")
    for task, run in job.running.items():
        if run.process.wait() != 0:
            raise SystemExit(f"{task} failed")
    took, used = time.monotonic() - begin, used_by_ended() - before
    over.set()
    job.close()
    return used, took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()

    def report(metric, value, unit, **beside):
        if options.json:
            print(json.dumps({"bench": "observe", "metric": metric,
                              "value": value, "unit": unit, **beside}))
        else:
            print(f"{metric:32} {value:10.4g} {unit:4}", beside or "")

    rounds = 1 if options.quick else 5
    ready = measure_ready(rounds)
    for column, unit in enumerate(("s", "CPU-s")):
        version, *tasks = (
            statistics.median(values[column] for values in ready[name])
            for name in ("version", "ps-0", "worker-0"))
        for task, value in zip(("ps-0", "worker-0"), tasks):
            report(f"ready.{task}", value, unit, peer="paramd version",
                   peer_value=version)
    costs = measure_calls(300 if options.quick else 3000)
    for task, (scrape, probe) in costs.items():
        report(f"calls.scrape.{task}", 1e3 * scrape, "ms")
        report(f"calls.probe.{task}", 1e3 * probe, "ms")

    watched, unwatched, took = [], [], []
    for _ in range(rounds):
        unwatched.append(train(2 if options.quick else 10, False))
        watched.append(train(2 if options.quick else 10, True))
    took = statistics.median(seconds for _, seconds in unwatched)
    alone = statistics.median(used for used, _ in unwatched)
    beside = statistics.median(used for used, _ in watched)
    report(f"share.watched_{WATCHED}_times", beside / alone, "",
           peer="unwatched", peer_value=alone,
           all=[round(w[0] / u[0], 3) for w, u in zip(watched, unwatched)])
    calls = sum(2 * (scrape / SCRAPES + probe / LIVENESS + probe / READINESS)
                for scrape, probe in costs.values())
    report("share.calls_over_training", calls * took / alone, "")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TEST_TMPDIR"] = directory
        main()
