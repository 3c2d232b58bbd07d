"""Real processes that are killed, stopped and cut off, from one seed."""

import collections
import json
import os
import random
import signal
import subprocess
import tempfile
import time

from tests.cluster import paramd
from tests.cluster.proxy import Proxy

LATENCY = 0.001  # Seconds, each way through a proxy.
RESTART_AFTER = 0.2  # As a supervisor would.
# Exit codes of processes that may do better next time; a negative one is a
# signal's.
MAY_DO_BETTER = (138, -signal.SIGKILL)
# Without a process that ends for so long something is stuck.
PATIENCE = 240

Kind = collections.namedtuple("Kind", "name act tasks")


class Task:
    """One task of the cluster: its processes, one after the other."""

    def __init__(self, name, log):
        self.name = name
        self.log = log
        self.process = None
        self.incarnation = None
        self.start_at = 0.0  # Never, if it is None.
        self.resume_at = None
        self.exit_code = None


class ChaosCluster:
    """Two ps and some workers, whose ps and chief are behind proxies.

    The supervisor of it, too: what was killed or says that it may do better is
    started again, and told which process it replaces. To be closed;
    again is no mistake.
    """

    def __init__(self, job, workers, seed):
        self.drawn = random.Random(seed)
        self.directory = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.run_directory = os.path.join(self.directory, "run")
        self.job = os.path.join(self.directory, "job.json")
        with open(self.job, "w", encoding="utf-8") as file:
            json.dump({**paramd.tiny_job(self.directory), **job}, file)
        names = ["ps-0", "ps-1"] + [f"worker-{w}" for w in range(workers)]
        self.tasks = {
            name: Task(name, os.path.join(self.directory, f"{name}.log"))
            for name in names}
        self.own = dict(zip(names, paramd.draw_addresses(len(names))))
        behind = ["ps-0", "ps-1", "worker-0"]
        public = dict(zip(behind, paramd.draw_addresses(len(behind))))
        self.public = {**self.own, **public}
        self.proxies = {name: Proxy(public[name], self.own[name], LATENCY)
                        for name in behind}
        self.struck = collections.Counter()

    def close(self):
        for task in self.tasks.values():
            if task.process is not None:
                task.process.kill()
                task.process.wait()
        while self.proxies:
            self.proxies.popitem()[1].close()

    # ---- faults

    def kill(self, task):
        """The process ends as if its machine had been switched off."""
        return self._signal(task, signal.SIGKILL)

    def stop(self, task, seconds):
        """The process stands still for so long, and does not know."""
        if self.tasks[task].resume_at is not None:
            return False
        self.tasks[task].resume_at = time.monotonic() + seconds
        return self._signal(task, signal.SIGSTOP)

    def cut(self, task, seconds):
        """Answers of the task are lost for a moment, then all connections."""
        self.proxies[task].cut(seconds / 30)
        return True

    def hold(self, task, seconds):
        self.proxies[task].hold(seconds)
        return True

    def _signal(self, name, number):
        process = self.tasks[name].process
        if process is None or process.poll() is not None:
            return False
        process.send_signal(number)
        return True

    # ---- running

    def run(self, kinds, faults):
        """Until the chief has ended with 0, with that many faults on the way."""
        self._start_due()
        self._wait_for_a_step()
        next_fault = time.monotonic()
        last_end = time.monotonic()
        chief = self.tasks["worker-0"]
        while chief.exit_code != 0:
            now = time.monotonic()
            if faults > 0 and now >= next_fault:
                faults -= self._strike(self.drawn.choice(kinds))
                next_fault = now + self.drawn.uniform(0.1, 0.5)
            if self._supervise() or faults > 0:
                last_end = now
            if now - last_end > PATIENCE:
                raise AssertionError(f"stuck\n{self.last_words()}")
            time.sleep(0.01)

    def _wait_for_a_step(self):
        while True:
            for task in self.tasks.values():
                with open(task.log, encoding="utf-8") as file:
                    if "first push of generation" in file.read():
                        return
            if self._supervise():
                raise AssertionError(f"ended early\n{self.last_words()}")
            time.sleep(0.01)

    def _strike(self, kind):
        task = self.drawn.choice(kind.tasks)
        seconds = self.drawn.uniform(0.05, 1.5)
        hit = kind.act(self, task, seconds)
        if hit:
            self.struck[f"{kind.name} {task}"] += 1
        return 1 if hit else 0

    def _supervise(self):
        """Returns whether a process has ended or begun."""
        now = time.monotonic()
        changed = False
        for task in self.tasks.values():
            if task.process is None:
                continue
            if task.resume_at is not None and now >= task.resume_at:
                task.resume_at = None
                task.process.send_signal(signal.SIGCONT)
            code = task.process.poll()
            if code is None:
                continue
            changed = True
            task.process = None
            task.resume_at = None
            task.exit_code = code
            if code in MAY_DO_BETTER:
                task.start_at = now + RESTART_AFTER
            elif code != 0:
                raise AssertionError(
                    f"{task.name} ended with {code}\n{self.last_words()}")
        return self._start_due() or changed

    def _start_due(self):
        started = False
        for task in self.tasks.values():
            if task.start_at is None or time.monotonic() < task.start_at:
                continue
            task.start_at = None
            self._start(task)
            started = True
        return started

    def _start(self, task):
        kind, index = task.name.split("-")
        # Others reach it through its proxy; it listens where that hands on to.
        addresses = {**self.public, task.name: self.own[task.name]}
        tf_config = {
            "cluster": {
                "ps": [addresses["ps-0"], addresses["ps-1"]],
                "worker": [addresses[name] for name in self.tasks
                           if name.startswith("worker-")]},
            "task": {"type": kind, "index": int(index)}}
        replaces = [f"--replaces={task.incarnation}"] if task.incarnation else []
        task.incarnation = f"{random.getrandbits(64) | 1:016x}"
        with open(task.log, "a", encoding="utf-8") as log:
            task.process = subprocess.Popen(
                [paramd.BINARY, "run", "--job", self.job, "--run_dir",
                 self.run_directory, f"--incarnation={task.incarnation}",
                 *replaces], cwd=self.directory,
                env={**os.environ, "TF_CONFIG": json.dumps(tf_config)},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    # ---- what came of it

    def last_words(self):
        """Faults, and the end of each log."""
        text = f"faults: {dict(self.struck)}\n"
        for task in self.tasks.values():
            with open(task.log, encoding="utf-8") as file:
                lines = file.read().splitlines()[-25:]
            text += f"---- {task.name}\n" + "\n".join(lines) + "\n"
        return text

    def newest_checkpoint(self):
        name = paramd.checkpoints(self.run_directory)[-1]
        return os.path.join(self.run_directory, "checkpoints", name)

    def result(self):
        path = os.path.join(self.run_directory, "result.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def fences(self):
        """How many sessions the chief has ended."""
        with open(self.tasks["worker-0"].log, encoding="utf-8") as file:
            return file.read().count("is handed out again")

    def manifest(self):
        path = os.path.join(self.newest_checkpoint(), "manifest.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def kinds(killed, servers_and_chief, everybody):
    """What may happen: `killed` are the tasks that may be.

    A cut costs no time, and is what makes workers send again what is in.
    """
    return [
        Kind("kill", lambda cluster, task, _: cluster.kill(task), killed),
        Kind("stop", ChaosCluster.stop, everybody),
        *3 * [Kind("cut", ChaosCluster.cut, servers_and_chief)],
        Kind("hold", ChaosCluster.hold, servers_and_chief),
    ]
