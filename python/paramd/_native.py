"""libparamd.so as its header program/paramd.h has it."""

import ctypes
import os
import pathlib
import sys
import threading
from typing import Any, Optional

from paramd._errors import Error
from paramd._version import __version__

ABI_VERSION = 10

END, STEP, EVALUATE, FIND_ROWS, FIND_TEST_ROWS = range(5)
OK, DEADLINE_EXCEEDED, NOT_FOUND, ABORTED = 0, 4, 5, 10

_c_double_p = ctypes.POINTER(ctypes.c_double)
_c_float_p = ctypes.POINTER(ctypes.c_float)
_c_int64_p = ctypes.POINTER(ctypes.c_int64)
_c_uint64_p = ctypes.POINTER(ctypes.c_uint64)


class Variable(ctypes.Structure):
    """paramd_variable"""
    _fields_ = [("name", ctypes.c_char_p), ("shape", _c_uint64_p),
                ("rank", ctypes.c_uint32), ("untrained", ctypes.c_int),
                ("initial", _c_float_p)]


class WorkerOptions(ctypes.Structure):
    """paramd_worker_options"""
    _fields_ = [("size", ctypes.c_size_t), ("job", ctypes.c_char_p),
                ("job_path", ctypes.c_char_p),
                ("settings", ctypes.POINTER(ctypes.c_char_p)),
                ("setting_count", ctypes.c_size_t),
                ("variables", ctypes.POINTER(Variable)),
                ("variable_count", ctypes.c_size_t),
                ("training_examples", ctypes.c_uint64),
                ("test_examples", ctypes.c_uint64),
                ("insecure", ctypes.c_int), ("tls_dir", ctypes.c_char_p),
                ("sparse", ctypes.POINTER(ctypes.c_int)),
                ("compute_dtypes", ctypes.POINTER(ctypes.c_char_p)),
                ("weights_memory", ctypes.POINTER(ctypes.c_void_p))]


class Work(ctypes.Structure):
    """paramd_work, with addresses as numbers."""
    _fields_ = [("kind", ctypes.c_int), ("epoch", ctypes.c_uint64),
                ("indices", ctypes.c_void_p), ("index_count", ctypes.c_uint64),
                ("weights", ctypes.c_void_p), ("gradients", ctypes.c_void_p),
                ("divisor", ctypes.c_double)]


class Pulled(ctypes.Structure):
    """paramd_pulled"""
    _fields_ = [("name", ctypes.c_char_p), ("shape", _c_uint64_p),
                ("rank", ctypes.c_uint32), ("values", _c_float_p)]


class Weights(ctypes.Structure):
    """paramd_weights"""
    _fields_ = [("variables", ctypes.POINTER(Pulled)), ("count", ctypes.c_size_t),
                ("least_step", ctypes.c_uint64), ("most_step", ctypes.c_uint64)]


class Saved(ctypes.Structure):
    """paramd_saved"""
    _fields_ = [("checkpoint", ctypes.c_char_p), ("epoch", ctypes.c_uint64),
                ("is_over", ctypes.c_int), ("weights", ctypes.POINTER(_c_float_p))]


class Result(ctypes.Structure):
    """paramd_result"""
    _fields_ = [("loss_sum", ctypes.c_double), ("examples", ctypes.c_uint64),
                ("correct", ctypes.c_uint64), ("labels", ctypes.c_uint64)]


class Pass(ctypes.Structure):
    """paramd_pass"""
    _fields_ = [("kind", ctypes.c_int), ("stage", ctypes.c_uint32),
                ("micro_batch", ctypes.c_uint32), ("device", ctypes.c_uint32)]


class Schedule(ctypes.Structure):
    """paramd_schedule"""
    _fields_ = [("passes", ctypes.POINTER(Pass)), ("count", ctypes.c_size_t),
                ("kept", ctypes.POINTER(ctypes.c_uint32))]


class TrainedEpoch(ctypes.Structure):
    """paramd_epoch"""
    _fields_ = [("epoch", ctypes.c_uint64), ("examples", ctypes.c_uint64),
                ("loss", ctypes.c_double)]


_lock = threading.Lock()
_library: Optional[Any] = None


def _find() -> str:
    given = os.environ.get("LIBPARAMD")
    if given:
        return given
    beside = pathlib.Path(__file__).with_name("libparamd.so")
    if beside.exists():
        return str(beside)
    raise Error(
        "libparamd.so is not in this installation of paramd; install the wheel, "
        "or name the library in the environment variable LIBPARAMD")


