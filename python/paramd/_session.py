"""A worker of the C interface, with NumPy arrays in place of pointers."""

import ctypes
import json
import os
import signal
import sys
import threading
import warnings
import weakref
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from paramd import _errors, _job, _native

_CANCELLED = 1

# So long a call may keep Python from seeing a signal.
_PATIENCE_SECONDS = 0.2
# A thread that still uses the worker is waited for, when Python ends.
_LAST_PATIENCE_SECONDS = 5.0


class Variable(NamedTuple):
    """Numbers that the servers hold."""
    name: str
    initial: np.ndarray  # float32, of the variable's shape
    untrained: bool = False
    sparse: bool = False  # Only rows that a batch reads travel; two dimensions.
    computed_in: str = "float32"  # What the program has it as.
    # None, or two arrays of its shape in which its weights lie by turns. Those of a
    # step stay as they are until the next one begins.
    memory: Sequence[np.ndarray] = ()


class Saved(NamedTuple):
    """What the newest checkpoint of a run has.

    Attributes:
      epoch: that the job goes on in, from 1; after the last one: one more.
      is_over: all that the job wants is trained.
      weights: float32, one array a variable.
    """
    checkpoint: str
    epoch: int
    is_over: bool
    weights: List[np.ndarray]

    def say_if_over(self) -> None:
        """A script that is run again trains nothing: whoever reads along is told."""
        if self.is_over:
            warnings.warn(
                "all epochs of this job are trained already, and nothing is trained "
                f"now: the model gets the weights of '{self.checkpoint}'; to train, "
                "give more epochs, or another run_dir for a new run",
                RuntimeWarning, stacklevel=3)


class Work:
    """What is to be computed. Arrays are the worker's memory: good until it is
    finished.

    Attributes:
      is_step: else an evaluation, which has no gradients, or a question.
      asks: not what is computed, but which rows of sparse variables these examples
        read; there are neither weights nor gradients.
      of_test: indices are of the test data.
      epoch: from 1.
      indices: int64, numbers of examples in the training or the test data.
      weights: float32, one array a variable; of a sparse one its rows.
      gradients: float32, one array a variable, to be written: of the sum of the
        examples' losses / divisor.
      rows: by number of a sparse variable, int64, ascending: which rows those are.
    """
    __slots__ = ("is_step", "asks", "of_test", "epoch", "indices", "weights",
                 "gradients", "rows", "divisor")

    def __init__(self, work: _native.Work, shapes: "_Shapes",
                 rows: "Dict[int, np.ndarray]"):
        self.is_step = work.kind == _native.STEP
        self.asks = work.kind in (_native.FIND_ROWS, _native.FIND_TEST_ROWS)
        self.of_test = work.kind in (_native.EVALUATE, _native.FIND_TEST_ROWS)
        self.epoch = int(work.epoch)
        self.indices = np.frombuffer(bytearray(
            ctypes.string_at(work.indices, 8 * work.index_count)), np.int64)
        self.rows = rows
        self.weights = [] if self.asks else shapes.arrays(work.weights, rows)
        self.gradients = (shapes.arrays(work.gradients, rows) if self.is_step
                          else [])
        self.divisor = float(work.divisor)

    @property
    def scale(self) -> float:
        """What gradients of the mean loss of these examples are multiplied by."""
        return len(self.indices) / self.divisor


def _floats_at(address: int, shape: "tuple[int, ...]") -> np.ndarray:
    if 0 in shape:  # There may be no memory.
        return np.empty(shape, np.float32)
    pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
    array: np.ndarray = np.ctypeslib.as_array(pointer, shape or (1,))
    return array.reshape(shape)


