"""A PyTorch model in stages, which micro-batches of a batch pass in the order that a
schedule says. One thread does it all: of stages on several GPUs it only starts the
work, so they compute at the same time."""

import itertools
from typing import (Any, Callable, Dict, List, NamedTuple, Optional, Sequence,
                    Tuple, Union)

import torch

from paramd import _errors, _schedule

MICRO_BATCHES = 16  # As without pipeline.micro_batches in a job file.
SCHEDULE = "1f1b"

# From the last stage's output, and the targets, to the mean loss.
Loss = Callable[..., torch.Tensor]
# How a model is cut: into so many stages, before which layers, or as it is given.
Cut = Union[int, Sequence[int], Sequence[torch.nn.Module]]


def _device_of(stage: torch.nn.Module) -> Optional[torch.device]:
    """Where it computes; None if nothing of it lies anywhere."""
    for tensor in itertools.chain(stage.parameters(), stage.buffers()):
        device: torch.device = tensor.device
        return device
    return None


def _on(tensor: torch.Tensor, device: Optional[torch.device]) -> torch.Tensor:
    if device is None:
        return tensor
    # Nothing would wait for what is on its way to the host.
    return tensor.to(device, non_blocking=device.type != "cpu")


class Chain(torch.nn.Sequential):
    """Stages as one model, which computes them one after the other."""

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Of the first stage's inputs, the last one's output."""
        passed: Tuple[Any, ...] = inputs
        for stage in self:
            device = _device_of(stage)
            passed = (stage(*[_on(one, device) for one in passed]),)
        return passed[0]


def in_stages(model: Optional[torch.nn.Module],
              cut: Cut) -> Tuple[torch.nn.Module, List[torch.nn.Module]]:
    """The whole model, and its stages. InvalidArgument if it can't be cut so."""
    parts: List[Any] = [] if isinstance(cut, int) else list(cut)
    if parts and all(isinstance(one, torch.nn.Module) for one in parts):
        if model is not None:
            raise _errors.InvalidArgument(
                "give the model, or its stages in its place: the worker puts stages "
                "together itself")
        return Chain(*parts), parts
    if model is None:
        raise _errors.InvalidArgument(
            f"stages is {cut!r} and there is no model: give the modules, "
            "stages=[first, second, ...], or a model that is cut")
    if not isinstance(model, torch.nn.Sequential) or (
            type(model).forward is not torch.nn.Sequential.forward):
        raise _errors.InvalidArgument(
            f"stages is {cut!r}, which cuts an nn.Sequential; the model is a "
            f"{type(model).__name__}: give its stages, stages=[first, second, ...], in "
            "place of the model")
    layers = list(model)
    begins = _begins(cut, parts, len(layers))
    return model, [torch.nn.Sequential(*layers[begin:end])
                   for begin, end in zip(begins, begins[1:] + [len(layers)])]


