"""A Keras 3 model as a worker of a job, with any of Keras's backends.

    import keras
    import paramd.keras as pk

    model = keras.Sequential([...])
    model.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    history = pk.fit(model, x, y, optimizer={"adam": {}, "learning_rate": 1e-3},
                     epochs=5, batch_size=64)

The optimizer is the servers'; the one that `compile` was given is not used. Data that
Keras alone can read, tf.data for one, are trained with `model.fit` and a Callback.
"""

import contextlib
import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

import keras

from paramd import _errors, _job
from paramd._keras_names import named as _named
from paramd._keras_names import refuse_constraints as _refuse_constraints
from paramd._session import Session, Variable, Work
from paramd.checkpoint import load as _load
from paramd.data import Shards, Stream

if keras.backend.backend() == "torch":
    from paramd._keras_torch import Worker as Worker


class Optimizer(keras.optimizers.Optimizer):
    """What `model.compile` gets in place of an optimizer of Keras's: gradients go to
    the servers, which have the optimizer. A model that is trained with it outside
    of `fit` below, and without a Callback, is an Error.

    Args:
      settings: the optimizer, as in the job file: {"adam": {}, "learning_rate": 1e-3}.
    """

    def __init__(self, settings: Any, name: str = "paramd"):
        super().__init__(learning_rate=0.0, name=name)
        self.settings = settings
        self.serves = False  # A worker takes what it keeps.
        self._session: Optional[Session] = None  # Of the worker that did last.
        self._gradients: List[Any] = []
        self._built_for: Tuple[int, ...] = ()

    def build(self, variables: Sequence[Any]) -> None:
        """Makes room for a gradient of each. InvalidArgument if it was made for
        others."""
        these = tuple(map(id, variables))
        if self.built:
            if these != self._built_for:
                raise _errors.InvalidArgument(
                    "this paramd.keras.Optimizer was used for other variables: compile "
                    "the model with a new one")
            return
        self._built_for = these
        super().build(variables)
        self._gradients = [
            self.add_variable(shape=variable.shape, initializer="zeros",
                              dtype="float32", name="gradient")
            for variable in variables]

    def apply(self, grads: Sequence[Any],
              trainable_variables: Optional[Sequence[Any]] = None) -> None:
        """Keeps them. A variable without a gradient has one of zeros."""
        if not self.serves:
            raise _errors.Error(
                "the model was compiled with paramd.keras.Optimizer: train it with "
                "paramd.keras.fit, or give fit a paramd.keras.Callback")
        if not self.built and trainable_variables is not None:
            self.build(list(trainable_variables))
        if len(grads) != len(self._gradients):
            raise _errors.InvalidArgument(
                f"the model has {len(grads)} variables to train, and had "
                f"{len(self._gradients)} when the job began: a job trains the same "
                "ones to its end")
        for kept, gradient in zip(self._gradients, grads):
            kept.assign(keras.ops.zeros(kept.shape) if gradient is None else
                        keras.ops.cast(keras.ops.convert_to_tensor(gradient),
                                       "float32"))
        self.iterations.assign_add(1)

    @property
    def learning_rate(self) -> Any:
        """Not used: it is the servers'."""
        return self._get_current_learning_rate()

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        raise _errors.InvalidArgument(
            "the learning rate is the servers': set it, or a schedule, in the "
            "optimizer's settings, and leave callbacks out that change it; one of "
            "your own calls optimizer.set(learning_rate_scale=...)")

    def set(self, *, learning_rate_scale: float) -> None:
        """Every learning rate of the servers is multiplied by so much from now on, as
        by paramd.Worker.set: for callbacks, in the chief alone. Error while nothing
        is trained."""
        if self._session is None:
            raise _errors.Error("set while no worker trains with this optimizer")
        self._session.set_rate_scale(learning_rate_scale)

    def get_config(self) -> Dict[str, Any]:
        """As Keras saves it."""
        return {"settings": self.settings, "name": self.name}

    def _kept(self) -> List[np.ndarray]:
        """The gradients of the last batch; which one it was _count says."""
        return [keras.ops.convert_to_numpy(kept) for kept in self._gradients]

    def _count(self) -> int:
        """How many batches it has kept the gradients of."""
        return int(keras.ops.convert_to_numpy(self.iterations))


def _is_real(variable: Any) -> bool:
    return bool(keras.backend.is_float_dtype(variable.dtype))


