"""What of a PyTorch model is a job's, and the model with the servers' weights."""

import functools
import operator
from typing import (Any, Callable, Collection, Dict, List, NamedTuple, Optional,
                    Sequence, Tuple)

import numpy as np
import torch

from paramd import _errors
from paramd._session import Variable, Work
from paramd._sharing import Shared, shareable
from paramd._staging import Staging


class Other(NamedTuple):
    """What travels and is not trained: whatever tensor its owner has now, since a
    buffer that is moved, or computed anew, is another tensor."""
    name: str
    owner: Any  # A module, or a variable of Keras's.
    tensor: Callable[[], torch.Tensor]
    is_frozen: bool  # It stays; else it is what a step has made of it.


class Picked(NamedTuple):
    """What of a model is a job's: what is trained, and what else travels."""
    trained: List[Tuple[str, torch.Tensor]]
    other: List[Other]

    @property
    def tensors(self) -> List[Tuple[str, torch.Tensor]]:
        """All of them, as a job's variables are numbered."""
        return self.trained + [(one.name, one.tensor()) for one in self.other]

    def refuse_changes(self, now: "Picked") -> None:
        """InvalidArgument, by name, if the same model is picked otherwise now: what
        is new would never be trained."""
        before, after = dict(self.trained), dict(now.trained)
        for name in [*before, *after]:
            if name not in before:
                change = "is trained, but was not"
            elif name not in after:
                change = "is not trained, but was"
            elif after[name] is not before[name]:
                change = "is another tensor than"
            else:
                continue
            raise _errors.InvalidArgument(
                f"parameter '{name}' {change} when the job began: a job trains the "
                "same parameters to its end; change the model before the first "
                "batch, or after the loop, and begin another job with it: a Worker "
                "with another run_dir, and in a cluster a script, and servers, of "
                "its own (Freezing, in docs/python.md)")
        places = {one.name: one for one in self.other}
        for one in now.other:
            if one.name not in places or places[one.name].owner is not one.owner:
                raise _errors.InvalidArgument(
                    f"'{one.name}' is of another module than when the job began: "
                    "change the model before the first batch")


def _placed(model: torch.nn.Module, name: str, is_frozen: bool) -> Other:
    path, _, attribute = name.rpartition(".")
    module = model.get_submodule(path)
    places = module._parameters if is_frozen else module._buffers
    # Asking the module itself takes ten times as long, in each step.
    return Other(name, module, functools.partial(operator.getitem, places, attribute),
                 is_frozen)


def pick(model: torch.nn.Module) -> Picked:
    """Parameters that are trained; what else travels: frozen parameters, and those
    buffers of real numbers that state_dict has (batch norm's running statistics).
    Other buffers are this process's own."""
    saved = set(model.state_dict())
    trained: List[Tuple[str, torch.Tensor]] = []
    other: List[Other] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            trained.append((name, parameter))
        else:
            other.append(_placed(model, name, is_frozen=True))
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point() and name in saved:
            other.append(_placed(model, name, is_frozen=False))
    return Picked(trained, other)


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
        raise not_copied(name, tensor, error) from error


def not_copied(name: str, tensor: torch.Tensor,
               error: RuntimeError) -> _errors.Error:
    """What PyTorch refuses to copy to or from its device: one that is gone, or
    memory that is not as it was."""
    said = str(error).partition("\n")[0]
    sentence = f"the values of '{name}' on {tensor.device} can't be copied: {said}"
    if tensor.device.type in ("cpu", "meta"):
        return _errors.InvalidArgument(sentence)
    return _errors.Unavailable(
        f"{sentence}; start the program again, on a device that works", 14)


def describe(picked: Picked, sparse: Collection[int]) -> List[Variable]:
    """What is picked as a job's variables; `sparse`: numbers of those of which rows
    travel."""
    return [Variable(name, _as_numpy(name, tensor),
                     untrained=number >= len(picked.trained),
                     sparse=number in sparse,
                     computed_in=str(tensor.dtype).rpartition(".")[2])
            for number, (name, tensor) in enumerate(picked.tensors)]


