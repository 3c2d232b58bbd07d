"""A worker of a Keras model with Keras's torch backend, for loops of one's own."""

from functools import partial
from typing import Any

from paramd import _errors
from paramd import torch as _torch
from paramd._keras_names import named, refuse_constraints
from paramd._weights import Other, Picked


class Worker(_torch.Worker):
    """A worker that trains a Keras model: as paramd.torch.Worker, for loops of one's
    own. Variables have Keras's paths, without the model's name; those that are not
    trained, running statistics for one, travel too if they are real numbers.

        for epoch in worker.epochs(5):
            for x, y in epoch.batches(rows, 64):
                worker.step(loss_function(y, model(x, training=True)))

    Args: as paramd.torch.Worker's, without stages. `model` is built, and `optimizer`
    has the job file's defaults, as everywhere in paramd.keras.
    """

    @staticmethod
    def _in_stages(model: Any, cut: Any) -> Any:
        raise _errors.InvalidArgument(
            "a Keras model is not cut into stages: leave out stages=, or bring the "
            "model as an nn.Module to paramd.torch.Worker")

    @staticmethod
    def _complete(optimizer: Any) -> Any:
        return optimizer

    def _pick(self, model: Any) -> Picked:
        if not model.built:
            raise _errors.InvalidArgument(
                "the model is not built: give it an Input, or call it once")
        refuse_constraints(model)
        return Picked(
            [(name, variable.value) for name, variable
             in named(model, model.trainable_variables)],
            # Also its statistics are parameters to PyTorch.
            [Other(name, variable, partial(getattr, variable, "value"),
                   is_frozen=False)
             for name, variable in named(model, model.non_trainable_variables)
             if variable.value.is_floating_point()])