def _travelling(model: Any) -> Tuple[List[Tuple[str, Any]], List[Tuple[str, Any]]]:
    """What is trained; what else travels: running statistics and frozen weights."""
    return (list(_named(model, model.trainable_variables)),
            [(name, variable) for name, variable
             in _named(model, model.non_trainable_variables) if _is_real(variable)])


class _Training:
    """A model whose gradients an Optimizer keeps, as a worker of a job."""

    def __init__(self, model: Any, data: Any, test_examples: int,
                 settings: Dict[str, Any]):
        if not model.built:
            raise _errors.InvalidArgument(
                "the model is not built: give it an Input, or call it once")
        if model.steps_per_execution != 1:
            raise _errors.InvalidArgument(
                f"compile was told steps_per_execution={model.steps_per_execution}: "
                "each step's gradients are pushed, so it has to be 1")
        self._model = model
        self._optimizer = _servers_optimizer(model)
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        self._optimizer.build(model.trainable_variables)
        _refuse_constraints(model)
        self._optimizer.serves = True
        self._trained, self._other = _travelling(model)
        if not self._trained:
            raise _errors.InvalidArgument("the model has no weight to train")
        variables = [
            Variable(name, np.array(keras.ops.convert_to_numpy(variable), np.float32),
                     untrained=number >= len(self._trained),
                     computed_in=str(variable.dtype))
            for number, (name, variable) in enumerate(self._trained + self._other)]
        own = {key: settings.pop(key) for key in ("job", "insecure", "tls_dir")
               if key in settings}
        content = _job.read(own.pop("job", None),
                            dict(settings, optimizer=self._optimizer.settings))
        data.settings(content)
        self.epochs = content.get("epochs", 1)  # As the program begins it.
        self.is_over = False  # The job has finished.
        self._session = Session(content, variables, examples=data.examples,
                                test_examples=test_examples, **own)
        self._optimizer._session = self._session
        self._count = 0
        saved = self._session.saved()
        if saved is not None:
            saved.say_if_over()
            self._assign(saved.weights)

    def next(self) -> Optional[Work]:
        """The next work, with the model as it is to be computed on; None once the
        job has finished."""
        work = self._session.next()
        if work is None:
            self.is_over = True
            self.take_trained()
            return None
        # A copy: backends use an array's memory as it is, and this is the
        # worker's, with the next weights soon.
        self._assign([np.array(values) for values in work.weights])
        self._count = self._optimizer._count()
        return work

    def losses(self) -> Dict[int, float]:
        """Of the job, by epoch from 1; none before it has finished."""
        return self._session.training_losses()

    def take_trained(self) -> None:
        """The model gets the weights that the job has ended with."""
        weights = self._session.trained()
        if weights is not None:
            self._assign(weights)

    def _assign(self, weights: Sequence[np.ndarray]) -> None:
        for (_, variable), values in zip(self._trained + self._other, weights):
            variable.assign(values)

    def push(self, loss: float) -> None:
        """Pushes what the optimizer has kept of this batch. Without anything, as
        the optimizer for float16 found infinite gradients, the batch is left out."""
        work = self._session.held
        assert work is not None
        if self._optimizer._count() == self._count:
            for gradient in work.gradients:
                gradient.fill(0)
            self._session.finish_without_examples()
            return
        for gradient, into in zip(self._optimizer._kept(), work.gradients):
            np.multiply(gradient, work.scale, out=into)
        # What is subtracted from a running statistic makes it what it is now.
        first = len(self._trained)
        for number, (_, variable) in enumerate(self._other, first):
            now = np.asarray(keras.ops.convert_to_numpy(variable), np.float32)
            np.subtract(work.weights[number], now, out=work.gradients[number])
            work.gradients[number] *= work.scale
        self._session.finish(loss)

    def finish_evaluation(self, loss: float, correct: int = 0, labels: int = 0) -> None:
        """What an evaluation has found."""
        self._session.finish(loss, correct, labels)

    def close(self) -> bool:
        """Leaves the job; whether it had finished."""
        self._optimizer.serves = False
        # Traced with the optimizer at work; who trains next finds it asleep.
        self._model.train_function = None
        return self._session.close()


