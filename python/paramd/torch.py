"""A PyTorch training loop as a worker of a job.

    import paramd.torch as ps

    worker = ps.Worker(model, optimizer={"adam": {}, "learning_rate": 1e-3})
    for epoch in worker.epochs(5):
        for x, y in epoch.batches(dataset, batch_size=64):
            loss = F.cross_entropy(model(x), y)
            worker.step(loss)

The optimizer is the servers'; the loop has none of its own.
"""

import contextlib
import ctypes
import math
import threading
from typing import (Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence,
                    Tuple)

import numpy as np
import torch
from torch.utils.data import default_collate

from paramd import _errors, _job
from paramd._ahead import InOrder, Reader, in_processes
from paramd._session import Session, Variable, Work
from paramd._sharing import Shared, may_be_lent, shareable
from paramd._staging import Staging
from paramd.data import Shards, Stream

# From a batch's parts to the rows of a parameter that the model reads for them.
Lookup = Callable[..., torch.Tensor]
Evaluate = Callable[[torch.nn.Module, Any, Any], Any]
# Of less nothing leaves before all gradients are there (paramd.h).
_LEAVING_BYTES = 1 << 20

# What is trained, and what else travels, by name.
Picked = Tuple[List[Tuple[str, torch.Tensor]], List[Tuple[str, torch.Tensor]]]


def _pick(model: torch.nn.Module) -> Picked:
    """Parameters that are trained; what else travels: frozen parameters, and those
    buffers of real numbers that state_dict has (batch norm's running statistics).
    Other buffers are this process's own."""
    saved = set(model.state_dict())
    trained: List[Tuple[str, torch.Tensor]] = []
    other: List[Tuple[str, torch.Tensor]] = []
    for name, parameter in model.named_parameters():
        (trained if parameter.requires_grad else other).append((name, parameter))
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point() and name in saved:
            other.append((name, buffer))
    return trained, other


def _has_numbers(dataset: Any) -> bool:
    return (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
            and not isinstance(dataset, torch.utils.data.IterableDataset))


def _length_of_test(dataset: Any) -> int:
    if _has_numbers(dataset):
        return len(dataset)
    raise _errors.InvalidArgument(
        "test has no length or no [i]: the chief evaluates on examples by number; "
        "give one with len() and [i], a list for instance")


def _in_order(dataset: Any, examples: Optional[int],
              processes: int) -> "Shards | Stream":
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


def _as_numpy(name: str, tensor: torch.Tensor) -> np.ndarray:
    """Its values; its own memory if they are float32 there."""
    if not tensor.is_floating_point():
        raise _errors.InvalidArgument(
            f"'{name}' is of {tensor.dtype}; servers hold float32, so it has to be "
            "of a floating type")
    try:
        values: np.ndarray = tensor.detach().to("cpu", torch.float32).numpy()
        return values
    except RuntimeError as error:
        raise _not_copied(name, tensor, error) from error


def _not_copied(name: str, tensor: torch.Tensor,
                error: RuntimeError) -> _errors.Error:
    """What PyTorch refuses to copy to or from its device: one that is gone, or
    memory that is not as it was."""
    said = str(error).partition("\n")[0]
    sentence = f"the values of '{name}' on {tensor.device} can't be copied: {said}"
    if tensor.device.type in ("cpu", "meta"):
        return _errors.InvalidArgument(sentence)
    return _errors.Unavailable(
        f"{sentence}; start the program again, on a device that works", 14)


class _Finite(torch.optim.Optimizer):
    """What a GradScaler steps in place of an optimizer, if all gradients are
    finite."""

    def __init__(self, parameters: List[torch.Tensor]):
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> bool:
        """True, which is not None."""
        return True