class _Shapes:
    """Arrays of the variables' shapes at the worker's addresses, which come again
    and again."""

    # Lists of arrays that are kept. Only a session that begins anew has others.
    _KEPT = 16

    def __init__(self, variables: Sequence[Variable]):
        self._shapes = [variable.initial.shape for variable in variables]
        self._lent = [{array.ctypes.data: array for array in variable.memory}
                      for variable in variables]
        self._known: Dict[bytes, List[np.ndarray]] = {}

    def arrays(self, pointers: int,
               rows: "Dict[int, np.ndarray]") -> List[np.ndarray]:
        """One array a variable, at the addresses that lie there; those of memory
        that was lent are the very ones."""
        addresses = ctypes.string_at(pointers, 8 * len(self._shapes))
        arrays = None if rows else self._known.get(addresses)
        if arrays is None:
            arrays = []
            for number, address in enumerate(np.frombuffer(addresses,
                                                           np.uint64).tolist()):
                array = self._lent[number].get(address)
                if array is None:
                    shape = self._shapes[number]
                    if number in rows:
                        shape = len(rows[number]), shape[1]
                    array = _floats_at(address, shape)
                arrays.append(array)
            if not rows:
                if len(self._known) == self._KEPT:
                    self._known.clear()
                self._known[addresses] = arrays
        return arrays