class Callback(keras.callbacks.Callback):
    """Makes `model.fit` a worker of a job, on data that each worker reads for itself.

        model.compile(optimizer=pk.Optimizer({"adam": {}, "learning_rate": 1e-3}),
                      loss="sparse_categorical_crossentropy")
        model.fit(batches, steps_per_epoch=100, epochs=10**6,
                  callbacks=[pk.Callback(examples=60_000, batch_size=64, epochs=5)])

    The cluster counts batches and each push counts exactly once, but which examples
    are in a batch is up to what fit was given: give each worker a part of its own,
    by paramd.TFConfig for instance. A batch of another size than batch_size counts
    as one of that size. `fit` ends when the job's epochs are over, so its own have
    to be enough; a fit that ends before, for another reason than
    `model.stop_training`, is an Error.

    Args:
      examples: how many make up an epoch of the job, over all workers.
      batch_size, epochs: of the job.
      settings: as paramd.torch.Worker's: staleness, run_dir, job and so on.
    """

    def __init__(self, *, examples: int, batch_size: Optional[int] = None,
                 epochs: Optional[int] = None, **settings: Any):
        super().__init__()
        self._examples = examples
        self._settings = dict(settings, batch_size=batch_size, epochs=epochs)
        self._training: Optional[_Training] = None
        self._seen = (0.0, 0.0)  # What Keras's loss is the mean of, in an epoch.

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        """Starts the worker."""
        self.close()
        # Of which the count is all that is used.
        data = Stream((), examples=self._examples)
        self._training = _Training(self.model, data, 0, dict(self._settings))
        self._next()

    def on_epoch_begin(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """The loss is Keras's mean from here on."""
        self._seen = (0.0, 0.0)

    def on_train_batch_end(self, batch: int,
                           logs: Optional[Dict[str, Any]] = None) -> None:
        """Pushes the batch's gradients and gets the next one's weights."""
        assert self._training is not None
        if self._training.is_over:  # Keras computes a batch all the same.
            return
        _sync(self.model)
        self._training.push(self._batch_loss(float((logs or {}).get("loss", 0.0))))
        self._next()

    def on_train_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        """Leaves the job."""
        # Of a batch that came after its end statistics have changed.
        if self._training is not None and self._training.is_over:
            _sync(self.model)
            self._training.take_trained()
        if not self.close() and not self.model.stop_training:
            raise _errors.Error(
                "fit ended before the job did: give fit more epochs, since the "
                "job's are counted by the Callback")

    def close(self) -> bool:
        """Leaves the job, as the end of `fit` does; whether it had finished. Of use
        when `fit` was interrupted: the batch is then handed out again."""
        return self._training is not None and self._training.close()

    def _batch_loss(self, mean: float) -> float:
        """That of the last batch, of the mean since the epoch began."""
        tracker = _loss_tracker(self.model)
        if tracker is None:
            return mean
        total, count = (float(keras.ops.convert_to_numpy(variable))
                        for variable in (tracker.total, tracker.count))
        before, self._seen = self._seen, (total, count)
        return (total - before[0]) / (count - before[1]) if count > before[1] else mean

    def _next(self) -> None:
        assert self._training is not None
        if self._training.next() is None:
            self.model.stop_training = True


def _sync(model: Any) -> None:
    """With JAX a model has its variables only when they are asked for."""
    sync = getattr(model, "jax_state_sync", None)
    if sync is not None:
        sync()


def _loss_tracker(model: Any) -> Any:
    """Keras's mean of the loss; None of a model that has one of its own."""
    return next((metric for metric in model.metrics if metric.name == "loss"
                 and isinstance(metric, keras.metrics.Mean)), None)


def _as_floats(logs: Dict[str, Any]) -> Dict[str, Any]:
    """As Keras: a metric of several numbers stays an array."""
    return {name: float(value) if np.ndim(value) == 0 else value for name, value in
            ((name, keras.ops.convert_to_numpy(value)) for name, value in logs.items())}


def _servers_optimizer(model: Any) -> Optimizer:
    """What the model was compiled with."""
    optimizer = getattr(model, "optimizer", None)
    # compile wraps it if the model computes in float16.
    found = getattr(optimizer, "inner_optimizer", optimizer)
    if isinstance(found, Optimizer):
        return found
    raise _errors.InvalidArgument(
        "the optimizer is the servers': compile the model with "
        "paramd.keras.Optimizer({'adam': {}, 'learning_rate': 1e-3}), for instance")


class _Rows:
    """Arrays of as many rows."""

    def __init__(self, x: Any, y: Any):
        if y is None:
            raise _errors.InvalidArgument(
                "fit takes y, one label for each example, with arrays; Shards and a "
                "Stream give pairs (x, y)")
        self._arrays = (np.asarray(x), np.asarray(y))
        if len(self._arrays[0]) != len(self._arrays[1]):
            raise _errors.InvalidArgument(
                f"x has {len(self._arrays[0])} examples, and y "
                f"{len(self._arrays[1])}")
        self.examples = len(self._arrays[0])

    def batch(self, epoch: int, numbers: np.ndarray) -> Tuple[Any, Any]:
        """These rows."""
        del epoch
        return self._arrays[0][numbers], self._arrays[1][numbers]

    def settings(self, job: Dict[str, Any]) -> None:
        """What a job needs for them: nothing."""


class _Pairs:
    """Shards, or a stream, of (x, y)."""

    def __init__(self, data: "Shards | Stream"):
        self._data = data
        self.examples = data.examples
        self.settings = data.settings

    def batch(self, epoch: int, numbers: np.ndarray) -> Tuple[Any, Any]:
        """Some of them."""
        x, y = zip(*self._data.read(epoch, numbers))
        return np.stack(x), np.stack(y)


def _evaluate(model: Any, x: Any, y: Any) -> Tuple[float, int, int]:
    """The mean loss; of labels that are classes also how many were met, of how
    many."""
    output = model(x, training=False)
    loss = model.compute_loss(x=x, y=keras.ops.convert_to_tensor(y), y_pred=output,
                              training=False)
    mean = float(keras.ops.convert_to_numpy(loss))
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer) or output.ndim != 2:
        return mean, 0, 0
    met = keras.ops.convert_to_numpy(keras.ops.argmax(output, -1)) == y
    return mean, int(met.sum()), len(y)


