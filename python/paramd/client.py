"""What a running cluster says of itself, and what an operator may change."""

import asyncio
import ctypes
import http.client
import json
import re
import subprocess
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from paramd import _native
from paramd._errors import Error, InvalidArgument, Unavailable, in_python, make
from paramd.cluster import program

_BAD, _RETRY = 2, 138
# A program that waits for an answer no longer ends within so much more.
_EXIT_SECONDS = 30


class Pulled(Dict[str, Any]):
    """Weights by name, float32 arrays of the variables' shapes.

    Attributes:
      least_step: everything contains at least this many pushes, in sync mode steps.
      most_step: nothing contains more than this many; equal in sync mode, unless steps
        are faster than a pull.
    """

    least_step: int = 0
    most_step: int = 0


class Checkpointed(NamedTuple):
    """A checkpoint: its directory, as the chief names it, and its step."""
    path: str
    step: int


class Client:
    """An operator of a running job.

        paramd.Client("127.0.0.1:7077").status()["job"]["global_step"]

    Args:
      address: host and port of any process of the cluster; for set and checkpoint
        without a run_dir the chief's.
      tls_dir: where the processes speak TLS, the operator's certificate.
    """

    def __init__(self, address: str, *, tls_dir: Optional[str] = None,
                 timeout_seconds: float = 5):
        self.address = address
        self._tls_dir = tls_dir
        self._timeout_seconds = timeout_seconds

    def status(self) -> Dict[str, Any]:
        """What `paramd status --format=json` prints: the job, its servers and its
        workers. Raises Unavailable if the process can't be reached."""
        said: Dict[str, Any] = json.loads(self._run(
            ["status", self.address, "--format=json", *self._certificate()],
            self._timeout_seconds))
        return said

    def metrics(self, address: str) -> Dict[str, float]:
        """What the process with this metrics_address serves for Prometheus, by
        name and labels: 'paramd_server_answered_pulls_total', or
        'paramd_task_info{type="ps",index="0"}'. Raises Unavailable if it can't be
        reached, or serves none."""
        connection = http.client.HTTPConnection(address,
                                                timeout=self._timeout_seconds)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = str(answer.read(), "utf-8")
        except OSError as error:
            raise Unavailable(f"no metrics from '{address}': {error!r}") from error
        except http.client.HTTPException as error:
            raise Unavailable(
                f"no metrics from '{address}', which speaks no HTTP: give the "
                "metrics_address of the process") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise Unavailable(f"no metrics from '{address}': {answer.status} "
                              f"{text.strip()}")
        samples = (line.rsplit(" ", 1) for line in text.splitlines()
                   if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def pull(self, names: Optional[Iterable[str]] = None, *,
             timeout_seconds: float = 60) -> Pulled:
        """The weights that the servers hold now, of these variables or of all.
        Training goes on meanwhile, and nobody waits: up to 262,144 numbers in a
        row are as one push left them, others may contain other pushes.

        Raises InvalidArgument if the job has no such variable, or one is named
        twice; Unavailable if nobody answers, or not in time; Cancelled
        if the job has ended: its weights are then in its last checkpoint.
        """
        import numpy as np
        library = _native.library()
        words = [name.encode() for name in names] if names is not None else []
        if names is not None and not words:
            return Pulled()
        found = ctypes.POINTER(_native.Weights)()
        code = library.paramd_pull(
            self.address.encode(),
            self._tls_dir.encode() if self._tls_dir else None,
            (ctypes.c_char_p * len(words))(*words), len(words), timeout_seconds,
            ctypes.byref(found))
        if code != _native.OK:
            raise make(code, _native.last_error())
        try:
            weights = found.contents
            pulled = Pulled()
            pulled.least_step = weights.least_step
            pulled.most_step = weights.most_step
            for at in range(weights.count):
                variable = weights.variables[at]
                shape = tuple(variable.shape[:variable.rank])
                size = int(np.prod(shape, dtype=np.int64))
                values = np.ctypeslib.as_array(variable.values, (size,))
                pulled[str(variable.name, "utf-8")] = values.copy().reshape(shape)
            return pulled
        finally:
            library.paramd_weights_free(found)

    def set(self, setting: str, value: Any, *, run_dir: "str | None" = None,
            timeout_seconds: float = 60) -> None:
        """Changes a setting while the job runs: staleness, or learning_rate_scale,
        which every learning rate is multiplied by from then on. On the chief's
        machine by its run_dir, else by the chief's address with tls_dir. Raises
        InvalidArgument if there is no such setting or value, Unavailable if the
        chief has not answered in time: it may have changed, or not."""
        text = value if isinstance(value, str) else json.dumps(value)
        self._run(["set", f"{setting}={text}", *self._chief(run_dir)],
                  timeout_seconds)

    def checkpoint(self, *, run_dir: "str | None" = None,
                   timeout_seconds: float = 60) -> Checkpointed:
        """Has the job write a checkpoint that contains all that was acknowledged
        before, and returns when it is committed; training goes on meanwhile. The
        chief is found as by set. Raises InvalidArgument if the job is finished,
        Unavailable if the chief or its storage fails, or if the checkpoint is not
        there in time: it is written all the same."""
        said = self._run(["checkpoint", "now", *self._chief(run_dir)],
                         timeout_seconds)
        found = re.fullmatch(r"step (\d+): (.*)\n", said, re.DOTALL)
        if not found:
            raise Error(f"`paramd checkpoint now` said '{said}'")
        return Checkpointed(found[2], int(found[1]))

    def _certificate(self) -> List[str]:
        return [f"--tls_dir={self._tls_dir}"] if self._tls_dir else []

    def _chief(self, run_dir: "str | None") -> List[str]:
        if run_dir:  # Its socket takes no certificate.
            return [f"--run_dir={run_dir}"]
        if not self._tls_dir:
            raise InvalidArgument(
                "give run_dir, that of the job, on the chief's machine; elsewhere "
                "Client takes the chief's address and tls_dir, an operator's "
                "certificate")
        return [f"--chief={self.address}", *self._certificate()]

    def _run(self, words: List[str], timeout_seconds: float) -> str:
        timeout = f"--timeout_ms={max(int(timeout_seconds * 1000), 1)}"
        command = [program(), *words, timeout]
        try:
            run = subprocess.run(command, check=False, capture_output=True, text=True,
                                 timeout=timeout_seconds + _EXIT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"`paramd {words[0]}` did not end in "
                              f"{error.timeout:.0f} s") from error
        if run.returncode == 0:
            return run.stdout
        sentence = run.stderr.strip() or f"paramd ended with {run.returncode}"
        kind = {_BAD: InvalidArgument, _RETRY: Unavailable}.get(run.returncode,
                                                                Error)
        raise kind(in_python(sentence))


class AsyncClient:
    """A Client whose methods are coroutines: each runs on a thread, so an event
    loop goes on meanwhile. Arguments, results and errors are Client's.

        weights = await paramd.AsyncClient("127.0.0.1:7077").pull(["w"])
    """

    def __init__(self, address: str, *, tls_dir: Optional[str] = None,
                 timeout_seconds: float = 5):
        self._client = Client(address, tls_dir=tls_dir,
                              timeout_seconds=timeout_seconds)

    async def status(self) -> Dict[str, Any]:
        """As Client.status."""
        return await asyncio.to_thread(self._client.status)

    async def metrics(self, address: str) -> Dict[str, float]:
        """As Client.metrics."""
        return await asyncio.to_thread(self._client.metrics, address)

    async def pull(self, names: Optional[Iterable[str]] = None, *,
                   timeout_seconds: float = 60) -> Pulled:
        """As Client.pull."""
        return await asyncio.to_thread(self._client.pull, names,
                                       timeout_seconds=timeout_seconds)

    async def set(self, setting: str, value: Any, *,
                  run_dir: "str | None" = None,
                  timeout_seconds: float = 60) -> None:
        """As Client.set."""
        await asyncio.to_thread(self._client.set, setting, value, run_dir=run_dir,
                                timeout_seconds=timeout_seconds)

    async def checkpoint(self, *, run_dir: "str | None" = None,
                         timeout_seconds: float = 60) -> Checkpointed:
        """As Client.checkpoint."""
        return await asyncio.to_thread(self._client.checkpoint, run_dir=run_dir,
                                       timeout_seconds=timeout_seconds)
