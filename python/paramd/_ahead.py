"""Batches of a dataset, read ahead by processes of their own."""

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import random
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Union

import numpy as np
import torch
from torch.utils.data import TensorDataset, default_collate

from paramd import _errors
from paramd.data import Shards, Stream, place

# Batches that are asked for and not taken, at most: those of a portion that was
# lost are never taken.
_MOST = 32

_GUARD = "put what the script does under `if __name__ == \"__main__\":`"


def _check_process() -> None:
    """Error in a process that reads ahead and runs the script once more for that."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise _errors.Error(
            "each process that reads ahead begins with the script's top, which here "
            f"trains again: {_GUARD}")


@contextlib.contextmanager
def _in_a_process() -> Iterator[None]:
    """What another process does for this one."""
    try:
        yield
    except BrokenProcessPool as error:
        raise _errors.Error(
            "a process that reads batches ahead has ended, killed or by an error that "
            f"it has printed: {_GUARD}, or leave num_workers out") from error


def _read_examples(dataset: Any, collate: Callable[[List[Any]], Any],
                   indices: np.ndarray) -> Any:
    """One batch, as a DataLoader makes it."""
    if type(dataset) is TensorDataset and collate is default_collate:
        return [tensor[torch.from_numpy(indices)] for tensor in dataset.tensors]
    if getattr(dataset, "__getitems__", None):
        return collate(dataset.__getitems__(indices.tolist()))
    return collate([dataset[i] for i in indices.tolist()])


_dataset: Any = None
_collate: Optional[Callable[[List[Any]], Any]] = None


def _begin(dataset: Any, collate: Callable[[List[Any]], Any], seed: int,
           begun: Any) -> None:
    """In each process, once; `begun` counts them. Each one draws other numbers:
    what the script seeds at its top would be the same in all of them."""
    global _dataset, _collate
    torch.set_num_threads(1)
    with begun.get_lock():
        seed += begun.value
        begun.value += 1
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    _dataset, _collate = dataset, collate


def _read(indices: np.ndarray) -> Any:
    """One batch, in a process."""
    assert _collate is not None
    return _read_examples(_dataset, _collate, indices)


class Reader:
    """Reads batches: here, or ahead in `processes` processes, which are spawned, so
    that what this process has connected to stays its own."""

    def __init__(self, dataset: Any, collate: Callable[[List[Any]], Any],
                 processes: int):
        self._dataset = dataset
        self._collate = collate
        self._pool: Optional[concurrent.futures.ProcessPoolExecutor] = None
        self._asked: "Dict[bytes, concurrent.futures.Future[Any]]" = {}
        if processes > 0:
            _check_process()
            context = torch.multiprocessing.get_context("spawn")
            # Another one for each worker of the job, by what this one has drawn.
            seed = int(torch.randint(2**62, ())) + place()[0] * processes
            self._pool = concurrent.futures.ProcessPoolExecutor(
                processes, mp_context=context, initializer=_begin,
                initargs=(dataset, collate, seed, context.Value("q")))

    @property
    def reads_ahead(self) -> bool:
        """Whether it is any use to ask."""
        return self._pool is not None

    def ask(self, indices: np.ndarray) -> None:
        """This batch is likely to be wanted."""
        if self._pool is None:
            return
        while len(self._asked) >= _MOST:
            self._asked.pop(next(iter(self._asked))).cancel()
        with _in_a_process():
            self._asked[indices.tobytes()] = self._pool.submit(_read, indices)

    def read(self, epoch: int, indices: np.ndarray) -> Any:
        """The batch; the exception of the dataset."""
        del epoch
        asked = self._asked.pop(indices.tobytes(), None)
        if self._pool is not None:
            with _in_a_process():
                return (asked or self._pool.submit(_read, indices)).result()
        return _read_examples(self._dataset, self._collate, indices)

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class InOrder:
    """Reads batches of what has no numbers, as a Reader; `processes` is what reads
    it, if it is not this process."""

    reads_ahead = False

    def __init__(self, data: Union[Shards, Stream],
                 collate: Callable[[List[Any]], Any],
                 processes: "Optional[InProcesses]" = None):
        self._data = data
        self._collate = collate
        self._processes = processes

    def ask(self, indices: np.ndarray) -> None:
        """Nothing: it comes when it comes."""

    def read(self, epoch: int, indices: np.ndarray) -> Any:
        """The batch; the exception of the data."""
        return self._collate(self._data.read(epoch, indices))

    def close(self) -> None:
        """Ends the processes."""
        if self._processes is not None:
            self._processes.close()


class _Part(torch.utils.data.IterableDataset):
    """One of `workers` parts of a dataset, of which each process takes what it takes
    of the dataset."""

    def __init__(self, dataset: Iterable[Any], worker: int, workers: int):
        self._of = dataset, worker, workers

    def __iter__(self) -> Iterator[Any]:
        dataset, worker, workers = self._of
        return itertools.islice(iter(dataset), worker, None, workers)


# Examples that a process sends at once.
_PARCEL = 64


class InProcesses:
    """What a Stream is made of: the dataset, read ahead by so many processes, which
    are spawned as those of a Reader."""

    def __init__(self, dataset: Iterable[Any], processes: int):
        _check_process()
        self._dataset = dataset
        self._processes = processes
        self._parcels: Optional[Iterator[Any]] = None

    def __call__(self, worker: int, workers: int) -> Iterator[Any]:
        """The examples of one worker. Its processes end with them."""
        self._parcels = iter(torch.utils.data.DataLoader(
            _Part(self._dataset, worker, workers), _PARCEL, collate_fn=list,
            num_workers=self._processes, multiprocessing_context="spawn"))
        while self._parcels is not None:
            parcel = next(self._parcels, None)
            if parcel is None:
                return
            yield from parcel

    def close(self) -> None:
        """Ends the processes."""
        self._parcels = None  # PyTorch ends them with it.
