"""What the stages of a model compute when, as compute/pipeline has it: a list."""

import ctypes
from typing import List, NamedTuple, Tuple

from paramd import _errors, _native

FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_VARIABLES = range(1, 5)
_MOST = (1 << 32) - 1


class Pass(NamedTuple):
    """A micro-batch passes a stage; both count from 0."""
    kind: int
    stage: int
    micro_batch: int
    device: int  # Of the schedule's: stage modulo their number.


class Schedule(NamedTuple):
    """Passes in an order in which each comes after what it needs; those of a stage
    come in the order of micro-batches."""
    passes: Tuple[Pass, ...]
    # By stage: of how many micro-batches at most something is kept at once.
    kept: Tuple[int, ...]


def make(name: str, stages: int, micro_batches: int,
         stages_per_device: int = 1) -> Schedule:
    """The schedule 1f1b, gpipe, interleaved, naive or zero_bubble. InvalidArgument
    for another name, and for numbers that do not fit."""
    for what, value in (("stages", stages), ("micro_batches", micro_batches),
                        ("stages_per_device", stages_per_device)):
        if isinstance(value, bool) or not isinstance(value, int) or not (
                0 < value <= _MOST):
            raise _errors.InvalidArgument(
                f"{what} is a whole number above 0; found {value!r}")
    if not isinstance(name, str):
        raise _errors.InvalidArgument(f"schedule is a name; found {name!r}")
    library = _native.library()
    made = ctypes.POINTER(_native.Schedule)()
    code = library.paramd_schedule_make(
        name.encode(), stages, stages_per_device, micro_batches, ctypes.byref(made))
    if code != _native.OK:
        raise _errors.make(code, _native.last_error())
    try:
        found = made.contents
        passes: List[Pass] = []
        for number in range(found.count):
            one = found.passes[number]
            passes.append(Pass(int(one.kind), int(one.stage), int(one.micro_batch),
                               int(one.device)))
        return Schedule(tuple(passes), tuple(int(kept) for kept in found.kept[:stages]))
    finally:
        library.paramd_schedule_free(made)
