"""A cluster of processes on this machine: servers, and workers of a script."""

import contextlib
import functools
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import time
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence

from paramd import _native
from paramd._errors import Error, InvalidArgument
from paramd.progress import History, Progress
from paramd.tf_config import TFConfig

_FIRST_PORT = 20000
_MOST_TASKS = 65536 - _FIRST_PORT
_MOST_DRAWS = 100  # Of an address, until its ports are free.
_TAIL = 1 << 16  # Bytes of a log, in which its last line is looked for.
# A chief that ends with one of these fails again if it is started again; what the
# others do about it they do within so many seconds.
_FAILED_FOR_GOOD = (1, 2)
_GRACE_SECONDS = 5.0


@functools.lru_cache(maxsize=None)
def _check_version(path: str) -> None:
    try:
        said = subprocess.run([path, "version"], check=True, capture_output=True,
                              text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Error(f"'{path}' does not say its version: {error}") from error
    # After it: with what it was built, and which GPUs there are.
    first = said.partition("\n")[0]
    _native.check_version(path, first.replace("paramd ", "", 1))


def program() -> str:
    """The daemon: PARAMD's, the one beside this package, or PATH's. Error if there
    is none, or if it has another version than this package."""
    beside = pathlib.Path(__file__).with_name("paramd")
    found = os.environ.get("PARAMD") or (
        str(beside) if beside.exists() else shutil.which("paramd"))
    if not found:
        raise Error("the program paramd is neither in PATH nor in this "
                    "installation; it runs the servers")
    _check_version(found)
    return found


def _addresses(count: int) -> List[str]:
    """Addresses of loopback where nobody listens; another process may still take
    one before it is bound, whereupon the start says so. Error if there are none."""
    if count > _MOST_TASKS:
        raise InvalidArgument(f"a cluster of {count} processes; {_MOST_TASKS} have "
                              "ports on one address")
    why: Optional[OSError] = None
    for _ in range(_MOST_DRAWS):
        host = (f"127.{random.randint(1, 254)}.{random.randint(0, 254)}."
                f"{random.randint(2, 254)}")
        with contextlib.ExitStack() as stack:
            try:
                for number in range(count):
                    server = stack.enter_context(socket.socket())
                    server.bind((host, _FIRST_PORT + number))
            except OSError as error:
                why = error
                continue
        return [f"{host}:{_FIRST_PORT + number}" for number in range(count)]
    raise Error(f"no address of loopback was found that has {count} free ports from "
                f"{_FIRST_PORT} on: {why}")


class Local:
    """Servers and workers of one job on this machine.

        with paramd.local(servers=2, workers=["train.py"] * 2) as cluster:
            cluster.wait()
            cluster.plot()

    Args:
      servers: how many parameter servers.
      workers: for each worker its command: a script, or a list of arguments; the
        first is the chief. An int instead: that many are started elsewhere, with the
        TF_CONFIG that tf_config(index) gives.
      directory: for the logs, <task>.log; none: they go to this program's stderr.
      server_settings: settings of the servers' own, memory_limit_bytes for one.
    """

    def __init__(self, servers: int = 1,
                 workers: "int | Sequence[str | Sequence[str]]" = 1, *,
                 directory: "str | os.PathLike[str] | None" = None,
                 server_settings: Optional[Dict[str, Any]] = None):
        commands: "Sequence[Any]" = [] if isinstance(workers, int) else workers
        count = workers if isinstance(workers, int) else len(workers)
        if servers < 1 or count < 1:
            raise InvalidArgument("a cluster has at least one server and one worker")
        addresses = _addresses(servers + count)
        self._cluster = {"ps": addresses[:servers], "worker": addresses[servers:]}
        self._directory = pathlib.Path(directory) if directory else None
        if self._directory:
            self._directory.mkdir(parents=True, exist_ok=True)
        self._settings = [f"--set={name}={json.dumps(value)}"
                          for name, value in (server_settings or {}).items()]
        # What wait saw of the job, a sample a second.
        self.history = History()
        self._commands: Dict[str, List[str]] = {}
        self.processes: Dict[str, "subprocess.Popen[bytes]"] = {}
        for index in range(servers):
            self._commands[f"ps-{index}"] = [program(), "run", *self._settings]
        for index, command in enumerate(commands):
            words = [command] if isinstance(command, str) else list(command)
            if words[0].endswith(".py"):
                words.insert(0, sys.executable)
            self._commands[f"worker-{index}"] = words
        try:
            for task in self._commands:
                self.start(task)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Local":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def tf_config(self, index: int, task_type: str = "worker") -> str:
        """TF_CONFIG for a task."""
        return TFConfig(self._cluster, task_type, index).to_json()

    def address(self, task: str) -> str:
        """Where a task listens."""
        job, index = task.rsplit("-", 1)
        return self._cluster[job][int(index)]

    def start(self, task: str) -> "subprocess.Popen[bytes]":
        """Starts a task, "ps-0", again: one that ended, or was killed."""
        job, index = task.rsplit("-", 1)
        environment = dict(os.environ, TF_CONFIG=self.tf_config(int(index), job))
        log: Any = None
        if self._directory:
            log = open(self._directory / f"{task}.log", "ab")
        try:
            self.processes[task] = subprocess.Popen(
                self._commands[task], env=environment, stdout=log, stderr=log)
        finally:
            if log:
                log.close()
        return self.processes[task]

    def wait(self, timeout: Optional[float] = None, *,
             progress: Optional[bool] = None) -> None:
        """Waits until every process has ended, and looks at the job once a second:
        plot() shows what was seen. With tqdm installed a bar shows it meanwhile, in
        a terminal or in Jupyter; with progress=True anywhere, with False nowhere.
        Error names those that did not end with 0, and what their logs say last;
        also when worker 0, the chief, failed and others still wait for it. That
        another one failed while the job goes on, or waits for it, is a
        RuntimeWarning; start(task) starts it again.
        TimeoutError after timeout seconds."""
        from paramd.client import Client
        shown = Progress(Client(self._cluster["worker"][0]).status, self.history,
                         progress)
        finished = False
        try:
            self._wait(timeout, shown)
            finished = True
        finally:
            shown.close(finished)

    def plot(self) -> Any:
        """Loss, rate and staleness over the steps, as far as wait saw them: a
        matplotlib figure. Raises Error if there is no matplotlib."""
        return self.history.plot()

    def _wait(self, timeout: Optional[float], progress: Progress) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        failed_at = None
        told: "set[int]" = set()  # Of processes that failed, their numbers.
        while any(process.poll() is None for process in self.processes.values()):
            self._tell_failures(told)
            if not self._chief_failed():
                failed_at = None
            elif failed_at is None:
                failed_at = time.monotonic()
            elif time.monotonic() > failed_at + _GRACE_SECONDS:
                break
            if end is not None and time.monotonic() > end:
                left = [task for task, process in self.processes.items()
                        if process.poll() is None]
                raise TimeoutError(f"still running: {', '.join(left)}")
            progress.look()
            time.sleep(0.05)
        failed = [f"{task} with {process.returncode}{self._last_line(task)}"
                  for task, process in self.processes.items()
                  if process.poll() not in (None, 0)]
        if failed:
            raise Error(f"ended: {', '.join(failed)}")

    def _tell_failures(self, told: "set[int]") -> None:
        """What nobody starts again others may wait for as long as they like."""
        for task, process in self.processes.items():
            if process.poll() in (None, 0) or process.pid in told:
                continue
            told.add(process.pid)
            warnings.warn(
                f"{task} ended with {process.returncode}{self._last_line(task)}; "
                f"start('{task}') starts it again", RuntimeWarning, stacklevel=4)

    def _chief_failed(self) -> bool:
        """So that the job can't go on. Where somebody ended with 0, it had ended."""
        codes = {task: process.poll() for task, process in self.processes.items()}
        return (codes.get("worker-0") in _FAILED_FOR_GOOD
                and 0 not in codes.values())

    def _last_line(self, task: str) -> str:
        """What its log says last, in brackets; empty without a log."""
        if not self._directory:
            return ""
        path = self._directory / f"{task}.log"
        with open(path, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL))
            lines = log.read(_TAIL).decode(errors="replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), "")
        return f" ({path}: {said[:300]})"

    def close(self) -> None:
        """Tells what still runs to leave, and waits for it; what takes longer than
        half a minute is killed."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + 30
        for process in self.processes.values():
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def local(servers: int = 1,
          workers: "int | Sequence[str | Sequence[str]]" = 1,
          **options: Any) -> Iterator[Local]:
    """A cluster on this machine for the time of a with block: see Local."""
    with Local(servers, workers, **options) as cluster:
        yield cluster
