"""How a job goes: what was seen of it, a bar, and a plot."""

import importlib
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from paramd._errors import Error, Unavailable


class Sample(NamedTuple):
    """What a job's processes said of it at one moment.

    Attributes:
      seconds: since the first sample.
      step: the global step.
      epochs: that are done, a fraction included.
      rate: examples a second, of all workers.
      loss: mean over the workers' last steps; None: no worker says one.
      staleness: pushes between the slowest and the fastest worker that lives.
    """
    seconds: float
    step: int
    epochs: float
    rate: float
    loss: Optional[float]
    staleness: int


class History(List[Sample]):
    """The samples of a job, oldest first."""

    def add(self, report: Dict[str, Any], now: float) -> Optional[Sample]:
        """Appends what `paramd status --format=json` said at this time, in seconds.
        None, and no change, if the chief did not answer."""
        job = report.get("job")
        if not job:
            return None
        if not self:
            self._began = now
        workers = [process["status"]["worker"]
                   for process in report.get("processes", ())
                   if process.get("status", {}).get("worker")]
        losses = [float(worker["loss"]) for worker in workers
                  if int(worker["pushes"])]
        clocks = [int(member["clock"]) for member in job.get("members", ())
                  if member["task"]["type"] == "WORKER"
                  and member["state"] == "ALIVE"]
        self.append(Sample(
            now - self._began, int(job["global_step"]), float(job["epochs_done"]),
            sum(float(worker["examples_per_second"]) for worker in workers),
            sum(losses) / len(losses) if losses else None,
            max(clocks) - min(clocks) if clocks else 0))
        return self[-1]

    def plot(self) -> Any:
        """Loss, rate and staleness over the steps: a matplotlib figure of three
        axes. Raises Error if there is no matplotlib, or nothing was seen yet."""
        if not self:
            raise Error("nothing was seen of the job yet: wait() looks once a second")
        try:
            pyplot = importlib.import_module("matplotlib.pyplot")
        except ImportError as error:
            raise Error("plot() needs matplotlib: pip install matplotlib") from error
        figure, axes = pyplot.subplots(3, sharex=True, figsize=(7, 7),
                                       layout="constrained")
        seen = [sample for sample in self if sample.loss is not None]
        axes[0].plot([s.step for s in seen], [s.loss for s in seen])
        axes[0].set_ylabel("loss")
        axes[1].plot([s.step for s in self], [s.rate for s in self])
        axes[1].set_ylabel("examples/s")
        axes[2].plot([s.step for s in self], [s.staleness for s in self])
        axes[2].set_ylabel("staleness (pushes)")
        axes[2].set_xlabel("step")
        return figure


def _in_notebook() -> bool:
    """Whether Jupyter runs this, which loads IPython before."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """Looks at a job once a second: keeps what it saw, and shows it, in Jupyter as
    a widget.

    Args:
      status: what gives a report, Client.status for one.
      history: where samples go.
      show: None: where somebody looks, if tqdm is installed. True: always; Error if
        there is no tqdm. False: never.
    """

    SECONDS = 1.0

    def __init__(self, status: Callable[[], Dict[str, Any]], history: History,
                 show: Optional[bool] = None):
        self._status = status
        self._history = history
        self._next = time.monotonic()
        self._bar: Any = None
        self._make: Any = None
        if show or (show is None and (sys.stderr.isatty() or _in_notebook())):
            try:
                self._make = importlib.import_module("tqdm.auto").tqdm
            except ImportError as error:
                if show:
                    raise Error("progress needs tqdm: pip install tqdm") from error

    def look(self) -> None:
        """Asks, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self.SECONDS
        try:
            report = self._status()
        except Unavailable:
            return  # It has not begun, or has just ended.
        sample = self._history.add(report, now)
        if sample and self._make:
            self._show(sample, int(report["job"]["epochs"]))

    def _show(self, sample: Sample, epochs: int) -> None:
        if self._bar is None:
            self._bar = self._make(
                total=epochs, unit="epoch", dynamic_ncols=True,
                bar_format="{l_bar}{bar}| {n:.2f}/{total} epochs "
                           "[{elapsed}<{remaining}{postfix}]")
        self._bar.n = sample.epochs
        loss = {} if sample.loss is None else {"loss": f"{sample.loss:.4g}"}
        self._bar.set_postfix(step=sample.step, **loss,
                              rate=f"{sample.rate:.0f}/s",
                              staleness=sample.staleness, refresh=False)
        self._bar.refresh()

    def close(self, finished: bool) -> None:
        """Leaves the bar as it is; full if the job has finished."""
        if self._bar is None:
            return
        if finished:
            self._bar.n = self._bar.total
            self._bar.refresh()
        self._bar.close()