def assign(picked: Picked, weights: Sequence[np.ndarray]) -> None:
    """The model gets these, one array a variable."""
    with torch.no_grad():
        for (name, tensor), values in zip(picked.tensors, weights):
            try:
                tensor.copy_(torch.from_numpy(values))
            except RuntimeError as error:
                raise not_copied(name, tensor, error) from error


class Weights:
    """A model's tensors as a job's variables, numbered as in `picked`. The model
    gets the servers' weights before each batch: without a copy where its parameters
    lie in the memory that weights are pulled to.

    Used by one thread at a time. `sparse`: numbers of those of which rows travel.
    """

    def __init__(self, model: torch.nn.Module, picked: Picked,
                 sparse: Collection[int], staging: Optional[Staging]):
        self._picked = picked
        self._sparse = sparse
        self._staging = staging
        trained = [tensor for _, tensor in picked.trained]
        self.shared: Dict[int, Shared] = {
            number: Shared(tensor) for number, (tensor, may_be) in enumerate(zip(
                trained, shareable(trained, [*model.buffers(),
                                             *(one.tensor() for one in picked.other)])))
            if may_be and number not in sparse
            and not (staging and staging.serves(tensor))}

    def variables(self) -> List[Variable]:
        """What the job begins with. InvalidArgument if a buffer is not finite, a
        mask for instance: what is subtracted from it would be NaN."""
        for one in self._picked.other:
            if not one.is_frozen and not np.isfinite(
                    _as_numpy(one.name, one.tensor())).all():
                raise _errors.InvalidArgument(
                    f"the buffer '{one.name}' is not finite, so servers can't hold "
                    "it: if it is no statistic, register it with persistent=False")
        return [variable._replace(memory=self.shared[number].memory)
                if number in self.shared else variable
                for number, variable in enumerate(
                    describe(self._picked, self._sparse))]

    def load(self, work: Work) -> None:
        """Has the model be as the work is to be computed on."""
        moved = [number for number, shared in self.shared.items()
                 if not shared.show(work.weights[number])]
        for number in moved:
            del self.shared[number]  # From now on it is copied.
        # What was computed on the weights before does not go backward any more.
        for shared in self.shared.values():
            torch.autograd.graph.increment_version(shared.parameter)
        with torch.no_grad():
            if len(self.shared) < len(self._picked.trained):
                for number, (name, tensor) in enumerate(self._picked.trained):
                    if number not in self.shared:
                        self._copy(number, name, tensor, work)
            for number, one in enumerate(self._picked.other, len(self._picked.trained)):
                self._copy(number, one.name, one.tensor(), work)

    def _copy(self, number: int, name: str, tensor: torch.Tensor, work: Work) -> None:
        """The weights of what does not lie where they are pulled to."""
        weights = torch.from_numpy(work.weights[number])
        try:
            if self._staging and self._staging.takes(number, tensor, work):
                self._staging.load(number, tensor, work.weights[number])
            elif number in work.rows:
                rows = torch.from_numpy(work.rows[number]).to(tensor.device)
                tensor[rows] = weights.to(tensor.device, tensor.dtype)
            else:
                tensor.copy_(weights)
        except RuntimeError as error:
            raise not_copied(name, tensor, error) from error

    def fill_other(self, work: Work) -> None:
        """What is subtracted from a running statistic to make it what it is now;
        of a frozen parameter nothing."""
        for number, one in enumerate(self._picked.other, len(self._picked.trained)):
            gradient = work.gradients[number]
            if one.is_frozen:
                gradient.fill(0)
                continue
            values = _as_numpy(one.name, one.tensor())
            if values.shape != gradient.shape:
                raise _errors.InvalidArgument(
                    f"'{one.name}' is {values.shape} now; the job began with "
                    f"{gradient.shape}, and it stays")
            np.subtract(work.weights[number], values, out=gradient)
            if work.scale != 1:
                gradient *= work.scale

    def release(self) -> None:
        """The model's memory is its own."""
        for shared in self.shared.values():
            shared.release()