def check_version(path: str, said: str) -> None:
    """Refuses a library or a program of another version than this package; `said`
    begins with its own."""
    found = said.split(" ", 1)[0]
    if found != __version__:
        raise Error(f"'{path}' is paramd {found}; this package is {__version__}: "
                    "install both of one version")


def _open() -> Any:
    path = _find()
    mode = os.RTLD_NOW | os.RTLD_LOCAL
    if "tensorflow" in sys.modules:
        # It makes its own Protobuf and Abseil everybody's, which are of other
        # versions: the library looks first at what it was linked with. Not always:
        # an allocator that was preloaded would then serve a part of it.
        mode |= getattr(os, "RTLD_DEEPBIND", 0)
    try:
        library = ctypes.CDLL(path, mode=mode)
    except OSError as error:
        raise Error(f"'{path}' can't be loaded: {error}") from error
    library.paramd_abi_version.restype = ctypes.c_int
    found = library.paramd_abi_version()
    if found < ABI_VERSION:
        raise Error(f"'{path}' has version {found} of the C interface; this "
                    f"package needs {ABI_VERSION}: install both of one version")
    library.paramd_version.restype = ctypes.c_char_p
    check_version(path, str(library.paramd_version(), "utf-8"))
    library.paramd_error.restype = ctypes.c_char_p
    library.paramd_crc32c.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.paramd_crc32c.restype = ctypes.c_uint32
    worker = ctypes.c_void_p
    library.paramd_worker_start.argtypes = [ctypes.POINTER(WorkerOptions),
                                            ctypes.POINTER(worker)]
    library.paramd_worker_next.argtypes = [worker, ctypes.c_double,
                                           ctypes.POINTER(Work)]
    library.paramd_worker_gradient_ready.argtypes = [worker, ctypes.c_size_t]
    library.paramd_worker_lend_gradients.argtypes = [
        worker, ctypes.c_size_t, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_uint64]
    library.paramd_worker_returned.argtypes = [worker, ctypes.POINTER(_c_uint64_p),
                                               _c_uint64_p]
    library.paramd_worker_leave_untouched.argtypes = [worker, ctypes.c_size_t]
    library.paramd_worker_recompute.argtypes = [worker]
    library.paramd_worker_upcoming.argtypes = [worker, ctypes.POINTER(_c_int64_p),
                                               _c_uint64_p]
    library.paramd_worker_found_rows.argtypes = [worker, ctypes.c_size_t,
                                                 _c_int64_p, ctypes.c_uint64]
    library.paramd_worker_rows.argtypes = [worker, ctypes.c_size_t,
                                           ctypes.POINTER(_c_uint64_p), _c_uint64_p]
    library.paramd_worker_finish.argtypes = [worker, ctypes.POINTER(Result)]
    library.paramd_worker_set.argtypes = [worker, ctypes.c_char_p, ctypes.c_char_p]
    library.paramd_worker_training.argtypes = [
        worker, ctypes.POINTER(ctypes.POINTER(TrainedEpoch)),
        ctypes.POINTER(ctypes.c_size_t)]
    saved = ctypes.POINTER(Saved)
    library.paramd_saved_find.argtypes = [ctypes.POINTER(WorkerOptions),
                                          ctypes.POINTER(saved)]
    library.paramd_worker_saved.argtypes = [worker, ctypes.POINTER(saved)]
    library.paramd_worker_run_dir.argtypes = [worker]
    library.paramd_worker_run_dir.restype = ctypes.c_char_p
    library.paramd_saved_free.argtypes = [saved]
    library.paramd_saved_free.restype = None
    library.paramd_worker_close.argtypes = [worker]
    weights = ctypes.POINTER(Weights)
    library.paramd_pull.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p),
        ctypes.c_size_t, ctypes.c_double, ctypes.POINTER(weights)]
    library.paramd_weights_free.argtypes = [weights]
    library.paramd_weights_free.restype = None
    schedule = ctypes.POINTER(Schedule)
    library.paramd_schedule_make.argtypes = [
        ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32,
        ctypes.POINTER(schedule)]
    library.paramd_schedule_free.argtypes = [schedule]
    library.paramd_schedule_free.restype = None
    return library


def library() -> Any:
    """The library, loaded when it is first asked for."""
    global _library
    with _lock:
        if _library is None:
            _library = _open()
        return _library


def crc32c(address: int, size: int) -> int:
    """The checksum of so many bytes."""
    return int(library().paramd_crc32c(address, size))


def last_error() -> str:
    """Why this thread's last call failed."""
    return str(library().paramd_error(), "utf-8", "replace")
