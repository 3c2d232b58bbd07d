"""Checkpoints as NumPy arrays."""

import json
import os
import pathlib
import re
from typing import Any, Dict, List, Tuple

import numpy as np

from paramd import _native
from paramd._errors import InvalidArgument

_DTYPES = {"F32": np.float32, "F64": np.float64, "F16": np.float16,
           "I64": np.int64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}


# Slots of one number for each row, as config/optimizer_slots.h has them.
_BY_ROW = {"key", "used", "sketch", "steps", "row_accumulator"}
# Of a committed checkpoint's directory: term, counter and step.
_NAME = re.compile(r"\d{6,}-\d{8,}\.step-\d+")


class _Damaged(Exception):
    """What is wrong with a file of a checkpoint."""


def _newest(path: pathlib.Path) -> pathlib.Path:
    """The checkpoint that `path` means: itself, or the newest below it.

    By its name, whether it is whole or not: a damaged one is not passed over.
    """
    if (path / "manifest.json").exists() or _NAME.fullmatch(path.name):
        return path
    for folder in (path, path / "checkpoints"):
        found = [p for p in folder.glob("*.step-*") if _NAME.fullmatch(p.name)]
        if found:
            return max(found, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)])
    raise InvalidArgument(f"there is no checkpoint in '{path}'")


def _check_sum(content: np.ndarray, wanted: int) -> None:
    found = _native.crc32c(content.ctypes.data, content.size)
    if found != wanted:
        raise _Damaged(f"its crc32c is {found:08x}; it was written with "
                       f"{wanted:08x}")


def _tensor(content: np.ndarray, info: Any) -> np.ndarray:
    """A tensor as safetensors describes it, in what follows the header."""
    if info["dtype"] not in _DTYPES and info["dtype"] != "BF16":
        raise _Damaged(f"its numbers are {info['dtype']}, which NumPy does not have")
    begin, end = info["data_offsets"]
    if not 0 <= begin <= end <= content.size:
        raise _Damaged(f"the bytes {begin} to {end} are beyond its end")
    if info["dtype"] == "BF16":  # The upper half of a float32, which NumPy has.
        halves = content[begin:end].view(np.uint16).astype(np.uint32)
        return (halves << 16).view(np.float32).reshape(info["shape"])
    tensor: np.ndarray = content[begin:end].view(_DTYPES[info["dtype"]])
    return tensor.reshape(info["shape"])


def _read(path: pathlib.Path, file: Any) -> Dict[str, np.ndarray]:
    """The tensors of a safetensors file that the manifest describes so."""
    if path.stat().st_size != int(file.get("bytes", 0)):
        raise _Damaged(f"it has {path.stat().st_size} bytes; it was written with "
                       f"{file.get('bytes', 0)}")
    content = np.memmap(path, np.uint8, "r")
    _check_sum(content, int(file.get("crc32c", 0)))
    begin = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:begin].tobytes())
    return {name: _tensor(content[begin:], info)
            for name, info in header.items() if name != "__metadata__"}


def _manifest(checkpoint: pathlib.Path) -> Any:
    content = np.fromfile(checkpoint / "manifest.json", np.uint8)
    written = (checkpoint / "manifest.crc32c").read_bytes()
    found = _native.crc32c(content.ctypes.data, content.size)
    if written != b"%08x\n" % found:
        raise _Damaged(f"its crc32c is {found:08x}; manifest.crc32c beside it "
                       "says otherwise")
    return json.loads(content.tobytes())


def _slots_of(part: Any) -> Dict[str, str]:
    """The tensors of a slice's slots by "variable/slot:name"."""
    return {f"{part['variable']}/slot:{name}": tensor
            for name, tensor in part.get("slot_tensors", {}).items()}


def _join(manifest: Any, parts: Dict[str, List[Tuple[int, np.ndarray]]]
          ) -> Dict[str, np.ndarray]:
    """Whole variables of their slices, (first row, values)."""
    shapes = {variable["name"]: [int(d) for d in variable.get("shape", [])]
              for variable in manifest.get("variables", [])}
    joined = {}
    for name, slices in parts.items():
        slices.sort(key=lambda part: part[0])
        whole = np.concatenate([values.ravel() for _, values in slices])
        variable, _, slot = name.partition("/slot:")
        shape = shapes[variable]
        joined[name] = whole.reshape(shape[:1] if slot in _BY_ROW else shape)
    return joined


def load(path: "str | os.PathLike[str]", *, slots: bool = False
         ) -> Dict[str, np.ndarray]:
    """The variables of a checkpoint by name, in memory of their own.

    Args:
      path: a checkpoint, a directory of them or a run's directory; of several the
        newest.
      slots: also what the optimizer keeps, as "name/slot:momentum", and of a table
        the key of each row, as "name/slot:key", and "name/slot:used", 0 without one.

    Raises InvalidArgument if there is none, and naming the file if one is missing
    or is not as it was written: sizes and checksums are compared.
    """
    checkpoint = _newest(pathlib.Path(path))
    parts: Dict[str, List[Tuple[int, np.ndarray]]] = {}
    name = "manifest.json"
    try:
        manifest = _manifest(checkpoint)
        for file in manifest.get("files", []):
            name = file["name"]
            if "base" in file:
                raise _Damaged("it holds only what has changed since another one; "
                               "make it whole with `paramd checkpoint export`")
            tensors = _read(checkpoint / name, file)
            for part in file.get("slices", []):
                names = {part["variable"]: part["values_tensor"]}
                if slots:
                    names.update(_slots_of(part))
                for variable, tensor in names.items():
                    parts.setdefault(variable, []).append(
                        (int(part.get("row_begin", 0)), tensors[tensor]))
        return _join(manifest, parts)
    except _Damaged as error:
        raise InvalidArgument(
            f"checkpoint {str(checkpoint / name)!r}: {error}") from None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"checkpoint {str(checkpoint / name)!r} can't be read: {error!r}") from error
