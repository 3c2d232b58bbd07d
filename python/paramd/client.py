"""What a running cluster says of itself, and what an operator may change."""

import json
import subprocess
from typing import Any, Dict, List, Optional

from paramd._errors import Error, InvalidArgument, Unavailable
from paramd.cluster import program

_BAD, _RETRY = 2, 138


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
        self._timeout = f"--timeout_ms={int(timeout_seconds * 1000)}"

    def status(self) -> Dict[str, Any]:
        """What `paramd status --format=json` prints: the job, its servers and its
        workers. Raises Unavailable if the process can't be reached."""
        said: Dict[str, Any] = json.loads(self._run(
            ["status", self.address, "--format=json", self._timeout]))
        return said

    def set(self, setting: str, value: Any, *,
            run_dir: "str | None" = None) -> None:
        """Changes a setting while the job runs: staleness is one. On the chief's
        machine by its run_dir, else by the chief's address with tls_dir."""
        where = f"--run_dir={run_dir}" if run_dir else f"--chief={self.address}"
        text = value if isinstance(value, str) else json.dumps(value)
        self._run(["set", f"{setting}={text}", where])

    def _run(self, words: List[str]) -> str:
        run = subprocess.run([program(), *words, *self._flags], check=False,
                             capture_output=True, text=True)
        if run.returncode == 0:
            return run.stdout
        sentence = run.stderr.strip() or f"paramd ended with {run.returncode}"
        kind = {_BAD: InvalidArgument, _RETRY: Unavailable}.get(run.returncode,
                                                                Error)
        raise kind(sentence)
