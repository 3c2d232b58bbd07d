"""A worker of a Keras model with Keras's torch backend, for loops of one's own."""

from typing import Any

import torch

from paramd import _errors
from paramd import torch as _torch
from paramd._keras_names import named


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
                   in named(model, model.trainable_variables)]
        other = [(name, variable.value) for name, variable
                 in named(model, model.non_trainable_variables)
                 if variable.value.is_floating_point()]
        return trained, other

    def _is_frozen(self, tensor: torch.Tensor) -> bool:
        return False  # Keras's statistics are parameters to PyTorch.
