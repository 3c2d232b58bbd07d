"""paramd for Python: a training loop of one's own as a worker of a cluster.

    import paramd.torch      a PyTorch loop (imports PyTorch)
    import paramd.keras      a Keras model, with any backend (imports Keras)
    paramd.Worker            functions over NumPy arrays, JAX among them
    paramd.Shards            data in files that are read from their beginning
    paramd.Stream            data of which each worker reads its own
    import paramd.parquet    Parquet files: made into records, or leased (needs pyarrow)
    paramd.local             servers and workers on this machine
    paramd.load              a checkpoint as NumPy arrays
    paramd.Client            a running cluster: status, weights, settings, checkpoints
    paramd.AsyncClient       the same in coroutines
    paramd.TFConfig          the cluster that TF_CONFIG describes

Nothing is loaded or started by the import.
"""

from paramd._errors import (Cancelled, Error, InvalidArgument, JobStopped,
                            NotFinite, PartlyPushed, Unavailable)
from paramd._version import __version__

__all__ = [
    "AsyncClient", "Cancelled", "Client", "Error", "InvalidArgument", "JobStopped",
    "NotFinite", "PartlyPushed", "Shards", "Stream", "TFConfig", "Unavailable",
    "Worker", "__version__", "load", "local",
]

_HOMES = {
    "AsyncClient": "paramd.client",
    "Client": "paramd.client",
    "Shards": "paramd.data",
    "Stream": "paramd.data",
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
