"""Parameters that lie where the worker pulls weights to."""

from typing import Any, Iterable, List, Optional, Set

import numpy as np
import torch

_ALIGNMENT = 64

# How many hold a storage, by its address; PyTorch's own.
_holders: Any = getattr(torch._C, "_storage_Use_Count", None)


def _count_holders(storage: Any) -> int:
    return int(_holders(storage._cdata)) if _holders is not None else 0


# Of a tensor that has its memory alone; 0: this PyTorch can't tell.
_fresh = torch.empty(1)
_ALONE = _count_holders(_fresh.untyped_storage())


def _is_alone(tensor: torch.Tensor) -> bool:
    """Whether the tensor's memory is all of it, and no other tensor or array is
    there."""
    storage = tensor.untyped_storage()
    return (storage.nbytes() == tensor.element_size() * tensor.numel()
            and 0 < _count_holders(storage) <= _ALONE)


def _address(tensor: torch.Tensor) -> Optional[int]:
    """Where its memory begins; None of a tensor that wraps others, or is none."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except RuntimeError:  # NotImplementedError is one.
        return None


def shareable(tensors: Iterable[torch.Tensor],
              others: Iterable[torch.Tensor]) -> "List[bool]":
    """Of each parameter, whether it may lie elsewhere: a plain one of float32 on the
    processor, in memory that is all of it and its alone, which nobody else holds;
    `others` is what else the model has."""
    tensors = list(tensors)
    seen: Set[int] = set()
    twice: Set[int] = set()
    plain = [_is_plain(tensor) for tensor in tensors]
    for tensor in [*tensors, *others]:
        if tensor.layout == torch.strided and tensor.device.type == "cpu":
            address = _address(tensor)
            if address is not None:
                (twice if address in seen else seen).add(address)
    return [is_plain and _address(tensor) not in twice
            for is_plain, tensor in zip(plain, tensors)]


def _is_plain(tensor: torch.Tensor) -> bool:
    return (type(tensor) is torch.nn.Parameter and tensor.device.type == "cpu"
            and tensor.dtype == torch.float32 and tensor.layout == torch.strided
            and tensor.is_contiguous() and tensor.numel() > 0
            and not tensor.is_inference() and not tensor.is_shared()
            and _is_alone(tensor))


def _memory(shape: torch.Size) -> np.ndarray:
    """Of so many float32, aligned as PyTorch's. It is NumPy's, because PyTorch frees
    its own when a tensor is moved to memory that processes share."""
    size = 4 * shape.numel()
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -raw.ctypes.data % _ALIGNMENT
    memory: np.ndarray = raw[begin:begin + size].view(np.float32).reshape(shape)
    return memory


class Shared:
    """A parameter that is read where weights were pulled to: in one of two tensors
    while the other one is pulled into.

    Somebody else may put it elsewhere, by model.to(), by parameter.data = ...: then
    its values have to be copied there.
    """

    def __init__(self, parameter: torch.Tensor):
        self.parameter = parameter
        self.memory = [_memory(parameter.shape) for _ in range(2)]
        self._tensors = [torch.from_numpy(memory) for memory in self.memory]
        self._addresses = [tensor.data_ptr() for tensor in self._tensors]
        self._own: Optional[torch.Tensor] = None  # For weights from elsewhere.
        self._address = parameter.data_ptr()

    def release(self) -> None:
        """Nothing is shown any more: the memory is the parameter's alone."""
        self._tensors.clear()
        self._own = None

    def show(self, weights: np.ndarray) -> bool:
        """Has the parameter be these weights, without a copy if they are in the
        memory. False, and nothing changed, if somebody has put it elsewhere."""
        if self.parameter.data_ptr() != self._address:
            return False
        for place, memory in enumerate(self.memory):
            if memory is not weights:
                continue
            self._address = self._addresses[place]
            if self._tensors[place].data_ptr() != self._address:
                self._tensors[place] = torch.from_numpy(memory)  # That one was moved.
            self.parameter.data = self._tensors[place]
            return True
        if self._own is None:
            self._own = torch.empty(self.parameter.shape, dtype=torch.float32,
                                    device="cpu")
        self.parameter.data = self._own.copy_(torch.from_numpy(weights))
        self._address = self._own.data_ptr()
        return True


def may_be_lent(gradient: torch.Tensor, shape: torch.Size) -> bool:
    """Whether the gradient can be read where it is, and nobody writes there later:
    a hook that returns a view, or keeps one, does."""
    return (type(gradient) is torch.Tensor and gradient.dtype is torch.float32
            and gradient.layout is torch.strided and gradient.is_cpu
            and gradient.shape == shape and gradient.is_contiguous()
            and not gradient.is_neg() and _is_alone(gradient))