def _begins(cut: Cut, parts: List[Any], layers: int) -> List[int]:
    """The number of the layer that each stage begins with."""
    if isinstance(cut, int):
        if not 0 < cut <= layers:
            raise _errors.InvalidArgument(
                f"stages is {cut}; the model has {layers} layers, which make 1 to "
                f"{layers} stages")
        return [layers * stage // cut for stage in range(cut)]
    begins = [0, *parts]
    if any(isinstance(one, bool) or not isinstance(one, int) for one in begins) or any(
            one >= after for one, after in zip(begins, begins[1:] + [layers])):
        raise _errors.InvalidArgument(
            f"stages is {cut!r}; it has the numbers of the layers that the second "
            "stage and those after it begin with, ascending, of a model with the "
            f"layers 0 to {layers - 1}")
    return begins


class _Kept(NamedTuple):
    """What a forward pass keeps for the backward pass."""
    taken: Tuple[torch.Tensor, ...]
    output: torch.Tensor  # Of the last stage the loss.


class Stages:
    """Computes gradients of batches by stages. Not thread-safe.

    Invariant: a stage takes the gradients of its micro-batches in their order, so
    their sum has the same bits for every schedule and any cut.
    """

    def __init__(self, stages: Sequence[torch.nn.Module], micro_batches: int,
                 schedule: str, stages_per_device: int):
        self._stages = stages
        self._micro_batches = micro_batches
        self._name = schedule
        self._of_each = stages_per_device
        self._schedules: Dict[int, _schedule.Schedule] = {}
        self._schedule_of(micro_batches)  # Refuses what is wrong.
        self._refuse_shared()

    def compute(self, loss: Loss, inputs: Any, targets: Any) -> float:
        """The mean loss of a batch, whose gradients are in `grad` then; what was there
        is dropped, and after an exception nothing is there."""
        self._drop()
        try:
            return self._run(loss, _tensors("inputs", inputs),
                             _tensors("targets", targets))
        except BaseException:
            self._drop()
            raise

    def _schedule_of(self, micro_batches: int) -> _schedule.Schedule:
        found = self._schedules.get(micro_batches)
        if found is None:
            found = _schedule.make(self._name, len(self._stages), micro_batches,
                                   self._of_each)
            self._schedules[micro_batches] = found
        return found

    def _refuse_shared(self) -> None:
        """The uses of a parameter on two stages would be summed in the schedule's
        order."""
        seen: Dict[int, int] = {}
        for number, stage in enumerate(self._stages):
            for name, parameter in stage.named_parameters():
                first = seen.setdefault(id(parameter), number)
                if first != number:
                    raise _errors.InvalidArgument(
                        f"parameter '{name}' of stage {number} is one of stage "
                        f"{first}'s too: what shares a parameter is in one stage")

    def _drop(self) -> None:
        for stage in self._stages:
            for parameter in stage.parameters():
                parameter.grad = None

    def _run(self, loss: Loss, inputs: List[torch.Tensor],
             targets: List[torch.Tensor]) -> float:
        examples = len(inputs[0])
        for tensor in inputs + targets:
            if len(tensor) != examples or examples == 0:
                raise _errors.InvalidArgument(
                    "inputs and targets have the same number of examples, at least 1; "
                    f"found {examples} and {len(tensor)}")
        # As compute/pipeline: the last micro-batch may be short.
        size = -(-examples // self._micro_batches)
        batch = _Batch(self._stages, loss, _split(inputs, size), _split(targets, size))
        for one in self._schedule_of(-(-examples // size)).passes:
            if one.kind == _schedule.FORWARD:
                batch.forward(one.stage, one.micro_batch)
            elif one.kind != _schedule.BACKWARD_VARIABLES:
                # Autograd has no halves that would cost no more than the whole.
                batch.backward(one.stage, one.micro_batch)
        return sum(float(one) for one in batch.losses)


class _Batch:
    """One that passes the stages, in micro-batches."""

    def __init__(self, stages: Sequence[torch.nn.Module], loss: Loss,
                 inputs: List[Tuple[torch.Tensor, ...]],
                 targets: List[Tuple[torch.Tensor, ...]]):
        self.losses: List[torch.Tensor] = []  # By micro-batch; their sum is the mean.
        self._stages = stages
        self._devices = [_device_of(stage) for stage in stages]
        self._loss = loss
        self._inputs = inputs
        self._targets = targets
        self._examples = sum(len(one[0]) for one in inputs)
        # By stage and micro-batch; of the output, None if nothing needs it.
        self._kept: Dict[Tuple[int, int], _Kept] = {}
        self._gradients: Dict[Tuple[int, int], Optional[torch.Tensor]] = {}

    def forward(self, stage: int, micro_batch: int) -> None:
        """What the stage before has given passes this one."""
        device = self._devices[stage]
        if stage == 0:
            taken = tuple(_on(one, device) for one in self._inputs[micro_batch])
        else:
            given = self._kept[stage - 1, micro_batch].output
            taken = (_on(given.detach(), device).requires_grad_(given.requires_grad),)
        output = self._pass(stage, micro_batch, taken)
        if stage + 1 == len(self._stages):
            output = self._loss_of(output, micro_batch)
            self.losses.append(output.detach())
        elif not isinstance(output, torch.Tensor):
            raise _errors.InvalidArgument(
                f"stage {stage} gives a {type(output).__name__}; a stage hands one "
                "tensor on to the next")
        self._kept[stage, micro_batch] = _Kept(taken, output)

    def backward(self, stage: int, micro_batch: int) -> None:
        """Adds the gradients of the stage's parameters to those in `grad`."""
        kept = self._kept.pop((stage, micro_batch))
        gradient = self._gradients.pop((stage, micro_batch), None)
        if stage + 1 == len(self._stages):
            torch.autograd.backward(kept.output)
        elif gradient is not None:
            torch.autograd.backward(kept.output, _on(gradient, kept.output.device))
        if stage > 0:
            self._gradients[stage - 1, micro_batch] = kept.taken[0].grad

    def _pass(self, stage: int, micro_batch: int,
              taken: Tuple[torch.Tensor, ...]) -> Any:
        try:
            return self._stages[stage](*taken)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            given = " and ".join(f"{one.dtype} of {tuple(one.shape)}" for one in taken)
            giver = f"stage {stage - 1} gives" if stage > 0 else "the batch has"
            raise _errors.InvalidArgument(
                f"stage {stage} does not take what {giver} for micro-batch "
                f"{micro_batch}, {given}: {error}") from error

    def _loss_of(self, output: Any, micro_batch: int) -> torch.Tensor:
        """The share of the batch's mean loss."""
        targets = self._targets[micro_batch]
        if isinstance(output, torch.Tensor):
            targets = tuple(_on(one, output.device) for one in targets)
        loss = self._loss(output, *targets)
        if not (isinstance(loss, torch.Tensor) and loss.numel() == 1
                and loss.requires_grad):
            raise _errors.InvalidArgument(
                "the loss function gives the mean loss of a micro-batch: a tensor of "
                "one number that was computed from the last stage's output")
        return loss * (len(self._inputs[micro_batch][0]) / self._examples)


def _tensors(what: str, part: Any) -> List[torch.Tensor]:
    """Of one tensor, or of several."""
    tensors = list(part) if isinstance(part, (tuple, list)) else [part]
    if not tensors or any(not isinstance(one, torch.Tensor) or one.dim() == 0
                          for one in tensors):
        raise _errors.InvalidArgument(
            f"{what} is a tensor with an example in each row, or several in a tuple; "
            f"found a {type(part).__name__}")
    return tensors


def _split(tensors: List[torch.Tensor], size: int) -> List[Tuple[torch.Tensor, ...]]:
    """By micro-batch."""
    return list(zip(*[torch.split(one, size) for one in tensors]))
