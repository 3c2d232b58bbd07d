"""What epoch.batches was given to read."""

from typing import Any, Callable, List, NamedTuple, Optional, Union

import torch

from paramd import _errors
from paramd._ahead import InOrder, Reader, in_processes
from paramd.data import Shards, Stream

Collate = Callable[[List[Any]], Any]


def has_numbers(dataset: Any) -> bool:
    """Whether its examples are dataset[i]."""
    return (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
            and not isinstance(dataset, torch.utils.data.IterableDataset))


class Source(NamedTuple):
    """A dataset, and how it is read.

    Attributes:
      in_order: what hands out the examples of a dataset without numbers.
      examples: how many make up an epoch.
    """
    dataset: Any
    collate: Collate
    processes: int
    batch_size: Optional[int]
    in_order: Union[Shards, Stream, None]
    examples: int

    def open(self) -> Union[Reader, InOrder]:
        """What reads it."""
        if self.in_order is not None:
            return InOrder(self.in_order, self.collate)
        return Reader(self.dataset, self.collate, self.processes)


def source_of(dataset: Any, batch_size: Optional[int], collate: Collate,
              processes: int, examples: Optional[int]) -> Source:
    """Of the arguments of epoch.batches. InvalidArgument for what can't be read, or
    not as it says."""
    if isinstance(dataset, torch.utils.data.DataLoader):
        loader = dataset
        dataset, collate = loader.dataset, loader.collate_fn
        batch_size = batch_size or loader.batch_size
        processes = processes or loader.num_workers
    if not has_numbers(dataset):
        in_order = _in_order(dataset, examples, processes)
        return Source(dataset, collate, processes, batch_size, in_order,
                      in_order.examples)
    if examples is not None:
        raise _errors.InvalidArgument(
            "examples is of a dataset without len() and [i]: this one has them")
    return Source(dataset, collate, processes, batch_size, None, len(dataset))


def _in_order(dataset: Any, examples: Optional[int],
              processes: int) -> Union[Shards, Stream]:
    """A dataset without numbers as what hands its examples out."""
    if isinstance(dataset, (Shards, Stream)):
        if examples is not None or processes > 0:
            raise _errors.InvalidArgument(
                f"a paramd.{type(dataset).__name__} knows how many examples it has, "
                "and is read in this process: leave examples and num_workers out")
        return dataset
    if examples is None:
        try:
            examples = len(dataset)
        except TypeError:
            raise _errors.InvalidArgument(
                "the dataset has no length or no [i], an IterableDataset for "
                "instance: say with examples= how many of them make up an epoch, or "
                "give a paramd.Shards") from None
    stream = Stream(dataset, examples=examples)
    if processes == 0:
        return stream
    if not hasattr(dataset, "__iter__"):
        raise _errors.InvalidArgument(
            "what a function makes is read in this process: leave num_workers out, "
            "or give something to iterate over")
    return Stream(in_processes(dataset, processes), examples=examples)
