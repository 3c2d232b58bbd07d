"""Copies between a CUDA device and pinned memory, while the device computes."""

import collections
from typing import Any, Deque, Dict, Iterator, Optional, Tuple

import numpy as np
import torch

from paramd._session import Work


class Staging:
    """Pinned memory for parameters and gradients on a device, one piece of each.

    Weights are copied on the stream that computes, so what reads them waits for them.
    Gradients are copied on a stream of their own, after what made them.

    Used by one thread at a time. `cuda` is torch.cuda, or what stands for it.
    """

    def __init__(self, cuda: Any = torch.cuda, device_type: str = "cuda"):
        self._cuda = cuda
        self._device_type = device_type
        self._streams: Dict[torch.device, Any] = {}
        # By number of the tensor; an event is that the device has read it.
        self._weights: Dict[int, Tuple[torch.Tensor, Any]] = {}
        self._gradients: Dict[int, torch.Tensor] = {}
        # With the gradient, whose memory is the device's again only then.
        self._leaving: Deque[Tuple[int, Any, torch.Tensor]] = collections.deque()

    def serves(self, tensor: torch.Tensor) -> bool:
        """Whether it is on the device."""
        return bool(tensor.device.type == self._device_type)

    def takes(self, number: int, tensor: torch.Tensor, work: Work) -> bool:
        """Whether all of it goes this way: neither rows nor a sparse gradient do."""
        return (number not in work.rows and tensor.layout == torch.strided
                and self.serves(tensor))

    def load(self, number: int, tensor: torch.Tensor, weights: np.ndarray) -> None:
        """Begins to copy the weights, which may change at once, into the tensor."""
        if number not in self._weights:
            self._weights[number] = self._pinned(tensor), self._cuda.Event()
        pinned, read = self._weights[number]
        read.synchronize()
        pinned.copy_(torch.from_numpy(weights))
        with self._cuda.device(tensor.device):
            tensor.copy_(pinned, non_blocking=True)
            read.record()

    def take(self, number: int, gradient: torch.Tensor) -> None:
        """Begins to copy the gradient, which was made on the current stream."""
        if number not in self._gradients:
            self._gradients[number] = self._pinned(gradient)
        device = gradient.device
        if device not in self._streams:
            self._streams[device] = self._cuda.Stream(device)
        stream = self._streams[device]
        stream.wait_stream(self._cuda.current_stream(device))
        with self._cuda.stream(stream):
            self._gradients[number].copy_(gradient.to(torch.float32),
                                          non_blocking=True)
            copied = self._cuda.Event()
            copied.record(stream)
        self._leaving.append((number, copied, gradient))

    def taken(self, wait: bool) -> Iterator[Tuple[int, torch.Tensor]]:
        """Gradients that have been copied, by number, each once; `wait`: all."""
        while self._leaving:
            number, copied, _ = self._leaving[0]
            if wait:
                copied.synchronize()
            elif not copied.query():
                return
            self._leaving.popleft()
            yield number, self._gradients[number]

    def take_back(self, number: int) -> Optional[torch.Tensor]:
        """The gradient, if it is under way, which is not handed out any more."""
        for place, (leaving, _, gradient) in enumerate(self._leaving):
            if leaving == number:
                del self._leaving[place]
                return gradient
        return None

    def drop(self) -> None:
        """Forgets gradients that are under way, of a batch that is not stepped."""
        for _ in self.taken(wait=True):
            pass

    def _pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(tensor.shape, dtype=torch.float32,
                           pin_memory=self._cuda.is_available())