@contextlib.contextmanager
def _compiled_with(model: Any, settings: Any) -> Iterator[None]:
    """The model with the servers' optimizer in place of its own."""
    if not getattr(model, "compiled", False):
        raise _errors.InvalidArgument(
            "the model is not compiled: compile it with its loss and metrics")
    if settings is None:
        yield
        return
    optimizer, function = model.optimizer, model.train_function
    ours = Optimizer(settings)
    is_scaled = hasattr(optimizer, "inner_optimizer")
    model.optimizer = (keras.optimizers.LossScaleOptimizer(ours) if is_scaled
                       else ours)
    model.train_function = None
    try:
        yield
    finally:
        model.optimizer, model.train_function = optimizer, function


def _train_on_batch(model: Any, x: Any, y: Any) -> Tuple[float, Dict[str, Any]]:
    """The batch's mean loss, and the metrics since they were reset, which
    train_on_batch does for itself otherwise."""
    loss = next(metric for metric in model.metrics if metric.name == "loss")
    loss.reset_state()
    model.reset_metrics = lambda: None
    try:
        logs = model.train_on_batch(x, y, return_dict=True)
    finally:
        del model.reset_metrics
    logs = _as_floats(logs)
    return logs["loss"], logs


# Arguments of model.fit for which there is nothing here.
_OF_MODEL_FIT = frozenset((
    "validation_split", "shuffle", "class_weight", "sample_weight", "initial_epoch",
    "steps_per_epoch", "validation_steps", "validation_batch_size",
    "validation_freq"))


def fit(model: Any, x: Any, y: Any = None, *, optimizer: Any = None,
        epochs: Optional[int] = None, batch_size: Optional[int] = None,
        validation_data: Optional[Tuple[Any, Any]] = None,
        callbacks: Optional[Sequence[Any]] = None, verbose: "int | str" = 0,
        **settings: Any) -> Any:
    """Trains as `model.fit` does, as one worker of the job; over all workers each
    example comes once an epoch.

    Args:
      model: built, and compiled with a loss.
      x, y: arrays whose first dimension is the examples. Or x alone, a paramd.Shards
        or a paramd.Stream of pairs (x, y), one for each example.
      optimizer: as in the job file; left out if the model was compiled with an
        Optimizer, which has it.
      epochs, batch_size: of the job, whose file says them if they are left out;
        batch_size of one worker. 1 and 32 if nobody says.
      validation_data: (x, y); the chief evaluates on them after epochs. What comes
        of it is in the job's log and result, not in the history.
      callbacks: Keras's. on_train_batch_end gets the loss of the worker's batch and
        the metrics since the epoch began, on_epoch_end both over the worker's
        batches.
      verbose: as model.fit's, but 0 unless told: 1 or "auto" shows a bar of this
        worker's batches, 2 a line an epoch.
      settings: as paramd.torch.Worker's: staleness, run_dir, job and so on.

    Returns a keras History. Its loss is the job's, over all workers' examples; while
    the job trains, and where it was stopped, that of this worker's batches, as the
    metrics are.
    After it the model has the weights that the job has ended with, of its last
    checkpoint; a worker that can't read it, on a machine without run_dir, warns and
    has those of its last batch. Of a job that goes on history begins at its epoch.
    """
    for name in _OF_MODEL_FIT & set(settings):
        raise _errors.InvalidArgument(
            f"paramd.keras.fit has no '{name}', which model.fit has: the cluster "
            "says which examples are in a batch, and when an epoch ends")
    is_read = isinstance(x, (Shards, Stream))
    if is_read and y is not None:
        raise _errors.InvalidArgument(
            "fit takes y with arrays alone; Shards and a Stream give pairs (x, y)")
    data = _Pairs(x) if is_read else _Rows(x, y)
    test = _Rows(*validation_data) if validation_data is not None else None
    with _compiled_with(model, optimizer):
        training = _Training(model, data, test.examples if test else 0, dict(
            settings, batch_size=batch_size, epochs=epochs))
        told = keras.callbacks.CallbackList(
            list(callbacks or []), add_history=True, add_progbar=verbose != 0,
            model=model, verbose=1 if verbose == "auto" else verbose,
            epochs=training.epochs, steps=None)
        model.stop_training = False
        told.on_train_begin()
        try:
            _Epochs(training, model, data, test, told).run()
            _tell_losses(model, training.losses())
        finally:
            training.close()
        told.on_train_end()
    return model.history


