"""Training data of which the examples have no numbers: shards, and streams."""

import bisect
import itertools
import random
from typing import (Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional,
                    Sequence, Tuple, Union)

import numpy as np

from paramd._errors import InvalidArgument
from paramd.tf_config import TFConfig

# Numbers in their order. Without stages a job shuffles them.
_IN_ORDER = {"train": "indices", "stages": [{"prefetch": 4}]}


class _Place(NamedTuple):
    """Up to where a shard is read in which epoch."""
    epoch: int
    shard: int
    begin: int


class Shards:
    """Examples in shards, files for instance, that are read from their beginning.

        shards = paramd.Shards(paths, read, examples=counts)
        for x, y in epoch.batches(shards, batch_size=64):

    The cluster leases runs of examples about as long as a shard (portion_batches
    beats that), so a shard is read by one worker, or by two where a run ends in it:
    the second one reads what comes before and drops it. Each example comes once an
    epoch, as long as no worker dies: the runs of one that does, two at most, are
    handed out again from their beginning, as of any data set.

    Args:
      shards: what `read` is given, one after the other: paths, say. The same list
        in every process.
      read: a function of a shard that gives its examples, the same ones in the same
        order each time.
      examples: how many each shard has. Without it each process reads all shards
        once to count them; `counts` has what was found.
      shuffle: whether shards come in another order in each epoch. Examples of a
        shard stay in theirs.
      seed: what orders are drawn from.
      seeks: whether `read` takes a second argument, the number of the example to
        begin at, and then begins there sooner than by reading up to it.

    Raises InvalidArgument if there are no examples, and, while it is read, for a
    shard that has fewer or more examples than was said.
    """

    def __init__(self, shards: Sequence[Any], read: Callable[..., Iterable[Any]], *,
                 examples: Optional[Sequence[int]] = None, shuffle: bool = True,
                 seed: int = 0, seeks: bool = False):
        self._shards = list(shards)
        self._read = read
        self._shuffle = shuffle
        self._seed = seed
        self._seeks = seeks
        self.counts: List[int] = (
            [int(count) for count in examples] if examples is not None
            else [sum(1 for _ in self._open(shard, 0))
                  for shard in range(len(self._shards))])
        if len(self.counts) != len(self._shards):
            raise InvalidArgument(
                f"examples has {len(self.counts)} numbers; there are "
                f"{len(self._shards)} shards")
        if min(self.counts, default=0) < 0 or sum(self.counts) == 0:
            raise InvalidArgument("the shards have no examples")
        self._order: Tuple[int, List[int], List[int]] = (0, [], [])
        self._place = _Place(0, 0, 0)
        self._iterator: Iterator[Any] = iter(())

    @property
    def examples(self) -> int:
        """How many make up an epoch."""
        return sum(self.counts)

    def read(self, epoch: int, numbers: np.ndarray) -> List[Any]:
        """These examples of the order of an epoch, which counts from 1."""
        begin, end = int(numbers[0]), int(numbers[-1]) + 1
        if end - begin != len(numbers) or (np.diff(numbers) != 1).any():
            raise InvalidArgument(
                "shards are read in order, but the job's input has stages that "
                "change it: leave `input` out, or give it stages without shuffle")
        order, ends = self._order_of(epoch)
        found: List[Any] = []
        while begin < end:
            which = bisect.bisect_right(ends, begin)
            shard = order[which]
            first = ends[which] - self.counts[shard]
            upto = min(end, ends[which])
            found += self._take(_Place(epoch, shard, begin - first), upto - begin)
            begin = upto
        return found

    def settings(self, job: Dict[str, Any]) -> None:
        """What a job needs for them, unless it says otherwise."""
        job.setdefault("input", _IN_ORDER)
        a_push = 1
        for name, default in (("batch_per_replica", 32), ("accumulate", 1),
                              ("push_every", 1), ("replicas", 1)):
            times = job.get(name, default)
            if not isinstance(times, int) or times < 1:
                return  # The job is refused, with a sentence about it.
            a_push *= times
        mean = self.examples / sum(count > 0 for count in self.counts)
        job.setdefault("portion_batches", min(max(1, round(mean / a_push)), 1 << 20))

    def _order_of(self, epoch: int) -> Tuple[List[int], List[int]]:
        """Of an epoch: shards, and where each of them ends."""
        if self._order[0] != epoch:
            order = list(range(len(self._shards)))
            if self._shuffle:
                random.Random(f"{self._seed}/{epoch}").shuffle(order)
            ends = list(itertools.accumulate(self.counts[s] for s in order))
            self._order = epoch, order, ends
        return self._order[1:]

    def _open(self, shard: int, begin: int) -> Iterator[Any]:
        """Its examples from this one on."""
        if self._seeks:
            return iter(self._read(self._shards[shard], begin))
        return itertools.islice(iter(self._read(self._shards[shard])), begin, None)

    def _take(self, place: _Place, count: int) -> List[Any]:
        at = self._place
        if at[:2] != place[:2] or at.begin > place.begin:
            self._iterator = self._open(place.shard, place.begin)
        elif at.begin < place.begin:  # What comes between is somebody else's.
            skipped = place.begin - at.begin
            next(itertools.islice(self._iterator, skipped, skipped), None)
        self._place = _Place(0, 0, 0)  # Should it raise.
        found = list(itertools.islice(self._iterator, count))
        end = place.begin + count
        if len(found) < count:
            raise self._miscounted(place.shard, "fewer")
        if end == self.counts[place.shard] and next(self._iterator, self) is not self:
            raise self._miscounted(place.shard, "more")
        self._place = place._replace(begin=end)
        return found

    def _miscounted(self, shard: int, found: str) -> InvalidArgument:
        return InvalidArgument(
            f"shard {self._shards[shard]!r} has {found} than the "
            f"{self.counts[shard]} examples that were said")


