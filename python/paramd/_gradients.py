"""The gradients of a batch, from PyTorch to the worker."""

import contextlib
import ctypes
import threading
from typing import (Any, Callable, Collection, Dict, Iterator, List, Optional,
                    Sequence, Tuple)

import numpy as np
import torch

from paramd import _errors
from paramd._session import Session, Work
from paramd._sharing import may_be_lent
from paramd._staging import Staging
from paramd._weights import not_copied

# Of less nothing leaves before all gradients are there (paramd.h).
_LEAVING_BYTES = 1 << 20


class _Finite(torch.optim.Optimizer):
    """What a GradScaler steps in place of an optimizer, if all gradients are
    finite."""

    def __init__(self, parameters: List[torch.Tensor]):
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> bool:
        """True, which is not None."""
        return True


def _clip(parameters: Sequence[torch.Tensor], most: float) -> None:
    """As torch.nn.utils.clip_grad_norm_, also of sparse gradients."""
    if all(p.grad is None or p.grad.layout == torch.strided for p in parameters):
        torch.nn.utils.clip_grad_norm_(parameters, most)
        return
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.layout != torch.strided:
            parameter.grad = parameter.grad.coalesce()  # Rows that come twice are one.
        if parameter.grad is not None:
            gradients.append(parameter.grad)
    norms = [(g if g.layout == torch.strided else g.values()).norm() for g in gradients]
    total = torch.stack([norm.to(norms[0].device) for norm in norms]).norm()
    factor = (most / (total + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.device))


