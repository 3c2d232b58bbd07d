"""paramd for Python: a training loop of one's own as a worker of a cluster.

    import paramd.torch      a PyTorch loop (imports PyTorch)
    import paramd.keras      a Keras model, with its torch backend
    paramd.Worker            functions over NumPy arrays, JAX among them
    paramd.local             servers and workers on this machine
    paramd.load              a checkpoint as NumPy arrays
    paramd.Client            a running cluster: status, weights, settings, checkpoints
    paramd.AsyncClient       the same in coroutines
    paramd.TFConfig          the cluster that TF_CONFIG describes

Nothing is loaded or started by the import.
"""

from paramd._errors import (Cancelled, Error, InvalidArgument, NotFinite,
                            PartlyPushed, Unavailable)
from paramd._version import __version__

__all__ = [
    "AsyncClient", "Cancelled", "Client", "Error", "InvalidArgument", "NotFinite",
    "PartlyPushed", "TFConfig", "Unavailable", "Worker", "__version__", "load",
    "local",
]

_HOMES = {
    "AsyncClient": "paramd.client",
    "Client": "paramd.client",
    "TFConfig": "paramd.tf_config",
    "Worker": "paramd.worker",
    "load": "paramd.checkpoint",
    "local": "paramd.cluster",
}


def __getattr__(name: str) -> object:
    # What needs NumPy is imported when it is first used.
    if name not in _HOMES:
        raise AttributeError(f"module 'paramd' has no attribute '{name}'")
    import importlib
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