class Worker:
    """A worker that trains `model`.

    Its parameters and buffers become the job's variables under the names that
    state_dict has for them; the chief's values are what the job begins with.
    Before each batch the model gets the servers' weights. Which task of which
    cluster this is TF_CONFIG says; without it servers, chief and worker are all in
    this process. Nothing starts before the first batch is asked for.

    Args:
      model: on any device; parameters of any floating type, held as float32.
      optimizer: as in the job file.
      job: a job file's path, or its content; settings beat it.
      test, evaluate: a dataset, and a function of (model, x, y) that gives the mean
        loss, or (mean loss, number of labels that were met); the chief evaluates
        after epochs. Without them nothing is evaluated.
      lookups: embeddings of which only the rows travel that a batch reads: from a
        parameter's name to a function that gets the batch's parts, as the loop gets
        them, and returns the rows, integers in a tensor of any shape:
        {"users.weight": lambda user, item, y: user}. The parameter is that of an
        nn.Embedding(..., sparse=True), whose dimension divides 262,144. Rows that
        this worker did not look up last are not up to date in the model.
      missing_gradients: "zeros", or "error" if every parameter that is trained
        has to get a gradient in every batch; then nothing leaves before all have.
      insecure, tls_dir: as the flags of `paramd run`.
      settings: settings of the job file: staleness, checkpoint, run_dir and so on.
    """

    def __init__(self, model: torch.nn.Module, *, optimizer: Any = None,
                 job: _job.Job = None, test: Optional[Sequence[Any]] = None,
                 evaluate: Optional[Evaluate] = None,
                 lookups: Optional[Mapping[str, Lookup]] = None,
                 missing_gradients: str = "zeros", insecure: bool = False,
                 tls_dir: Optional[str] = None, **settings: Any):
        if (test is None) != (evaluate is None):
            raise _errors.InvalidArgument("give test and evaluate, or neither")
        if missing_gradients not in ("zeros", "error"):
            raise _errors.InvalidArgument(
                "missing_gradients is 'zeros' or 'error'; found "
                f"'{missing_gradients}'")
        self.model = model
        self._settings = dict(settings, optimizer=optimizer)
        self._job = job
        self._test = test
        self._evaluate = evaluate
        self._refuse_missing = missing_gradients == "error"
        self._insecure = insecure
        self._tls_dir = tls_dir
        self._trained, self._other = self._pick(model)
        self._all = self._trained + self._other
        if not self._trained:
            raise _errors.InvalidArgument("the model has no parameter to train")
        self._lookups = self._by_number(lookups or {})
        # Batches that are stepped next, by epoch and examples.
        self._looked_up: Dict[Tuple[int, bytes], Any] = {}
        self._batches_a_push = 1
        self._session: Optional[Session] = None
        self._given: Dict[str, Any] = {}  # What the job began with.
        self._finished = False
        self._ahead: Optional[Work] = None  # Of the epoch that comes next.
        self._test_collate: Callable[[List[Any]], Any] = default_collate
        self._has: List[bool] = []
        self._stepping = False
        self._reader: "Reader | InOrder | None" = None
        self._staging = (Staging() if any(tensor.is_cuda for _, tensor in self._all)
                         else None)
        self._lock = threading.Lock()  # Gradients come on autograd's threads.
        self._shared: Dict[int, Shared] = {}  # Parameters, by number.
        self._shapes = [parameter.shape for _, parameter in self._trained]
        # Of the batch that is stepped, by number: whose gradients are PyTorch's, and
        # those that are lent while others are computed.
        self._lendable: List[bool] = []
        self._lent: Dict[int, torch.Tensor] = {}
        self._addresses = (ctypes.c_void_p * len(self._trained))()
        by_layers = (self._staging is not None or not self._refuse_missing and sum(
            4 * parameter.numel() for _, parameter in self._trained) >= _LEAVING_BYTES)
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._hook_of(number))
            for number, (_, parameter) in enumerate(self._trained)
        ] if by_layers else []

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def epochs(self, count: Optional[int] = None) -> "Iterator[Epoch]":
        """The epochs of the job, one after the other; `count` beats the job's
        setting. Ends early when the job has finished."""
        if count is not None:
            self._settings["epochs"] = count
        number = 0
        try:
            while not self._finished:
                number += 1
                yield Epoch(self, number)
        finally:
            self.close()

    def step(self, loss: torch.Tensor, *, scaler: Any = None) -> bool:
        """Computes the gradients of the batch's mean loss, pushes them, and begins
        to pull; True. With a torch.amp.GradScaler, for float16, the loss is scaled
        and what is pushed is not, and the scaler is updated. If it finds gradients
        that are not finite the batch is left out, as skip does, and False is
        returned; nothing leaves before it has looked at all of them.

        Raises paramd.NotFinite, with nothing pushed and the batch still to
        be stepped, if loss or a gradient is NaN or infinite; paramd.PartlyPushed,
        with the job left, if gradients of the batch had left when one was found to
        be so, or when a step of it failed before. A model of less than 1 MiB is
        never partly pushed."""
        session = self._session
        if session is None:
            raise _errors.Error("step without a batch: take one of epoch.batches")
        with self._computing(session):
            work = session.held
            if work is None:
                raise _errors.Error(
                    "step without a batch: take one of epoch.batches")
            if not (isinstance(loss, torch.Tensor) and loss.numel() == 1
                    and loss.requires_grad):
                raise _errors.InvalidArgument(
                    "step takes the mean loss of the batch: a tensor of one number "
                    "that was computed from the model's parameters")
            value = float(loss.item())
            if scaler is None and not math.isfinite(value):
                raise _errors.NotFinite(
                    f"the loss is {value}; nothing of this batch was pushed", 3)
            self._has = [False] * len(self._trained)
            # What the program has put there it may write to at any time.
            self._lendable = [parameter.grad is None for _, parameter in self._trained]
            if work.scale != 1:
                loss = loss * work.scale
            if scaler is None:
                self._backward(session, work, loss)
            elif not self._scaled_backward(session, work, loss, scaler):
                self._finish_with_zeros(session, work)
                return False
            self._fill_missing(work)
            self._fill_other(work)
            session.finish(value)
            return True

    def skip(self) -> None:
        """Leaves the last batch out: its gradients are zeros. It counts as trained,
        but in no figure. Raises paramd.PartlyPushed, with the job left, if some of
        its gradients have left."""
        session = self._session
        if session is None:
            return
        with self._computing(session):
            work = session.held
            if work is None:
                return
            self._finish_with_zeros(session, work)

    def close(self) -> bool:
        """Leaves the job; whether it had finished. A batch that was not stepped is
        handed out again."""
        for hook in self._hooks:
            hook.remove()
        if self._reader is not None:
            self._reader.close()
        for shared in self._shared.values():
            shared.release()
        with self._lock:  # A hook that still runs writes to the worker's memory.
            return self._session.close() if self._session is not None else False

    # ---- below: what a subclass has otherwise

    def _pick(self, model: torch.nn.Module) -> Picked:
        return _pick(model)

    def _is_frozen(self, tensor: torch.Tensor) -> bool:
        """Of what travels and is not trained: whether it stays as it is."""
        return isinstance(tensor, torch.nn.Parameter)

    # ---- below: of Epoch and the hooks

    def _by_number(self, lookups: Mapping[str, Lookup]) -> Dict[int, Lookup]:
        numbers = {name: number for number, (name, _) in enumerate(self._trained)}
        for name in lookups:
            if name not in numbers:
                raise _errors.InvalidArgument(
                    f"lookups names '{name}', which is no parameter that is trained; "
                    f"those are {', '.join(numbers)}")
            if self._trained[numbers[name]][1].dim() != 2:
                raise _errors.InvalidArgument(
                    f"lookups names '{name}', which has no rows: it has "
                    f"{self._trained[numbers[name]][1].dim()} dimensions, not 2")
        return {numbers[name]: function for name, function in lookups.items()}

    def _begin(self, dataset: Any, batch_size: Optional[int],
               collate: Callable[[List[Any]], Any], processes: int,
               examples: Optional[int]) -> Session:
        in_order: "Shards | Stream | None" = None
        if not _has_numbers(dataset):
            in_order = _in_order(dataset, examples, processes)
        elif examples is not None:
            raise _errors.InvalidArgument(
                "examples is of a dataset without len() and [i]: this one has them")
        length = in_order.examples if in_order is not None else len(dataset)
        given = {"dataset": length, "batch_size": batch_size}
        if self._session is not None:
            for what, value in given.items():
                if value != self._given[what]:
                    raise _errors.InvalidArgument(
                        f"{what}: {value}; the job began with {self._given[what]}, "
                        "and it stays")
            return self._session
        test = _length_of_test(self._test) if self._test is not None else 0
        self._given = given
        self._reader = (Reader(dataset, collate, processes) if in_order is None
                        else InOrder(in_order, collate))
        settings = dict(self._settings)
        if batch_size is not None:
            settings["batch_size"] = batch_size
        job = _job.read(self._job, settings)
        self._batches_a_push = 1
        for times in ("accumulate", "push_every"):
            if isinstance(job.get(times), int):
                self._batches_a_push *= job[times]
        if in_order is not None:
            in_order.settings(job)
        self._session = Session(
            job, self._variables(), examples=length, test_examples=test,
            insecure=self._insecure, tls_dir=self._tls_dir)
        return self._session

    def _variables(self) -> List[Variable]:
        trained = [tensor for _, tensor in self._trained]
        self._shared = {
            number: Shared(tensor) for number, (tensor, may_be) in enumerate(zip(
                trained, shareable(trained, [*self.model.buffers(),
                                             *(t for _, t in self._other)])))
            if may_be and number not in self._lookups
            and not (self._staging and self._staging.serves(tensor))}
        return [Variable(name, _as_numpy(name, tensor),
                         untrained=number >= len(self._trained),
                         sparse=number in self._lookups,
                         computed_in=str(tensor.dtype).rpartition(".")[2],
                         memory=(self._shared[number].memory
                                 if number in self._shared else ()))
                for number, (name, tensor) in enumerate(self._all)]

    @contextlib.contextmanager
    def _computing(self, session: Session) -> Iterator[None]:
        """This thread computes the batch that is held, or another one never will."""
        try:
            with session.exclusively():
                session.compute()
                yield
        except _errors.PartlyPushed:
            self.close()
            raise

    def _finish_with_zeros(self, session: Session, work: Work) -> None:
        for gradient in work.gradients:
            gradient.fill(0)
        for _, parameter in self._trained:
            parameter.grad = None
        session.finish_without_examples()

    @contextlib.contextmanager
    def _undoing(self) -> Iterator[None]:
        """Nothing of gradients is left by an exception: the batch may be computed
        again."""
        try:
            yield
        except BaseException:
            if self._staging is not None:
                self._staging.drop()
            for (_, parameter), is_ours in zip(self._trained, self._lendable):
                if is_ours:
                    parameter.grad = None
            raise

    def _backward(self, session: Session, work: Work, loss: torch.Tensor) -> None:
        self._stepping = True
        try:
            with self._undoing():
                loss.backward()
                if not self._hooks:
                    self._take_all(session, work)
                    return
                with self._lock:
                    self._take_staged(session, work, wait=True)
        finally:
            self._stepping = False
            self._lent.clear()

    def _scaled_backward(self, session: Session, work: Work, loss: torch.Tensor,
                         scaler: Any) -> bool:
        """Whether all gradients were finite, and are written."""
        with self._undoing():
            scaler.scale(loss).backward()
            if all(tensor.grad is None for _, tensor in self._trained):
                return True  # There is nothing that a scaler could look at.
            finite = scaler.step(_Finite([tensor for _, tensor in self._trained]))
            scaler.update()
            if finite is None:
                return False
            self._take_all(session, work)
            return True

    def _take_all(self, session: Session, work: Work) -> None:
        """What backward has left."""
        with self._lock:
            lent = []
            for number, (_, parameter) in enumerate(self._trained):
                gradient = parameter.grad
                self._addresses[number] = None
                if gradient is None:
                    continue
                parameter.grad = None
                self._has[number] = True
                if self._may_lend(number, gradient, work):
                    self._addresses[number] = gradient.data_ptr()
                    lent.append(gradient)
                else:
                    self._take(number, gradient.detach(), work)
            if lent:
                session.lend_gradients(0, self._addresses, lent)
            self._take_staged(session, work, wait=True)

    def _may_lend(self, number: int, gradient: torch.Tensor, work: Work) -> bool:
        return (self._lendable[number] and number not in work.rows
                and not (self._staging and self._is_staged(number, gradient, work))
                and may_be_lent(gradient, self._shapes[number]))

    def _next(self, session: Session, epoch: int) -> Optional[Work]:
        """The next batch of this epoch; None behind its last one."""
        with session.exclusively():
            while True:
                work = self._ahead or session.next()
                self._ahead = None
                if work is None:
                    self._finished = True
                    return None
                if work.asks:
                    self._find_rows(session, work)
                    continue
                if not work.is_step:
                    self._do_evaluation(session, work)
                    continue
                if work.epoch > epoch:
                    self._ahead = work  # Of the next epoch, which begins with it.
                    return None
                return work

    def _read(self, session: Session, work: Work) -> Any:
        """The batch, with the model as it is to be computed on."""
        assert self._reader is not None
        with session.exclusively():
            batch = None
            if self._lookups:
                batch = self._looked_up.pop((work.epoch, work.indices.tobytes()), None)
            if batch is None:
                batch = self._reader.read(work.epoch, work.indices)
            while (self._reader.reads_ahead
                   and (upcoming := session.upcoming()) is not None):
                self._reader.ask(upcoming)
            self._load(work)
            return batch

    def _find_rows(self, session: Session, work: Work) -> None:
        """Says which rows the examples read. Their batch is kept: it is stepped
        next."""
        assert self._reader is not None
        if work.of_test:
            assert self._test is not None
            batch = self._test_collate([self._test[int(i)] for i in work.indices])
        else:
            batch = self._reader.read(work.epoch, work.indices)
            self._looked_up[(work.epoch, work.indices.tobytes())] = batch
            # What is never stepped is of a lease that was lost: the oldest.
            if len(self._looked_up) > 2 * self._batches_a_push:
                del self._looked_up[next(iter(self._looked_up))]
        parts = batch if isinstance(batch, (tuple, list)) else (batch,)
        for number, lookup in self._lookups.items():
            rows = torch.as_tensor(lookup(*parts)).detach()
            session.found_rows(number, rows.to("cpu", torch.int64).numpy())
        session.finish_without_examples()

    def _load(self, work: Work) -> None:
        moved = [number for number, shared in self._shared.items()
                 if not shared.show(work.weights[number])]
        for number in moved:
            del self._shared[number]  # From now on it is copied.
        # What was computed on the weights before does not go backward any more.
        for shared in self._shared.values():
            torch.autograd.graph.increment_version(shared.parameter)
        if len(self._shared) < len(self._all):
            self._copy(work)

    def _copy(self, work: Work) -> None:
        """The weights that do not lie where the model has them."""
        with torch.no_grad():
            for number, (name, tensor) in enumerate(self._all):
                if number in self._shared:
                    continue
                weights = torch.from_numpy(work.weights[number])
                try:
                    if self._staging and self._is_staged(number, tensor, work):
                        self._staging.load(number, tensor, work.weights[number])
                    elif number in work.rows:
                        rows = torch.from_numpy(work.rows[number]).to(tensor.device)
                        tensor[rows] = weights.to(tensor.device, tensor.dtype)
                    else:
                        tensor.copy_(weights)
                except RuntimeError as error:
                    raise _not_copied(name, tensor, error) from error

    def _hook_of(self, number: int) -> Callable[[torch.Tensor], None]:
        def take(parameter: torch.Tensor) -> None:
            if not self._stepping:
                return  # The program's own backward, which step adds to.
            with self._lock:
                session = self._session
                work = session.held if session is not None else None
                gradient = parameter.grad
                if session is None or work is None or gradient is None:
                    return
                parameter.grad = None
                # Where a part of the model goes backward by itself, as in
                # torch.utils.checkpoint, a gradient comes in several parts.
                adds = self._has[number]
                if adds:
                    before = self._take_back(session, number, gradient, work)
                    if before is not None:
                        gradient, adds = before + gradient, False
                self._has[number] = True
                if not adds and self._may_lend(number, gradient, work):
                    session.lend_gradients(
                        number, (ctypes.c_void_p * 1)(gradient.data_ptr()), gradient)
                    self._lent[number] = gradient
                    written = True
                else:
                    written = self._take(number, gradient.detach(), work, adds)
                if written and not self._refuse_missing:
                    session.gradient_ready(number)
                self._take_staged(session, work, wait=False)
        return take

    def _is_staged(self, number: int, tensor: torch.Tensor, work: Work) -> bool:
        return (self._staging is not None and number not in work.rows
                and tensor.layout == torch.strided and self._staging.serves(tensor))

    def _take_back(self, session: Session, number: int, gradient: torch.Tensor,
                   work: Work) -> Optional[torch.Tensor]:
        """Has the part of a gradient that came before this one not leave yet. That
        part; None if this one is to be added where it is written."""
        session.lend_gradients(number, (ctypes.c_void_p * 1)(None), None)
        before = self._lent.pop(number, None)
        if before is None and self._staging is not None:
            before = self._staging.take_back(number)
            if before is None and self._is_staged(number, gradient, work):
                before = torch.from_numpy(work.gradients[number]).to(gradient.device)
        return before

    def _take(self, number: int, gradient: torch.Tensor, work: Work,
              adds: bool = False) -> bool:
        """Whether it is written; else it is on its way from the device. `adds`: to
        what is written there."""
        try:
            if self._staging and self._is_staged(number, gradient, work):
                self._staging.take(number, gradient)
                return False
            if number in work.rows:
                self._take_rows(number, gradient, work, adds)
                return True
            if gradient.layout != torch.strided:  # Of a sparse embedding.
                gradient = gradient.to_dense()
            into = torch.from_numpy(work.gradients[number])
            if adds:
                into.add_(gradient.to(into.device))
            else:
                into.copy_(gradient)
            return True
        except RuntimeError as error:
            raise _not_copied(self._trained[number][0], gradient, error) from error

    def _take_staged(self, session: Session, work: Work, wait: bool) -> None:
        """Gradients that have come from the device; `wait`: all."""
        if self._staging is None:
            return
        for number, gradient in self._staging.taken(wait):
            torch.from_numpy(work.gradients[number]).copy_(gradient)
            if not self._refuse_missing:
                session.gradient_ready(number)

    def _take_rows(self, number: int, gradient: torch.Tensor, work: Work,
                   adds: bool) -> None:
        """The gradient of those rows that were looked up."""
        name = self._trained[number][0]
        if gradient.layout == torch.strided:
            raise _errors.InvalidArgument(
                f"lookups names '{name}', whose gradient is of all its rows: it has "
                "to be the weight of an nn.Embedding(..., sparse=True) alone")
        gradient = gradient.coalesce()
        rows = gradient.indices()[0].to("cpu").numpy()
        places = np.searchsorted(work.rows[number], rows)
        known = np.append(work.rows[number], -1)[places] == rows
        if not known.all():
            raise _errors.InvalidArgument(
                f"the model reads row {rows[~known][0]} of '{name}', which lookups "
                "did not name for this batch")
        if not adds:
            work.gradients[number].fill(0)
        work.gradients[number][places] += gradient.values().to(  # Each row once.
            "cpu", torch.float32).numpy()

    def _fill_missing(self, work: Work) -> None:
        for number, (name, _) in enumerate(self._trained):
            if self._has[number]:
                continue
            if self._refuse_missing:
                raise _errors.InvalidArgument(
                    f"parameter '{name}' got no gradient; nothing of this batch "
                    "was pushed")
            work.gradients[number].fill(0)

    def _fill_other(self, work: Work) -> None:
        """What is subtracted from a running statistic to make it what it is now;
        of a frozen parameter nothing."""
        for number, (name, tensor) in enumerate(self._other, len(self._trained)):
            gradient = work.gradients[number]
            if self._is_frozen(tensor):
                gradient.fill(0)
                continue
            np.subtract(work.weights[number], _as_numpy(name, tensor), out=gradient)
            if work.scale != 1:
                gradient *= work.scale

    def _do_evaluation(self, session: Session, work: Work) -> None:
        assert self._test is not None and self._evaluate is not None
        batch = self._test_collate([self._test[int(i)] for i in work.indices])
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                self._load(work)
                said = self._evaluate(self.model, *batch)
        finally:
            self.model.train(training)
        if isinstance(said, tuple):
            session.finish(float(said[0]), int(said[1]), len(work.indices))
        else:
            session.finish(float(said))