class Stream:
    """Examples of which each worker reads its own, in the order in which they come.

        for x, y in epoch.batches(paramd.Stream(source, examples=100_000), 64):

    The cluster counts the examples of an epoch and says who takes the next batch;
    which examples are in it is the stream's. A stream that ends begins again. A
    worker that is started again reads its stream from the beginning; what a dead
    worker had read and not pushed is not read again, but as many others are.

    Args:
      source: something to iterate over, again and again, that is the same in every
        process: of n workers number i reads the examples i, i + n, i + 2n and so
        on. Or a function of (i, n) that gives what worker i reads.
      examples: how many make up an epoch, over all workers.

    Raises InvalidArgument for an iterator, which can't begin again, and, while it
    is read, if there is nothing in it.
    """

    def __init__(self, source: Union[Iterable[Any], Callable[[int, int], Iterable[Any]]],
                 *, examples: int):
        if isinstance(source, Iterator):
            raise InvalidArgument(
                "an iterator can't begin again when it ends: give what it was made "
                "of, or a function of (worker, workers) that makes one")
        if not callable(source) and not hasattr(source, "__iter__"):
            raise InvalidArgument(
                f"{type(source).__name__} can't be iterated over, and is no function "
                "of (worker, workers)")
        if examples < 1:
            raise InvalidArgument(f"examples: wants a number above 0; found {examples}")
        self.examples = int(examples)
        self._source = source
        self._iterator: Iterator[Any] = iter(())

    def read(self, epoch: int, numbers: np.ndarray) -> List[Any]:
        """So many examples. Which epoch it is does not matter."""
        del epoch
        found: List[Any] = []
        while len(found) < len(numbers):
            before = len(found)
            found += itertools.islice(self._iterator, len(numbers) - before)
            if len(found) == before:
                self._iterator = self._begin()
                found += itertools.islice(self._iterator, 1)
                if len(found) == before:
                    raise InvalidArgument("there is no example in this worker's stream")
        return found

    def settings(self, job: Dict[str, Any]) -> None:
        """What a job needs for it, unless it says otherwise: nothing."""

    def _begin(self) -> Iterator[Any]:
        worker, workers = place()
        if callable(self._source) and not hasattr(self._source, "__iter__"):
            return iter(self._source(worker, workers))
        assert isinstance(self._source, Iterable)
        return itertools.islice(iter(self._source), worker, None, workers)


def place() -> Tuple[int, int]:
    """Which worker this is, and of how many, as TF_CONFIG says; a chief is one."""
    config = TFConfig.from_environment()
    chiefs, workers = (len(config.cluster.get(job, ())) for job in ("chief", "worker"))
    index = config.task_index + (chiefs if config.task_type == "worker" else 0)
    return index, max(chiefs + workers, index + 1)
