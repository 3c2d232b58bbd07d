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
import math
import os
import threading
import warnings
import weakref
from typing import (Any, Callable, Dict, Iterable, Iterator, List, Mapping,
                    Optional, Sequence, Set, Tuple, Union)

import torch
from torch.utils.data import default_collate

from paramd import _errors, _job
from paramd._ahead import InOrder, Reader
from paramd._gradients import Gradients
from paramd._optimizers import with_defaults
from paramd._session import Session, Work, find_saved
from paramd._source import Collate, Source, has_numbers, source_of
from paramd._stages import MICRO_BATCHES, SCHEDULE, Cut, Loss, Stages, in_stages
from paramd._staging import Staging
from paramd._weights import Picked, Weights, assign, describe, pick
from paramd.checkpoint import load as _load

# From a batch's parts to the rows of a parameter that the model reads for them.
Lookup = Callable[..., torch.Tensor]
Evaluate = Callable[..., Any]
# What a step is of: a module of the model, or parameters.
Part = Union[torch.nn.Module, Iterable[torch.nn.Parameter]]


def _length_of_test(dataset: Any) -> int:
    if has_numbers(dataset):
        return len(dataset)
    raise _errors.InvalidArgument(
        "test has no length or no [i]: the chief evaluates on examples by number; "
        "give one with len() and [i], a list for instance")


def _staging_of(picked: Picked) -> Optional[Staging]:
    """What copies to and from a GPU, if something lies on one."""
    return Staging() if any(tensor.is_cuda for _, tensor in picked.tensors) else None


@contextlib.contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """The model in evaluation mode; after it each module is in its own again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _parts(batch: Any) -> Sequence[Any]:
    """What functions of a batch's parts get: a dictionary, or a tensor, is one."""
    return batch if isinstance(batch, (tuple, list)) else (batch,)


# Workers whose job has begun and that were not closed.
_working: "weakref.WeakSet[Worker]" = weakref.WeakSet()
_working_lock = threading.Lock()


