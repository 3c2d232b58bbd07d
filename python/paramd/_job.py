"""The job that a program trains: a job file, and what beats it."""

import json
import os
import warnings
from typing import Any, Dict, Mapping, Union

from paramd._errors import InvalidArgument

Job = Union[None, str, "os.PathLike[str]", Mapping[str, Any]]

# What the program says in Python's words, by the setting that it is.
_WORDS = {"batch_size": "batch_per_replica"}


def _simple(value: Any) -> Any:
    """What JSON has no word for: a path, or numbers of NumPy or PyTorch."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError


def _plain(name: str, value: Any) -> Any:
    """The setting as a job file has it."""
    try:
        return json.loads(json.dumps(value, default=_simple))
    except (TypeError, ValueError) as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        if name == "optimizer":
            raise InvalidArgument(
                "optimizer: the servers have it, so give it as in the job file, "
                '{"adam": {}, "learning_rate": 0.001} for example; found a '
                f"{kind}") from error
        raise InvalidArgument(
            f"{name}: settings are numbers, texts, lists and dictionaries, as in "
            f"the job file; found a {kind}, or one that holds others") from error


def read(job: Job, settings: Mapping[str, Any]) -> Dict[str, Any]:
    """The job as a dictionary: a job file's path or content, then `settings`.

    Each setting replaces the one of its name, whole. The model is the program's
    own. Raises InvalidArgument if the file can't be read.
    """
    if job is None:
        content: Dict[str, Any] = {}
    elif isinstance(job, Mapping):
        content = dict(job)
    else:
        try:
            with open(job, encoding="utf-8") as file:
                content = json.load(file)
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"job file '{job}': {error}") from error
        if not isinstance(content, dict):
            raise InvalidArgument(f"job file '{job}': wants an object")
    for name, value in settings.items():
        if value is not None:
            content[_WORDS.get(name, name)] = value
    content = {name: _plain(name, value) for name, value in content.items()}
    content.setdefault("name", "python")
    content.setdefault("log_level", "warning")
    model = content.setdefault("model", {})
    if isinstance(model, dict):
        model = dict(model)
        model.setdefault("custom", True)
        content["model"] = model
    return content


# Where torchrun and mpirun tell processes how many they are.
_COUNTS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def warn_if_alone_among_many() -> None:
    """Of processes that a launcher started, but nobody told of a cluster, each would
    train everything by itself, as if nothing were wrong."""
    if os.environ.get("TF_CONFIG", "").strip():
        return
    for name in _COUNTS:
        count = os.environ.get(name, "")
        if count.isdigit() and int(count) > 1:
            warnings.warn(
                f"{name} is {count}, but TF_CONFIG is not set: each of these "
                "processes trains the whole job by itself; give each its TF_CONFIG, "
                "or start them with paramd.local", RuntimeWarning, stacklevel=2)
            return
