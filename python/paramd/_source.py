"""What epoch.batches was given to read."""

from typing import Any, Callable, List, NamedTuple, Optional, Union

import torch
from torch.utils.data import default_collate

from paramd import _errors
from paramd._ahead import InOrder, InProcesses, Reader
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

    @property
    def origin(self) -> Any:
        """What it is known by from epoch to epoch."""
        return (self.dataset._source if isinstance(self.dataset, Stream)
                else self.dataset)

    def open(self) -> Union[Reader, InOrder]:
        """What reads it."""
        if self.in_order is not None:
            source = getattr(self.in_order, "_source", None)
            return InOrder(self.in_order, self.collate,
                           source if isinstance(source, InProcesses) else None)
        return Reader(self.dataset, self.collate, self.processes)


def source_of(dataset: Any, batch_size: Optional[int], collate: Collate,
              processes: int, examples: Optional[int]) -> Source:
    """Of the arguments of epoch.batches. InvalidArgument for what can't be read, or
    not as it says."""
    if isinstance(dataset, torch.utils.data.DataLoader):
        loader = dataset
        _refuse_dropped(loader)
        dataset = loader.dataset
        collate = loader.collate_fn if collate is default_collate else collate
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


def _refuse_dropped(loader: Any) -> None:
    """InvalidArgument for what a DataLoader was told and the cluster would not do."""
    if loader.batch_size is None:
        what = ("batch_size=None" if loader.batch_sampler is None
                else f"batch_sampler={type(loader.batch_sampler).__name__}")
        raise _errors.InvalidArgument(
            f"the DataLoader has {what}: which examples are in a batch is the "
            "cluster's; leave it out and give batch_size")
    if loader.drop_last:
        raise _errors.InvalidArgument(
            "the DataLoader has drop_last=True: each example comes once an epoch, and "
            "a last batch may be smaller; leave it out, or give a dataset whose "
            "length the batch size divides (torch.utils.data.Subset)")
    if loader.worker_init_fn is not None:
        raise _errors.InvalidArgument(
            "the DataLoader has a worker_init_fn, which is not called: leave it out, "
            "and begin in the dataset what each process needs")
    if not isinstance(loader.dataset, torch.utils.data.IterableDataset):
        _refuse_sampler(loader)


def _refuse_sampler(loader: Any) -> None:
    data = torch.utils.data
    sampler = loader.sampler
    if type(sampler) in (data.SequentialSampler, data.DistributedSampler) or (
            type(sampler) is data.RandomSampler and not sampler.replacement
            and sampler.num_samples == len(loader.dataset)):
        return
    raise _errors.InvalidArgument(
        f"the DataLoader has sampler={type(sampler).__name__}: each example of the "
        "dataset comes once an epoch, in an order that is the cluster's; leave it "
        "out, and give the part to train on (torch.utils.data.Subset)")


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
    return Stream(InProcesses(dataset, processes), examples=examples)
