"""What a running cluster says of itself, and what an operator may change."""

import http.client
import json
import subprocess
from typing import Any, Dict, List, Optional

from paramd._errors import Error, InvalidArgument, Unavailable
from paramd.cluster import program

_BAD, _RETRY = 2, 138
# A program that waits for an answer no longer ends within so much more.
_EXIT_SECONDS = 30


class Client:
    """An operator of a running job.

        paramd.Client("127.0.0.1:7077").status()["job"]["globalStep"]

    Args:
      address: host and port of any process of the cluster.
      tls_dir: where the processes speak TLS, the operator's certificate.
    """

    def __init__(self, address: str, *, tls_dir: Optional[str] = None,
                 timeout_seconds: float = 5):
        self.address = address
        self._flags = [f"--tls_dir={tls_dir}"] if tls_dir else []
        self._timeout_seconds = timeout_seconds

    def status(self) -> Dict[str, Any]:
        """What `paramd status --format=json` prints: the job, its servers and its
        workers. Raises Unavailable if the process can't be reached."""
        said: Dict[str, Any] = json.loads(self._run(
            ["status", self.address, "--format=json"], self._timeout_seconds))
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
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"no metrics from '{address}': {error!r}") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise Unavailable(f"no metrics from '{address}': {answer.status} "
                              f"{text.strip()}")
        samples = (line.rsplit(" ", 1) for line in text.splitlines()
                   if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def set(self, setting: str, value: Any, *, run_dir: "str | None" = None,
            timeout_seconds: float = 60) -> None:
        """Changes a setting while the job runs: staleness is one. On the chief's
        machine by its run_dir, else by the chief's address with tls_dir. Raises
        InvalidArgument if there is no such setting or value, Unavailable if the
        chief has not answered in so many seconds: it may have changed, or not."""
        where = f"--run_dir={run_dir}" if run_dir else f"--chief={self.address}"
        text = value if isinstance(value, str) else json.dumps(value)
        self._run(["set", f"{setting}={text}", where], timeout_seconds)

    def _run(self, words: List[str], timeout_seconds: float) -> str:
        timeout = f"--timeout_ms={max(int(timeout_seconds * 1000), 1)}"
        command = [program(), *words, timeout, *self._flags]
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
        raise kind(sentence)
