"""The job that a program trains: a job file, and what beats it."""

import json
import os
import sys
import warnings
from typing import Any, Dict, Mapping, Union

from paramd._errors import InvalidArgument
from paramd.tf_config import TFConfig

Job = Union[None, str, "os.PathLike[str]", Mapping[str, Any]]

# What the program says in Python's words, by the setting that it is.
_WORDS = {"batch_size": "batch_per_replica"}

# Of the settings below checkpoint.
_WHEN = frozenset(("every_steps", "every_seconds"))
_SAVED_EVERY_SECONDS = 60


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


def _has_servers() -> bool:
    """Whether TF_CONFIG says so; what is wrong with it somebody else says."""
    try:
        return bool(TFConfig.from_environment().cluster.get("ps"))
    except InvalidArgument:
        return False


def _says_when_to_save(content: Mapping[str, Any]) -> bool:
    """Whether somebody has said when checkpoints are written."""
    checkpoint = content.get("checkpoint")
    return (isinstance(checkpoint, dict) and not _WHEN.isdisjoint(checkpoint)
            or "backup_and_restore" in content
            or any(name == "PARAMD_CHECKPOINT" or name.startswith(
                ("PARAMD_CHECKPOINT_EVERY", "PARAMD_BACKUP")) for name in os.environ))


def say_where(content: Mapping[str, Any], run_dir: str) -> None:
    """A line about the directory that nobody has chosen, with the checkpoints."""
    if (run_dir and not content.get("run_dir") and not os.environ.get("PARAMD_RUN_DIR")
            and content["log_level"] != "error"):
        print(f"paramd: checkpoints and result.json go to '{run_dir}'; run_dir= chooses "
              "another directory, and goes on with what is there", file=sys.stderr)


def read(job: Job, settings: Mapping[str, Any]) -> Dict[str, Any]:
    """The job as a dictionary: a job file's path or content, then `settings`.

    Each setting replaces the one of its name, whole. The model is the program's
    own. Where there are servers a checkpoint is written now and then, unless somebody
    has said when: what a server loses since the newest is lost. Raises InvalidArgument
    if the file can't be read.
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
    if _has_servers() and not _says_when_to_save(content):
        checkpoint = content.get("checkpoint", {})
        if isinstance(checkpoint, dict):
            content["checkpoint"] = {**checkpoint, "every_seconds": _SAVED_EVERY_SECONDS}
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