def _tell_losses(model: Any, losses: Dict[int, float]) -> None:
    """Into the history, where the job has them: each worker saw a part alone."""
    if not losses or not isinstance(model.history, keras.callbacks.History):
        return
    told = model.history.history.get("loss", [])
    for place, epoch in enumerate(model.history.epoch[:len(told)]):
        told[place] = losses.get(epoch + 1, told[place])


class _Epochs:
    """What `fit` does from batch to batch, and tells callbacks."""

    def __init__(self, training: _Training, model: Any, data: "_Rows | _Pairs",
                 test: Optional[_Rows], told: Any):
        self._training = training
        self._model = model
        self._data = data
        self._test = test
        self._told = told
        self._epoch = 0  # From 1; 0: none has begun.
        self._losses, self._examples, self._batches = 0.0, 0, 0

    def run(self) -> None:
        """Until the job has finished, or a callback says stop."""
        model = self._model
        while not model.stop_training:
            work = self._training.next()
            if work is None:
                break
            if not work.is_step:
                assert self._test is not None
                self._training.finish_evaluation(
                    *_evaluate(model, *self._test.batch(work.epoch, work.indices)))
                continue
            if work.epoch != self._epoch:
                self._end_epoch()
                if model.stop_training:
                    return
                self._begin_epoch(work.epoch)
            self._step(work)
        self._end_epoch()

    def _begin_epoch(self, epoch: int) -> None:
        self._model.reset_metrics()
        self._epoch = epoch
        self._losses, self._examples, self._batches = 0.0, 0, 0
        self._told.on_epoch_begin(epoch - 1)

    def _step(self, work: Work) -> None:
        x, y = self._data.batch(work.epoch, work.indices)
        self._told.on_train_batch_begin(self._batches)
        loss, logs = _train_on_batch(self._model, x, y)
        self._training.push(loss)
        self._losses += loss * len(work.indices)
        self._examples += len(work.indices)
        self._told.on_train_batch_end(self._batches, logs)
        self._batches += 1

    def _end_epoch(self) -> None:
        if self._epoch == 0:
            return
        logs = _as_floats(self._model.get_metrics_result())
        logs["loss"] = self._losses / self._examples
        self._told.on_epoch_end(self._epoch - 1, logs)


def load(model: Any, path: "str | os.PathLike[str]") -> None:
    """Gives a built model the values that a checkpoint has, as paramd.load finds it.
    InvalidArgument if one of its variables is missing or has another shape."""
    values = _load(path)
    trained, other = _travelling(model)
    for name, variable in trained + other:
        found = values.get(name)
        if found is None:
            raise _errors.InvalidArgument(
                f"the checkpoint has no variable '{name}' of the model, but "
                f"{', '.join(sorted(values))}; Keras numbers layers as they are made, "
                "so give them names, or call keras.utils.clear_session() first")
        if found.shape != tuple(variable.shape):
            raise _errors.InvalidArgument(
                f"the model's variable '{name}' is {tuple(variable.shape)}; in the "
                f"checkpoint it is {found.shape}")
    for name, variable in trained + other:
        variable.assign(values[name])