class Worker:
    """A worker that trains `model`.

    Its parameters and buffers become the job's variables under the names that
    state_dict has for them; the chief's values are what the job begins with.
    Before each batch the model gets the servers' weights. Which task of which
    cluster this is TF_CONFIG says; without it servers, chief and worker are all in
    this process. Nothing starts before the first batch is asked for; a worker that
    still has this model then, of a notebook's cell that was run before, is closed.

    Args:
      model: on any device; parameters of any floating type, held as float32.
      optimizer: as in the job file, but what sgd, adam, adamw, adagrad, adadelta and
        rmsprop do not say is as in PyTorch's optimizer of this name, learning_rate
        and what weight_decay does included: {"adam": {}} is torch.optim.Adam. That
        of a job file has the job file's defaults.
      job: a job file's path, or its content; settings beat it.
      test, evaluate: a dataset, and a function of (model, x, y) that gives the mean
        loss, or (mean loss, number of labels that were met); of (model, batch) if a
        batch is no tuple or list. The chief evaluates after epochs, each module in
        evaluation mode. Without them nothing is evaluated.
      test_collate_fn: makes a batch of test's examples; that of epoch.batches may
        be for training alone.
      lookups: embeddings of which only the rows travel that a batch reads: from a
        parameter's name to a function that gets the batch's parts, as the loop gets
        them, and returns the rows, integers in a tensor of any shape:
        {"users.weight": lambda user, item, y: user}. The parameter is that of an
        nn.Embedding(..., sparse=True), of at most 262,144 dimensions. Rows that
        this worker did not look up last are not up to date in the model.
      missing_gradients: "zeros", or "error" if every parameter that is trained
        has to get a gradient in every batch; then nothing leaves before all have.
      clip_grad_norm: the norm of all gradients of a batch together is at most so
        much, as torch.nn.utils.clip_grad_norm_ has it, over all parameters; then
        nothing leaves before all are there. The optimizer's clip_norm is the
        servers', block by block.
      stages: for step_stages, in place of the model the modules that compute one
        after the other, each on a device of its own if you like, and each handing
        one tensor on to the next. Or of a model that is an nn.Sequential into how
        many stages of about equally many layers it is cut, or the numbers of the
        layers that the second stage and those after it begin with. What shares a
        parameter is in one stage.
      micro_batches: into how many a batch is cut for the stages; if it can't be
        divided the last one is short, and a batch of fewer examples has fewer.
      schedule: what a stage computes when: 1f1b, gpipe, interleaved, naive or
        zero_bubble. The gradients have the same bits.
      stages_per_device: of the schedule interleaved, how many a device has, at
        least 2; stage s is on device s modulo their number.
      insecure, tls_dir: as the flags of `paramd run`.
      settings: settings of the job file: staleness, checkpoint, run_dir and so on.
    """

    def __init__(self, model: Optional[torch.nn.Module] = None, *,
                 optimizer: Any = None,
                 job: _job.Job = None, test: Optional[Sequence[Any]] = None,
                 evaluate: Optional[Evaluate] = None,
                 test_collate_fn: Collate = default_collate,
                 lookups: Optional[Mapping[str, Lookup]] = None,
                 missing_gradients: str = "zeros",
                 clip_grad_norm: Optional[float] = None,
                 stages: Optional[Cut] = None, micro_batches: int = MICRO_BATCHES,
                 schedule: str = SCHEDULE, stages_per_device: int = 1,
                 insecure: bool = False, tls_dir: Optional[str] = None,
                 **settings: Any):
        if clip_grad_norm is not None and not 0 < clip_grad_norm < math.inf:
            raise _errors.InvalidArgument(
                "clip_grad_norm is a number above 0, or None to clip nothing; found "
                f"{clip_grad_norm}")
        if (test is None) != (evaluate is None):
            raise _errors.InvalidArgument("give test and evaluate, or neither")
        if missing_gradients not in ("zeros", "error"):
            raise _errors.InvalidArgument(
                "missing_gradients is 'zeros' or 'error'; found "
                f"'{missing_gradients}'")
        self._stages: Optional[Stages] = None
        if stages is not None:
            model, cut = self._in_stages(model, stages)
            self._stages = Stages(cut, micro_batches, schedule, stages_per_device)
        elif (micro_batches, schedule, stages_per_device) != (
                MICRO_BATCHES, SCHEDULE, 1):
            raise _errors.InvalidArgument(
                "micro_batches, schedule and stages_per_device are for stages: give "
                "stages=, too")
        elif model is None:
            raise _errors.InvalidArgument(
                "give a model, or its stages: stages=[first, second, ...]")
        self.model = model
        self._settings = dict(settings, optimizer=self._complete(optimizer))
        self._job = job
        self._test = test
        self._evaluate = evaluate
        self._test_collate = test_collate_fn
        self._refuse_missing = missing_gradients == "error"
        self._clip_norm = float(clip_grad_norm or 0)
        self._insecure = insecure
        self._tls_dir = tls_dir
        self._wanted_lookups = dict(lookups or {})
        # Again when the job begins: until then the model may change.
        self._picked = self._pick_trained()
        self._lookups = self._by_number()
        # Batches that are stepped next, by epoch and examples.
        self._looked_up: Dict[Tuple[int, bytes], Any] = {}
        self._batches_a_push = 1
        # Of the job, once it has begun.
        self._session: Optional[Session] = None
        self._weights: Optional[Weights] = None
        self._gradients: Optional[Gradients] = None
        self._source: Optional[Source] = None
        self._reader: "Reader | InOrder | None" = None
        self._finished = False
        self._has_begun = False  # A batch has come, of the first epoch.
        self._ahead: Optional[Work] = None  # Of the epoch that comes next.

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def epochs(self, count: Optional[int] = None) -> "Iterator[Epoch]":
        """The epochs of the job, one after the other; `count` beats the job's
        setting. Of a run that goes on the model gets the weights of its newest
        checkpoint, and the first epoch is the one that it goes on in; if all are
        trained already there is none, and a warning says so. Ends when the job has
        finished; the model then has the weights of the last checkpoint. Error if
        the loop goes on to another epoch before it has taken all batches."""
        if count is not None:
            self._settings["epochs"] = count
        try:
            number = self._go_on_with_run()
            while not self._finished:
                epoch = Epoch(self, number)
                yield epoch
                self._end(epoch)
                # Others may have trained all of some.
                number = (self._ahead.epoch if self._ahead is not None
                          else epoch.number + 1)
        finally:
            self.close()

    def step(self, loss: "torch.Tensor | float", *, only: Optional[Part] = None,
             scaler: Any = None, backward: bool = True) -> bool:
        """Computes the gradients of the batch's mean loss, pushes them, and begins
        to pull; True. With a torch.amp.GradScaler, for float16, the loss is scaled
        and what is pushed is not, and the scaler is updated. If it finds gradients
        that are not finite the batch is left out, as skip does, and False is
        returned; nothing leaves before it has looked at all of them.

        With backward=False the loop has called loss.backward() itself and may have
        changed what it left in `grad`, gradients of the batch's mean loss: they are
        pushed as they are, and `grad` is None then. The loss is for the figures.

        With only=, a module of the model or some of its parameters, the batch is a
        step of these: of the others nothing changes, momenta, moments, decay and
        the steps that their optimizer counts included, and their `grad` is None
        then. Running statistics are what the loop's forward passes have made of
        them, as ever. So two models of one job are trained in turn, each on its own
        batches. Under one_device and parameter_server, where a push is of one batch
        (no accumulate, push_every or replicas), without the optimizer's
        clip_global_norm; clip_grad_norm= is then of these alone. Parameters of
        lookups= can't be left out.

        Raises paramd.NotFinite, with nothing pushed and the batch still to
        be stepped, if loss or a gradient is NaN or infinite; paramd.PartlyPushed,
        with the job left, if gradients of the batch had left when one was found to
        be so, or when a step of it failed before. A model of less than 1 MiB is
        never partly pushed."""
        with self._computing("step") as (session, work):
            assert self._weights is not None and self._gradients is not None
            numbers = None if only is None else self._numbers_of(only)
            if not backward:
                return self._step_computed(session, work, loss, scaler, numbers)
            if not (isinstance(loss, torch.Tensor) and loss.numel() == 1
                    and loss.requires_grad):
                raise _errors.InvalidArgument(
                    "step takes the mean loss of the batch: a tensor of one number "
                    "that was computed from the model's parameters")
            value = float(loss.item())
            if scaler is None and not math.isfinite(value):
                raise _errors.NotFinite(
                    f"the loss is {value}; nothing of this batch was pushed", 3)
            if not self._gradients.compute(work, loss, scaler, numbers):
                self._finish_with_zeros(session, work)
                return False
            self._weights.fill_other(work)
            session.finish(value)
            return True

    def step_stages(self, loss: Loss, inputs: Any, targets: Any) -> float:
        """A step of a model in stages, which computes them itself: returns the
        batch's mean loss. `inputs` is a tensor with an example in each row, or a
        tuple of several, which the first stage takes; of the last stage's output and
        of the targets, given likewise, `loss` makes the mean loss of a micro-batch.

            worker = ps.Worker(stages=[first, second, third], micro_batches=8)
            ...
            worker.step_stages(F.cross_entropy, x, y)

        The gradients are, to the bit, what a loop over the micro-batches leaves in
        `grad` that calls backward for the share of each in the mean loss, without
        stages and in their order; where something draws random numbers, dropout for
        one, it is the same in law alone. Batch norm normalises by micro-batch, and
        its running statistics move once in each. What was in `grad` before is
        dropped. Raises as step(loss, backward=False) does, and InvalidArgument, with
        nothing pushed and the batch still to be stepped, if the batch can't be cut or
        a stage does not take what the one before it gives."""
        with self._computing("step_stages") as (session, work):
            if self._stages is None:
                raise _errors.InvalidArgument(
                    "step_stages is of a worker with stages: give Worker stages=, or "
                    "call step(loss)")
            mean = self._stages.compute(loss, inputs, targets)
            self._step_computed(session, work, mean, None, None)
            return mean

    # A subclass whose models can't be cut refuses.
    _in_stages = staticmethod(in_stages)

    def _numbers_of(self, only: Part) -> Set[int]:
        """Of the parameters that a batch is a step of."""
        parameters = list(only.parameters() if isinstance(only, torch.nn.Module)
                          else only)
        numbers = {id(tensor): number
                   for number, (_, tensor) in enumerate(self._picked.trained)}
        found = {numbers[id(parameter)] for parameter in parameters
                 if id(parameter) in numbers}
        if not found or any(
                id(parameter) not in numbers and parameter.requires_grad
                for parameter in parameters):
            raise _errors.InvalidArgument(
                "only= is a module of the worker's model, or parameters of it that "
                "are trained, of which there are "
                f"{', '.join(name for name, _ in self._picked.trained)}; nothing of "
                "this batch was pushed")
        return found

    def _step_computed(self, session: Session, work: Work, loss: Any,
                       scaler: Any, only: Optional[Set[int]]) -> bool:
        """Of gradients that the loop has computed."""
        assert self._weights is not None and self._gradients is not None
        if scaler is not None:
            raise _errors.InvalidArgument(
                "with backward=False gradients are pushed as they are: give step no "
                "scaler, and divide them by its scale")
        try:
            value = float(loss)
        except (TypeError, ValueError, RuntimeError) as error:
            raise _errors.InvalidArgument(
                "step takes the mean loss of the batch, one number") from error
        self._gradients.take_computed(work, only)
        self._weights.fill_other(work)
        session.finish(value)
        return True

    def skip(self) -> None:
        """Leaves the last batch out: no weight and no momentum changes. It counts as
        trained, but in no figure. Raises paramd.PartlyPushed, with the job left, if
        some of its gradients have left."""
        with self._computing("skip") as (session, work):
            self._finish_with_zeros(session, work)

    def set(self, *, learning_rate_scale: float) -> None:
        """Every learning rate of the servers is multiplied by so much from now on,
        until it is set again; a run that goes on keeps it. The chief's alone;
        gradients that are on their way may be applied with the rate before. Nothing
        once the job is over. Error in another worker or before the first batch,
        InvalidArgument for what is no number from 0 to 1000000, Unavailable if not
        all servers have it within a minute."""
        if self._session is None:
            raise _errors.Error("set before the job has begun: take a batch first, or "
                                "give the optimizer another learning_rate")
        self._session.set_rate_scale(learning_rate_scale)

    def close(self) -> bool:
        """Leaves the job; whether it had finished. A batch that was not stepped is
        handed out again."""
        had_finished = False
        if self._session is not None:
            assert self._gradients is not None
            # A hook that runs writes to the worker's memory. While another thread
            # steps this is refused, and nothing below may be taken from it.
            with self._gradients.lock:
                had_finished = self._session.close()
            self._gradients.close()
        with _working_lock:
            _working.discard(self)
        if self._reader is not None:
            self._reader.close()
        if self._weights is not None:
            self._weights.release()
        return had_finished

    # ---- below: what a subclass has otherwise

    _complete = staticmethod(with_defaults)

    def _pick(self, model: torch.nn.Module) -> Picked:
        return pick(model)

    # ---- below: of Epoch

    def _pick_trained(self) -> Picked:
        picked = self._pick(self.model)
        if not picked.trained:
            raise _errors.InvalidArgument("the model has no parameter to train")
        return picked

    def _go_on_with_run(self) -> int:
        """The epoch that the job begins with, as far as its run says, with the model
        as it is saved there. If all is trained the job is over after this."""
        if self._session is not None:
            return 1
        self._picked = self._pick_trained()
        self._lookups = self._by_number()
        saved = find_saved(_job.read(self._job, self._settings),
                           describe(self._picked, self._lookups))
        if saved is None:
            return 1
        saved.say_if_over()
        self._have_model_alone()
        assign(self._picked, saved.weights)
        if saved.is_over:
            session = self._start(None)
            if self._next(session, Epoch(self, saved.epoch)) is not None:
                raise _errors.Error(
                    f"the job goes on, though '{saved.checkpoint}' has all of it: "
                    "another process has removed it meanwhile")
        return saved.epoch

    def _by_number(self) -> Dict[int, Lookup]:
        """The lookups, by number of the parameter."""
        trained = self._picked.trained
        numbers = {name: number for number, (name, _) in enumerate(trained)}
        for name in self._wanted_lookups:
            if name not in numbers:
                raise _errors.InvalidArgument(
                    f"lookups names '{name}', which is no parameter that is trained; "
                    f"those are {', '.join(numbers)}")
            if trained[numbers[name]][1].dim() != 2:
                raise _errors.InvalidArgument(
                    f"lookups names '{name}', which has no rows: it has "
                    f"{trained[numbers[name]][1].dim()} dimensions, not 2")
        return {numbers[name]: function
                for name, function in self._wanted_lookups.items()}

    def _begin(self, source: Source) -> Session:
        """The job that trains on this, which begins with the first one."""
        if self._session is None:
            return self._start(source)
        with self._session.exclusively():
            self._go_on(source)
        return self._session

    def _go_on(self, source: Source) -> None:
        """Of an epoch that is not the first one."""
        first = self._source
        assert first is not None and self._reader is not None
        self._picked.refuse_changes(self._pick(self.model))
        for what, value, before in (
                ("dataset", source.examples, first.examples),
                ("batch_size", source.batch_size, first.batch_size)):
            if value != before:
                raise _errors.InvalidArgument(
                    f"{what}: {value}; the job began with {before}, and it stays")
        is_same = (source.origin is first.origin
                   and source.processes == first.processes)
        if is_same and source.collate == first.collate:
            return
        if first.in_order is None and source.in_order is None and (
                is_same or not self._lookups):
            self._reader.close()
        elif is_same:  # Another collate_fn alone: what is read goes on.
            source = source._replace(in_order=first.in_order)
        else:
            raise _errors.InvalidArgument(
                "the dataset, or num_workers, is another one than in the epoch before; "
                "data that are read in order, or whose rows are looked up, are read on "
                "from epoch to epoch: make them once, before the loop")
        self._source = source
        self._reader = source.open()

    def _start(self, source: Optional[Source]) -> Session:
        """Without a source of a job that has nothing left to train."""
        test = _length_of_test(self._test) if self._test is not None else 0
        settings = dict(self._settings)
        if source is not None:
            self._source = source
            self._reader = source.open()
            if source.batch_size is not None:
                settings["batch_size"] = source.batch_size
        job = _job.read(self._job, settings)
        self._batches_a_push = 1
        for times in ("accumulate", "push_every", "replicas"):
            if isinstance(job.get(times), int):
                self._batches_a_push *= job[times]
        if source is not None and source.in_order is not None:
            source.in_order.settings(job)
        self._picked = self._pick_trained()
        self._lookups = self._by_number()
        self._have_model_alone()
        staging = _staging_of(self._picked)
        self._weights = Weights(self.model, self._picked, self._lookups, staging)
        session = Session(
            job, self._weights.variables(),
            examples=source.examples if source is not None else 0,
            test_examples=test, insecure=self._insecure, tls_dir=self._tls_dir)
        self._gradients = Gradients(session, self._picked.trained, staging,
                                    self._refuse_missing, self._clip_norm)
        self._session = session
        with _working_lock:
            _working.add(self)
        return session

    def _have_model_alone(self) -> None:
        """Closes a worker that trains a parameter of this one."""
        trained = {id(tensor) for _, tensor in self._picked.trained}
        with _working_lock:
            others = list(_working)
        for other in others:
            if trained.isdisjoint(id(tensor) for _, tensor in other._picked.trained):
                continue
            warnings.warn(
                "another Worker of this process has this model, and leaves its job "
                "now: close a worker, or use it in a with block, before its model "
                "gets another one")
            other.close()

    @contextlib.contextmanager
    def _computing(self, what: str) -> Iterator[Tuple[Session, Work]]:
        """This thread computes the batch that is held, or another one never will.
        Error without one: that of the next epoch was not taken yet."""
        sentence = f"{what} without a batch: take one of epoch.batches"
        session = self._session
        if session is None:
            raise _errors.Error(sentence)
        try:
            with session.exclusively():
                work = session.held
                if work is None or work is self._ahead:
                    raise _errors.Error(sentence)
                session.compute()
                yield session, work
        except _errors.PartlyPushed:
            self.close()
            raise

    def _finish_with_zeros(self, session: Session, work: Work) -> None:
        assert self._gradients is not None
        for gradient in work.gradients:
            gradient.fill(0)
        self._gradients.drop()
        session.finish_without_examples()

    def _next(self, session: Session, epoch: "Epoch") -> Optional[Work]:
        """The next batch of this epoch; None after its last one. The first of all
        that this worker gets says which epoch it is."""
        with session.exclusively():
            while True:
                work = self._ahead or session.next()
                self._ahead = None
                if work is None:
                    self._finished = True
                    self._take_trained(session)
                    return None
                if work.asks:
                    self._find_rows(session, work)
                    continue
                if not work.is_step:
                    self._do_evaluation(session, work)
                    continue
                if not self._has_begun:
                    self._has_begun = True
                    epoch.number = work.epoch
                if work.epoch > epoch.number:
                    self._ahead = work  # Of the next epoch, which begins with it.
                    return None
                return work

    def _take_trained(self, session: Session) -> None:
        """The model gets the weights that the job has ended with."""
        weights = session.trained()
        if weights is not None:
            assign(self._picked, weights)

    def _end(self, epoch: "Epoch") -> None:
        """Error if the loop has left the epoch before its last batch: the next one
        would begin with what is left of it."""
        if epoch.is_over:
            return
        if self._session is None:
            raise _errors.Error(
                f"the loop took no batch of epoch {epoch.number}: take those of each "
                "epoch; one that is over already has none")
        if self._next(self._session, epoch) is not None:
            raise _errors.Error(
                f"the loop left epoch {epoch.number} before its last batch: take all "
                "of them; for shorter epochs give fewer examples "
                "(torch.utils.data.Subset), to end the job leave both loops")

    def _read(self, session: Session, work: Work) -> Any:
        """The batch, with the model as it is to be computed on."""
        assert self._reader is not None and self._weights is not None
        with session.exclusively():
            batch = None
            if self._lookups:
                batch = self._looked_up.pop((work.epoch, work.indices.tobytes()), None)
            if batch is None:
                batch = self._reader.read(work.epoch, work.indices)
            while (self._reader.reads_ahead
                   and (upcoming := session.upcoming()) is not None):
                self._reader.ask(upcoming)
            self._weights.load(work)
            return batch

    def _find_rows(self, session: Session, work: Work) -> None:
        """Says which rows the examples read. Their batch is kept: it is stepped
        next."""
        assert self._reader is not None
        if work.of_test:
            batch = self._test_batch(work)
        else:
            batch = self._reader.read(work.epoch, work.indices)
            self._looked_up[(work.epoch, work.indices.tobytes())] = batch
            # What is never stepped is of a lease that was lost: the oldest.
            if len(self._looked_up) > 2 * self._batches_a_push:
                del self._looked_up[next(iter(self._looked_up))]
        for number, lookup in self._lookups.items():
            rows = torch.as_tensor(lookup(*_parts(batch))).detach()
            session.found_rows(number, rows.to("cpu", torch.int64).numpy())
        session.finish_without_examples()

    def _test_batch(self, work: Work) -> Any:
        assert self._test is not None
        return self._test_collate([self._test[int(i)] for i in work.indices])

    def _do_evaluation(self, session: Session, work: Work) -> None:
        assert self._evaluate is not None and self._weights is not None
        batch = self._test_batch(work)
        with _evaluating(self.model), torch.no_grad():
            self._weights.load(work)
            said = self._evaluate(self.model, *_parts(batch))
        if isinstance(said, tuple):
            session.finish(float(said[0]), int(said[1]), len(work.indices))
        else:
            session.finish(float(said))


