"""A Keras 3 model as a worker of a job, with Keras's torch backend.

    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import paramd.keras as pk

    model = keras.Sequential([...])
    model.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    history = pk.fit(model, x, y, optimizer={"adam": {}, "learning_rate": 1e-3},
                     epochs=5, batch_size=64)

The optimizer is the servers'; the one that `compile` was given is not used.
"""

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

import keras
import torch

from paramd import _errors
from paramd import torch as _torch
from paramd.checkpoint import load as _load

if keras.backend.backend() != "torch":
    raise _errors.InvalidArgument(
        f"paramd.keras needs Keras's torch backend; this is the one of "
        f"'{keras.backend.backend()}': set KERAS_BACKEND=torch before Keras is "
        "imported")


class _Rows:
    """Arrays of as many rows, row by row."""

    def __init__(self, x: Any, y: Any):
        self._arrays = (np.asarray(x), np.asarray(y))
        if len(self._arrays[0]) != len(self._arrays[1]):
            raise _errors.InvalidArgument(
                f"x has {len(self._arrays[0])} examples, and y "
                f"{len(self._arrays[1])}")

    def __len__(self) -> int:
        return len(self._arrays[0])

    def __getitem__(self, index: int) -> Tuple[Any, Any]:
        return self._arrays[0][index], self._arrays[1][index]


def _collate(rows: List[Tuple[Any, Any]]) -> Tuple[Any, Any]:
    return np.stack([x for x, _ in rows]), np.stack([y for _, y in rows])


def _named(model: Any, variables: Sequence[Any]) -> Iterator[Tuple[str, Any]]:
    """Without the model's own name, which counts models of a process."""
    for variable in variables:
        yield variable.path[len(model.name) + 1:] if variable.path.startswith(
            f"{model.name}/") else variable.path, variable


def _evaluate(model: Any, x: Any, y: Any) -> Any:
    """The mean loss; of labels that are classes also how many were met."""
    output = model(x, training=False)
    loss = model.compute_loss(x=x, y=keras.ops.convert_to_tensor(y), y_pred=output)
    if not np.issubdtype(y.dtype, np.integer) or output.ndim != y.ndim + 1:
        return loss
    met = output.argmax(-1).cpu().numpy() == y
    return (loss, met.sum()) if y.ndim == 1 else loss


class Worker(_torch.Worker):
    """A worker that trains a Keras model: as paramd.torch.Worker, for loops of one's
    own. Variables have Keras's paths, without the model's name; those that are not
    trained, running statistics for one, travel too if they are real numbers.

        for epoch in worker.epochs(5):
            for x, y in epoch.batches(rows, 64):
                worker.step(loss_function(y, model(x, training=True)))

    Args: as paramd.torch.Worker's. `model` is built.
    """

    def _pick(self, model: Any) -> _torch.Picked:
        if not model.built:
            raise _errors.InvalidArgument(
                "the model is not built: give it an Input, or call it once")
        trained = [(name, variable.value) for name, variable
                   in _named(model, model.trainable_variables)]
        other = [(name, variable.value) for name, variable
                 in _named(model, model.non_trainable_variables)
                 if variable.value.is_floating_point()]
        return trained, other

    def _is_frozen(self, tensor: torch.Tensor) -> bool:
        return False  # Keras's statistics are parameters to PyTorch.


def fit(model: Any, x: Any, y: Any, *, optimizer: Any, epochs: int = 1,
        batch_size: int = 32, validation_data: Optional[Tuple[Any, Any]] = None,
        callbacks: Optional[Sequence[Any]] = None, **settings: Any) -> Any:
    """Trains as `model.fit` does, as one worker of the job; over all workers each
    example comes once an epoch.

    Args:
      model: built, and compiled with a loss.
      x, y: arrays whose first dimension is the examples.
      optimizer: as in the job file.
      epochs, batch_size: of the job; batch_size of one worker.
      validation_data: (x, y); the chief evaluates on them after epochs. What comes
        of it is in the job's log and result, not in the history.
      callbacks: Keras's. on_train_batch_end gets the loss of the worker's batch,
        on_epoch_end its mean and the model's metrics over the worker's batches.
      settings: as paramd.torch.Worker's: staleness, run_dir, job and so on.

    Returns a keras History with the loss and the metrics of this worker's batches.
    After it the model has the weights of this worker's last batch; `load` gets it
    those of the checkpoint.
    """
    rows = _Rows(x, y)
    test: Any = _Rows(*validation_data) if validation_data is not None else None
    worker = Worker(model, optimizer=optimizer, test=test,
                    evaluate=_evaluate if test is not None else None, **settings)
    told = keras.callbacks.CallbackList(
        list(callbacks or []), add_history=True, model=model, epochs=epochs)
    model.stop_training = False
    told.on_train_begin()
    with worker:
        for epoch in worker.epochs(epochs):
            logs = _fit_epoch(worker, epoch, rows, batch_size, told)
            if logs is None or model.stop_training:
                break
    told.on_train_end()
    return model.history


def _fit_epoch(worker: Worker, epoch: _torch.Epoch, rows: _Rows, batch_size: int,
               told: Any) -> Optional[Dict[str, float]]:
    """What came of this worker's batches; None if there were none."""
    model = worker.model
    model.reset_metrics()
    losses, examples = 0.0, 0
    for number, (x, y) in enumerate(
            epoch.batches(rows, batch_size, collate_fn=_collate)):
        if number == 0:
            told.on_epoch_begin(epoch.number - 1)
        told.on_train_batch_begin(number)
        target = keras.ops.convert_to_tensor(y)
        output = model(x, training=True)
        loss = model.compute_loss(x=x, y=target, y_pred=output)
        worker.step(loss)
        with torch.no_grad():
            model.compute_metrics(x, target, output.detach())
        losses += float(loss.detach()) * len(x)
        examples += len(x)
        told.on_train_batch_end(number, {"loss": float(loss.detach())})
    if examples == 0:
        return None
    logs = {name: float(value) for name, value in model.get_metrics_result().items()}
    logs["loss"] = losses / examples
    told.on_epoch_end(epoch.number - 1, logs)
    return logs


def load(model: Any, path: "str | os.PathLike[str]") -> None:
    """Gives a built model the values that a checkpoint has, as paramd.load finds it.
    InvalidArgument if one of its variables is missing or has another shape."""
    values = _load(path)
    wanted = list(_named(model, model.trainable_variables))
    wanted += [(name, variable) for name, variable
               in _named(model, model.non_trainable_variables)
               if variable.value.is_floating_point()]
    for name, variable in wanted:
        found = values.get(name)
        if found is None or found.shape != tuple(variable.shape):
            raise _errors.InvalidArgument(
                f"the model's variable '{name}' is {tuple(variable.shape)}; in the "
                f"checkpoint it is {'missing' if found is None else found.shape}")
    for name, variable in wanted:
        variable.assign(values[name])