class Epoch:
    """One pass over the training data, as far as this worker gets of it."""

    def __init__(self, worker: Worker, number: int):
        self.number = number  # From 1.
        self._worker = worker

    def batches(self, dataset: Any, batch_size: Optional[int] = None,
                collate_fn: Callable[[List[Any]], Any] = default_collate,
                num_workers: int = 0,
                examples: Optional[int] = None) -> Iterator[Any]:
        """The batches of this epoch that this worker gets, each as collate_fn makes
        it of dataset[i]; over all workers each example comes once. Every batch is
        stepped or skipped before the next one is taken.

        Args:
          dataset: with len() and [i], the same in every process of the job, or a
            paramd.Shards. Or a paramd.Stream, an IterableDataset or whatever else a
            Stream is made of, of which each worker reads its own examples and the
            cluster counts them. Or a DataLoader, of which dataset, batch_size,
            collate_fn and num_workers are taken; in which order examples come is
            the cluster's.
          batch_size: examples in a batch; the job's setting if it is left out.
          num_workers: processes that read batches ahead, as a DataLoader's; 0: they
            are read here.
          examples: of an IterableDataset and its like, how many make up an epoch
            over all workers; its len(), if it has one, unless it is given.
        """
        if isinstance(dataset, torch.utils.data.DataLoader):
            loader = dataset
            dataset, collate_fn = loader.dataset, loader.collate_fn
            batch_size = batch_size or loader.batch_size
            num_workers = num_workers or loader.num_workers
        worker = self._worker
        worker._test_collate = collate_fn
        session = worker._begin(dataset, batch_size, collate_fn, num_workers,
                                examples)
        while True:
            work = worker._next(session, self.number)
            if work is None:
                return
            yield worker._read(session, work)