class Epoch:
    """One pass over the training data, as far as this worker gets of it."""

    def __init__(self, worker: Worker, number: int):
        # From 1. Of a run that goes on elsewhere the first batch says which one.
        self.number = number
        self.is_over = False  # Its last batch was taken.
        self._worker = worker

    def batches(self, dataset: Any, batch_size: Optional[int] = None,
                collate_fn: Collate = default_collate,
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
            the cluster's, and a sampler that says otherwise is refused. Another
            epoch may have another one of the same length, unless it is read in
            order or its rows are looked up.
          batch_size: examples in a batch; the job's setting if it is left out.
          num_workers: processes that read batches ahead, as a DataLoader's; 0: they
            are read here.
          examples: of an IterableDataset and its like, how many make up an epoch
            over all workers; its len(), if it has one, unless it is given.
        """
        source = source_of(dataset, batch_size, collate_fn, num_workers, examples)
        worker = self._worker
        session = worker._begin(source)
        while True:
            work = worker._next(session, self)
            if work is None:
                self.is_over = True
                return
            yield worker._read(session, work)


def load(model: torch.nn.Module, path: "str | os.PathLike[str]") -> None:
    """Gives a model the values that a checkpoint has, as paramd.load finds it:
    parameters, which may be tied, and those buffers that travel. Buffers of integers,
    and those that state_dict does not have, stay as they are. InvalidArgument, with
    nothing changed, if model and checkpoint have not the same variables of the same
    shapes."""
    values = _load(path)
    names: Dict[int, List[str]] = {}  # Of each tensor all that it is called.
    tensors: Dict[int, torch.Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            names.setdefault(id(tensor), []).append(name)
            tensors[id(tensor)] = tensor
    found: List[Tuple[torch.Tensor, Any]] = []
    for number, called in names.items():
        name = next((name for name in called if name in values), None)
        if name is None:
            raise _errors.InvalidArgument(
                f"the checkpoint has no variable '{called[0]}' of the model, but "
                f"{', '.join(sorted(values))}")
        if values[name].shape != tuple(tensors[number].shape):
            raise _errors.InvalidArgument(
                f"the model's variable '{name}' is {tuple(tensors[number].shape)}; "
                f"in the checkpoint it is {values[name].shape}")
        found.append((tensors[number], values[name]))
    left = set(values).difference(*names.values())
    if left:
        raise _errors.InvalidArgument(
            f"the checkpoint has {', '.join(sorted(left))}, which the model does not "
            "have")
    with torch.no_grad():
        for tensor, value in found:
            tensor.copy_(torch.from_numpy(value))
