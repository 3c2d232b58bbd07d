"""Batches of a dataset, read ahead by processes of their own."""

import concurrent.futures
import itertools
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Union

import numpy as np
import torch
from torch.utils.data import TensorDataset, default_collate

from paramd.data import Shards, Stream

# Batches that are asked for and not taken, at most: those of a portion that was
# lost are never taken.
_MOST = 32

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


def _begin(dataset: Any, collate: Callable[[List[Any]], Any]) -> None:
    """In each process, once."""
    global _dataset, _collate
    torch.set_num_threads(1)
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
            self._pool = concurrent.futures.ProcessPoolExecutor(
                processes, mp_context=torch.multiprocessing.get_context("spawn"),
                initializer=_begin, initargs=(dataset, collate))

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
        self._asked[indices.tobytes()] = self._pool.submit(_read, indices)

    def read(self, epoch: int, indices: np.ndarray) -> Any:
        """The batch; the exception of the dataset."""
        del epoch
        asked = self._asked.pop(indices.tobytes(), None)
        if asked is not None:
            return asked.result()
        if self._pool is not None:
            return self._pool.submit(_read, indices).result()
        return _read_examples(self._dataset, self._collate, indices)

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class InOrder:
    """Reads batches of what has no numbers, as a Reader."""

    reads_ahead = False

    def __init__(self, data: Union[Shards, Stream],
                 collate: Callable[[List[Any]], Any]):
        self._data = data
        self._collate = collate

    def ask(self, indices: np.ndarray) -> None:
        """Nothing: it comes when it comes."""

    def read(self, epoch: int, indices: np.ndarray) -> Any:
        """The batch; the exception of the data."""
        return self._collate(self._data.read(epoch, indices))

    def close(self) -> None:
        """Nothing is open that would stay."""


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


def in_processes(dataset: Iterable[Any],
                 processes: int) -> Callable[[int, int], Iterator[Any]]:
    """What a Stream is made of: the dataset, read ahead by so many processes, which
    are spawned as those of a Reader."""
    def begin(worker: int, workers: int) -> Iterator[Any]:
        return itertools.chain.from_iterable(torch.utils.data.DataLoader(
            _Part(dataset, worker, workers), _PARCEL, collate_fn=list,
            num_workers=processes, multiprocessing_context="spawn"))
    return begin