class Gradients:
    """Those of the parameters that are trained, by number. They leave by layers,
    while others are computed, if the model is large enough.

    A batch is computed by one thread at a time; gradients come on autograd's, under
    the lock. `refuse_missing`: every one has to be there, so none leaves before.
    `clip_norm`: that of all together is at most so much, and none leaves before all
    are there; 0: as it is.
    """

    def __init__(self, session: Session, trained: Sequence[Tuple[str, torch.Tensor]],
                 staging: Optional[Staging], refuse_missing: bool,
                 clip_norm: float = 0):
        self._session = session
        self._trained = trained
        self._staging = staging
        self._refuse_missing = refuse_missing
        self.lock = threading.Lock()
        self._stepping = False
        self._shapes = [parameter.shape for _, parameter in trained]
        # Of the batch that is stepped, by number: which ones have come, whose
        # gradients are PyTorch's, and those that are lent while others are computed.
        self._has: List[bool] = []
        self._lendable: List[bool] = []
        self._lent: Dict[int, torch.Tensor] = {}
        self._addresses = (ctypes.c_void_p * len(trained))()
        self._clip_norm = clip_norm
        # Of the batch that is stepped, the numbers of those that it is a step of.
        self._only: Collection[int] = range(len(trained))
        by_layers = not clip_norm and (staging is not None or not refuse_missing and sum(
            4 * parameter.numel() for _, parameter in trained) >= _LEAVING_BYTES)
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._hook_of(number))
            for number, (_, parameter) in enumerate(trained)] if by_layers else []

    def close(self) -> None:
        """Leaves PyTorch alone."""
        for hook in self._hooks:
            hook.remove()

    def take_computed(self, work: Work, only: Optional[Collection[int]] = None) -> None:
        """What the program has left in `grad`, of the batch's mean loss, is written,
        or zeros where there is none. `only`: as in compute."""
        self._leave_others(only)
        self._has = [False] * len(self._trained)
        self._lendable = [False] * len(self._trained)  # They are the program's.
        with self._undoing():
            self._clip_and_take(work)
        self._fill_missing(work)
        self._drop_others()

    def _leave_others(self, only: Optional[Collection[int]]) -> None:
        """Of those that the batch is no step of there are no gradients."""
        everything = range(len(self._trained))
        self._only = everything if only is None else only
        for number in everything:
            if number not in self._only:
                self._session.leave_untouched(number)

    def _drop_others(self) -> None:
        for number, (_, parameter) in enumerate(self._trained):
            if number not in self._only:
                parameter.grad = None

    def _chosen(self) -> List[torch.Tensor]:
        return [parameter for number, (_, parameter) in enumerate(self._trained)
                if number in self._only]

    def _clip_and_take(self, work: Work) -> None:
        """Of gradients of the batch's mean loss that are all in `grad`."""
        parameters = self._chosen()
        if self._clip_norm:
            _clip(parameters, self._clip_norm)
        if work.scale != 1:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(work.scale)
        self._take_all(work)

    def compute(self, work: Work, loss: torch.Tensor, scaler: Any,
                only: Optional[Collection[int]] = None) -> bool:
        """Goes backward from the loss. Whether all gradients were finite, as far as
        a scaler has looked, and are written, or zeros where there is none. `only`:
        of these parameters, by number; the others stay as they are."""
        self._leave_others(only)
        self._has = [False] * len(self._trained)
        # What the program has put there it may write to at any time.
        self._lendable = [parameter.grad is None for _, parameter in self._trained]
        if work.scale != 1 and not self._clip_norm:
            loss = loss * work.scale
        if scaler is None:
            self._backward(work, loss)
        elif not self._scaled_backward(work, loss, scaler):
            return False
        self._fill_missing(work)
        self._drop_others()
        return True

    def drop(self) -> None:
        """Those of a batch that is left out."""
        for _, parameter in self._trained:
            parameter.grad = None

    @contextlib.contextmanager
    def _undoing(self) -> Iterator[None]:
        """Nothing of gradients is left by an exception: the batch may be computed
        again."""
        try:
            yield
        except BaseException:
            if self._staging is not None:
                self._staging.drop()
            for (_, parameter), is_ours in zip(self._trained, self._lendable):
                if is_ours:
                    parameter.grad = None
            raise

    def _backward(self, work: Work, loss: torch.Tensor) -> None:
        self._stepping = True
        try:
            with self._undoing():
                loss.backward()
                if self._clip_norm:
                    self._clip_and_take(work)
                    return
                if not self._hooks:
                    self._take_all(work)
                    return
                with self.lock:
                    self._take_staged(work, wait=True)
        finally:
            self._stepping = False
            self._lent.clear()

    def _scaled_backward(self, work: Work, loss: torch.Tensor, scaler: Any) -> bool:
        """Whether all gradients were finite, and are written."""
        with self._undoing():
            scaler.scale(loss).backward()
            chosen = self._chosen()
            if all(tensor.grad is None for tensor in chosen):
                return True  # There is nothing that a scaler could look at.
            # It has unscaled them.
            finite = scaler.step(_Finite(chosen))
            scaler.update()
            if finite is None:
                return False
            if self._clip_norm:
                self._clip_and_take(work)
            else:
                self._take_all(work)
            return True

    def _take_all(self, work: Work) -> None:
        """What backward has left."""
        with self.lock:
            lent = []
            for number, (_, parameter) in enumerate(self._trained):
                gradient = parameter.grad
                self._addresses[number] = None
                if gradient is None or number not in self._only:
                    continue
                parameter.grad = None
                self._has[number] = True
                if self._may_lend(number, gradient, work):
                    self._addresses[number] = gradient.data_ptr()
                    lent.append(gradient)
                else:
                    self.take(number, gradient.detach(), work)
            if lent:
                self._session.lend_gradients(0, self._addresses, lent)
            self._take_staged(work, wait=True)

    def _may_lend(self, number: int, gradient: torch.Tensor, work: Work) -> bool:
        return (self._lendable[number] and number not in work.rows
                and not (self._staging and self._staging.takes(number, gradient, work))
                and may_be_lent(gradient, self._shapes[number]))

    def _hook_of(self, number: int) -> Callable[[torch.Tensor], None]:
        def take(parameter: torch.Tensor) -> None:
            if not self._stepping or number not in self._only:
                return  # The program's own backward, which step adds to.
            with self.lock:
                session = self._session
                work = session.held
                gradient = parameter.grad
                if work is None or gradient is None:
                    return
                parameter.grad = None
                # Where a part of the model goes backward by itself, as in
                # torch.utils.checkpoint, a gradient comes in several parts.
                adds = self._has[number]
                if adds:
                    before = self._take_back(number, gradient, work)
                    if before is not None:
                        gradient, adds = before + gradient, False
                self._has[number] = True
                if not adds and self._may_lend(number, gradient, work):
                    session.lend_gradients(
                        number, (ctypes.c_void_p * 1)(gradient.data_ptr()), gradient)
                    self._lent[number] = gradient
                    written = True
                else:
                    written = self.take(number, gradient.detach(), work, adds)
                if written and not self._refuse_missing:
                    session.gradient_ready(number)
                self._take_staged(work, wait=False)
        return take

    def _take_back(self, number: int, gradient: torch.Tensor,
                   work: Work) -> Optional[torch.Tensor]:
        """Has the part of a gradient that came before this one not leave yet. That
        part; None if this one is to be added where it is written."""
        self._session.lend_gradients(number, (ctypes.c_void_p * 1)(None), None)
        before = self._lent.pop(number, None)
        if before is None and self._staging is not None:
            before = self._staging.take_back(number)
            if before is None and self._staging.takes(number, gradient, work):
                before = torch.from_numpy(work.gradients[number]).to(gradient.device)
        return before

    def take(self, number: int, gradient: torch.Tensor, work: Work,
             adds: bool = False) -> bool:
        """Whether it is written; else it is on its way from the device. `adds`: to
        what is written there."""
        try:
            if self._staging and self._staging.takes(number, gradient, work):
                self._staging.take(number, gradient)
                return False
            if number in work.rows:
                self._take_rows(number, gradient, work, adds)
                return True
            if gradient.layout != torch.strided:  # Of a sparse embedding.
                gradient = gradient.to_dense()
            into = torch.from_numpy(work.gradients[number])
            if adds:
                into.add_(gradient.to(into.device))
            else:
                into.copy_(gradient)
            return True
        except RuntimeError as error:
            raise not_copied(self._trained[number][0], gradient, error) from error

    def _take_staged(self, work: Work, wait: bool) -> None:
        """Gradients that have come from the device; `wait`: all."""
        if self._staging is None:
            return
        for number, gradient in self._staging.taken(wait):
            torch.from_numpy(work.gradients[number]).copy_(gradient)
            if not self._refuse_missing:
                self._session.gradient_ready(number)

    def _take_rows(self, number: int, gradient: torch.Tensor, work: Work,
                   adds: bool) -> None:
        """The gradient of those rows that were looked up."""
        name = self._trained[number][0]
        if gradient.layout == torch.strided:
            raise _errors.InvalidArgument(
                f"lookups names '{name}', whose gradient is of all its rows: it has "
                "to be the weight of an nn.Embedding(..., sparse=True) alone")
        gradient = gradient.coalesce()
        rows = gradient.indices()[0].to("cpu").numpy()
        places = np.searchsorted(work.rows[number], rows)
        known = np.append(work.rows[number], -1)[places] == rows
        if not known.all():
            raise _errors.InvalidArgument(
                f"the model reads row {rows[~known][0]} of '{name}', which lookups "
                "did not name for this batch")
        if not adds:
            work.gradients[number].fill(0)
        work.gradients[number][places] += gradient.values().to(  # Each row once.
            "cpu", torch.float32).numpy()

    def _fill_missing(self, work: Work) -> None:
        if not any(self._has):
            raise _errors.InvalidArgument(
                "no parameter that is trained got a gradient: compute the loss from "
                "the worker's model; nothing of this batch was pushed")
        for number, (name, _) in enumerate(self._trained):
            if self._has[number] or number not in self._only:
                continue
            if self._refuse_missing:
                raise _errors.InvalidArgument(
                    f"parameter '{name}' got no gradient; nothing of this batch "
                    "was pushed")
            work.gradients[number].fill(0)