def _leave_on_sigterm() -> None:
    """Where the program has nothing of its own for SIGTERM, which ends pods, it
    becomes an exit with 143: what ends well leaves the job well."""
    if (threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


# How many forks made this process of the one that imported this: cheaper to look
# at than its number, which costs a system call.
_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


# What workers use that could not be closed.
_left_behind: List[Any] = []


def _close(handle: int, forks: int, busy: Any, memory: Any,
           lent: Dict[int, Any]) -> int:
    # A process forked from the worker's has a copy without the worker's threads.
    # One whose other thread is in a call can't free what that uses.
    if _forks != forks:
        return _CANCELLED
    if not busy.acquire(timeout=_LAST_PATIENCE_SECONDS):
        _left_behind.append((memory, lent))
        return _CANCELLED
    try:
        code = int(_native.library().paramd_worker_close(ctypes.c_void_p(handle)))
        lent.clear()
        return code
    finally:
        busy.release()


def _check_process(forks: int) -> None:
    if _forks != forks:
        raise _errors.Error(
            "this process was forked from the worker's: fork first, then start "
            "the worker (DataLoader: multiprocessing_context='spawn')")


def _options(job: Mapping[str, Any], variables: Sequence[Variable], examples: int = 0,
             test_examples: int = 0, insecure: bool = False,
             tls_dir: Optional[str] = None, reads_only: bool = False
             ) -> "tuple[_native.WorkerOptions, list[Any]]":
    """And what they point to. `reads_only`: nothing is to begin with the variables'
    values, and no weights are to lie in their memory."""
    keep: List[Any] = []
    described = (_native.Variable * len(variables))()
    for variable, to in zip(variables, described):
        dims = variable.initial.shape  # ascontiguousarray has one at least.
        shape = (ctypes.c_uint64 * len(dims))(*dims)
        keep.append(shape)
        to.name = variable.name.encode()
        to.shape = shape
        to.rank = len(dims)
        to.untrained = int(variable.untrained)
        if not reads_only:
            initial = np.ascontiguousarray(variable.initial, np.float32)
            keep.append(initial)
            to.initial = initial.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    keep.append(described)
    options = _native.WorkerOptions()
    options.size = ctypes.sizeof(options)
    options.job = json.dumps(job).encode()
    options.variables = described
    options.variable_count = len(variables)
    options.training_examples = examples
    options.test_examples = test_examples
    options.insecure = int(insecure)
    options.tls_dir = tls_dir.encode() if tls_dir else None
    sparse = (ctypes.c_int * len(variables))(
        *(int(variable.sparse) for variable in variables))
    keep.append(sparse)
    options.sparse = sparse
    computed_in = (ctypes.c_char_p * len(variables))(
        *(None if variable.computed_in == "float32"
          else variable.computed_in.encode() for variable in variables))
    keep.append(computed_in)
    options.compute_dtypes = computed_in
    if not reads_only:
        memory = (ctypes.c_void_p * (2 * len(variables)))()
        for number, variable in enumerate(variables):
            for place, array in enumerate(variable.memory):
                memory[2 * number + place] = array.ctypes.data
        keep.append(memory)
        options.weights_memory = memory
    return options, keep


def _take_saved(found: Any, variables: Sequence[Variable]) -> Saved:
    """What the library has found, which is freed."""
    try:
        saved = found.contents
        weights = [np.empty(variable.initial.shape, np.float32)
                   for variable in variables]
        for number, values in enumerate(weights):
            if values.size:
                ctypes.memmove(values.ctypes.data, saved.weights[number],
                               values.nbytes)
        return Saved(str(saved.checkpoint, "utf-8", "replace"), int(saved.epoch),
                     bool(saved.is_over), weights)
    finally:
        _native.library().paramd_saved_free(found)


def find_saved(job: Mapping[str, Any],
               variables: Sequence[Variable]) -> Optional[Saved]:
    """What the run has that a Session of this job would go on with; None if there is
    nothing that could be read. What is wrong the Session says."""
    library = _native.library()
    options, keep = _options(job, variables, reads_only=True)
    found = ctypes.POINTER(_native.Saved)()
    code = library.paramd_saved_find(ctypes.byref(options), ctypes.byref(found))
    del keep
    return _take_saved(found, variables) if code == _native.OK else None


class _Exclusively:
    """See Session.exclusively. It is entered some ten times in a step."""

    def __init__(self, forks: int, busy: Any):
        self._forks = forks
        self._busy = busy

    def __enter__(self) -> None:
        if _forks != self._forks:
            _check_process(self._forks)
        if not self._busy.acquire(blocking=False):
            raise _errors.Error("two threads use one worker: let one of them do "
                                "all that is asked of it")

    def __exit__(self, *_: Any) -> None:
        self._busy.release()


class Session:
    """One worker, from its start to its end.

    Used by one thread at a time and by the process that started it: another one
    gets an Error.
    """

    def __init__(self, job: Mapping[str, Any], variables: Sequence[Variable], *,
                 examples: int, test_examples: int = 0, insecure: bool = False,
                 tls_dir: Optional[str] = None):
        self.variables = list(variables)
        self._shapes = _Shapes(self.variables)
        self._stepped = False
        self._forks = _forks
        self._busy = threading.RLock()
        self._exclusively = _Exclusively(self._forks, self._busy)
        self._held: Optional[Work] = None
        self._computed = False  # Gradients of it were written.
        # Gradients that the worker reads, by a number of their own.
        self._lent: Dict[int, Any] = {}
        self._loans = 0
        self._returned = ctypes.POINTER(ctypes.c_uint64)()
        self._returned_count = ctypes.c_uint64()
        self._ended = False
        self._over = False  # The job has finished, as next said.
        self._finished = False
        _job.warn_if_alone_among_many()
        library = self._library = _native.library()
        worker = ctypes.c_void_p()
        options, keep = _options(job, self.variables, examples, test_examples,
                                 insecure, tls_dir)
        code = library.paramd_worker_start(ctypes.byref(options),
                                           ctypes.byref(worker))
        del keep
        if code != _native.OK:
            raise _errors.make(code, _native.last_error())
        _leave_on_sigterm()
        # Also when Python ends: a worker that leaves says so.
        self._finalizer = weakref.finalize(self, _close, worker.value or 0,
                                           self._forks, self._busy,
                                           [v.memory for v in self.variables],
                                           self._lent)
        self._worker = worker
        _job.say_where(job, os.fsdecode(library.paramd_worker_run_dir(worker)))

    def exclusively(self) -> _Exclusively:
        """The worker is this thread's in a with block, and in one within it. Error
        for another thread, and for a forked process."""
        return self._exclusively

    def _check(self, code: int) -> None:
        """Of a call for the work that is held."""
        if code == _native.ABORTED:
            raise _errors.PartlyPushed(_native.last_error(), code)
        if code != _native.OK:
            raise _errors.make(code, _native.last_error())

    def next(self) -> Optional[Work]:
        """Waits for the next work, and holds it; None once the job has finished.
        Raises what ended the worker, Cancelled once it is closed. KeyboardInterrupt
        is raised here at once."""
        with self.exclusively():
            if self._held is not None:
                raise _errors.Error("the last batch was not stepped: call step, or "
                                    "skip to leave it out")
            if self._over:
                return None
            if self._ended:
                raise _errors.Cancelled("this worker has left the job", _CANCELLED)
            work = _native.Work()
            while True:
                code = self._library.paramd_worker_next(
                    self._worker, _PATIENCE_SECONDS, ctypes.byref(work))
                if code != _native.DEADLINE_EXCEEDED:
                    break
            if code != _native.OK:
                self._ended = True
                raise _errors.make(code, _native.last_error())
            if work.kind == _native.END:
                self._ended = self._over = True
                return None
            self._held = Work(work, self._shapes, self._rows())
            self._computed = False
            return self._held

    def saved(self) -> Optional[Saved]:
        """What the newest checkpoint of the run has; None if there is none that
        could be read."""
        with self.exclusively():
            found, _ = self._read_saved()
            return found

    def trained(self) -> "Optional[List[np.ndarray]]":
        """The weights that the job has ended with, by variable, once next has said
        so. None, with a warning, if this process can't read them: the program has
        those of its last step then, or it gets an Error if there was none."""
        with self.exclusively():
            found, why = self._read_saved()
        if found is not None:
            return found.weights
        sentence = ("the job has finished, and this process can't read its last "
                    f"checkpoint ({why})")
        if not self._stepped:
            raise _errors.Error(
                f"{sentence}, so its model can't have the trained weights: give it "
                "a run_dir that all processes have")
        warnings.warn(f"{sentence}: the model has the weights of this worker's last "
                      "batch, which are not the final ones", RuntimeWarning,
                      stacklevel=3)
        return None

    def _read_saved(self) -> "tuple[Optional[Saved], str]":
        """Or why it could not be read."""
        if self._finalizer.alive:
            found = ctypes.POINTER(_native.Saved)()
            code = self._library.paramd_worker_saved(self._worker,
                                                     ctypes.byref(found))
            if code == _native.OK:
                return _take_saved(found, self.variables), ""
        return None, _native.last_error()

    def _rows(self) -> "Dict[int, np.ndarray]":
        """Of the work that was returned: by sparse variable."""
        found: "Dict[int, np.ndarray]" = {}
        for number, variable in enumerate(self.variables):
            if not variable.sparse:
                continue
            rows = ctypes.POINTER(ctypes.c_uint64)()
            count = ctypes.c_uint64()
            self._check(self._library.paramd_worker_rows(
                self._worker, number, ctypes.byref(rows), ctypes.byref(count)))
            found[number] = (np.ctypeslib.as_array(rows, (count.value,)).astype(
                np.int64) if count.value else np.empty(0, np.int64))
        return found

    def found_rows(self, number: int, rows: np.ndarray) -> None:
        """Of work that asks: these rows of the variable are read, in whatever order,
        as often as it likes."""
        with self.exclusively():
            rows = np.ascontiguousarray(rows, np.int64).reshape(-1)
            self._check(self._library.paramd_worker_found_rows(
                self._worker, number,
                rows.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), len(rows)))

    @property
    def held(self) -> Optional[Work]:
        """What next returned last, unless it is finished."""
        return self._held

    def upcoming(self) -> Optional[np.ndarray]:
        """The examples of a batch that next will likely return soon, each said
        once; None if none is known now."""
        with self.exclusively():
            if self._ended:
                return None
            indices = ctypes.POINTER(ctypes.c_int64)()
            count = ctypes.c_uint64()
            self._library.paramd_worker_upcoming(
                self._worker, ctypes.byref(indices), ctypes.byref(count))
            if count.value == 0:
                return None
            found: np.ndarray = np.ctypeslib.as_array(indices, (count.value,))
            return found.copy()

    def gradient_ready(self, number: int) -> None:
        """The gradient of this variable is final, and may leave. NotFinite, or
        PartlyPushed if others have left, as finish. On any thread, while the one
        whose the worker is waits for it."""
        _check_process(self._forks)
        self._check(self._library.paramd_worker_gradient_ready(self._worker, number))

    def lend_gradients(self, first: int, addresses: Any, gradients: Any) -> None:
        """Gradients of the variables first, first + 1, ... are read at these
        addresses, a ctypes array, and not in the work's arrays; None: in that.
        `gradients` is what lies there, which is held until nobody reads it. On any
        thread, as gradient_ready."""
        _check_process(self._forks)
        self._loans += 1
        self._lent[self._loans] = gradients
        self._check(self._library.paramd_worker_lend_gradients(
            self._worker, first, len(addresses), addresses, self._loans))

    def leave_untouched(self, number: int) -> None:
        """The work that is held has no gradient of this variable, which stays as it
        is, with all that its optimizer keeps of it."""
        with self.exclusively():
            self._check(self._library.paramd_worker_leave_untouched(
                self._worker, number))

    def _take_returned(self) -> None:
        if not self._lent:
            return
        self._library.paramd_worker_returned(
            self._worker, ctypes.byref(self._returned),
            ctypes.byref(self._returned_count))
        for number in self._returned[:self._returned_count.value]:
            self._lent.pop(number, None)

    def compute(self) -> None:
        """Before gradients of the work that is held are written, also anew.
        PartlyPushed, with nothing left to do but to close, if some have left."""
        with self.exclusively():
            if self._computed and self._held is not None:
                self._check(self._library.paramd_worker_recompute(self._worker))
            self._computed = True
            self._take_returned()  # For the gradients that are made now.

    def finish(self, mean_loss: float, correct: int = 0, labels: int = 0) -> None:
        """Pushes the gradients. NotFinite leaves the work held; after PartlyPushed
        there is nothing left to do but to close."""
        count = len(self._held.indices) if self._held is not None else 0
        self._finish(_native.Result(mean_loss * count, count, correct, labels))

    def finish_without_examples(self) -> None:
        """Pushes the gradients; the batch is in no figure."""
        self._finish(_native.Result(0.0, 0, 0, 0))

    def _finish(self, result: _native.Result) -> None:
        with self.exclusively():
            if self._held is None:
                raise _errors.Error("there is no batch to step: take one first")
            self._check(self._library.paramd_worker_finish(
                self._worker, ctypes.byref(result)))
            self._stepped = self._stepped or self._held.is_step
            self._held = None

    def set_rate_scale(self, scale: float) -> None:
        """Every learning rate of the job is multiplied by so much from now on; nothing
        once the job is over. The chief's alone."""
        if isinstance(scale, bool) or not isinstance(scale, (int, float, np.number)):
            raise _errors.InvalidArgument(
                f"learning_rate_scale is a number; found a {type(scale).__name__}")
        with self.exclusively():
            if self._over:
                return
            if self._ended:
                raise _errors.Cancelled("this worker has left the job", _CANCELLED)
            self._check(self._library.paramd_worker_set(
                self._worker, b"learning_rate_scale", repr(float(scale)).encode()))

    def training_losses(self) -> Dict[int, float]:
        """Of the job, which has finished: the mean loss of each epoch's examples, over
        all workers, by epoch from 1."""
        epochs = ctypes.POINTER(_native.TrainedEpoch)()
        count = ctypes.c_size_t()
        with self.exclusively():
            self._check(self._library.paramd_worker_training(
                self._worker, ctypes.byref(epochs), ctypes.byref(count)))
            return {epochs[i].epoch: epochs[i].loss for i in range(count.value)}

    def close(self) -> bool:
        """Leaves the job; whether it had finished. Work that is held is dropped,
        and its examples are handed out again."""
        if _forks != self._forks:
            self._finalizer.detach()  # The worker is another process's.
            return False
        with self.exclusively():
            self._ended = True
            self._held = None
            code = self._finalizer()  # None: it was closed before.
            self._finished = self._finished or code == _native.OK
            return self._finished
