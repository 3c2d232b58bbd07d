"""Checkpoints as NumPy arrays."""

import json
import os
import pathlib
from typing import Any, Dict, List, Tuple

import numpy as np

from paramd._errors import InvalidArgument

_DTYPES = {"F32": np.float32, "F64": np.float64, "F16": np.float16,
           "I64": np.int64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}


def _newest(path: pathlib.Path) -> pathlib.Path:
    """The checkpoint that `path` means: itself, or the newest below it."""
    if (path / "manifest.json").exists():
        return path
    for folder in (path, path / "checkpoints"):
        found = sorted(p.parent for p in folder.glob("*/manifest.json"))
        found = [p for p in found if p.name[0].isdigit()]
        if found:
            return found[-1]
    raise InvalidArgument(f"there is no checkpoint in '{path}'")


def _read(path: pathlib.Path) -> Dict[str, np.ndarray]:
    """The tensors of a safetensors file."""
    content = np.memmap(path, np.uint8, "r")
    length = int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:8 + length].tobytes())
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        data = content[8 + length + begin:8 + length + end]
        tensors[name] = data.view(_DTYPES[info["dtype"]]).reshape(info["shape"])
    return tensors


def _slots_of(part: Any) -> Dict[str, str]:
    """The tensors of a slice's slots by "variable/slot:name"."""
    return {f"{part['variable']}/slot:{name}": tensor
            for name, tensor in part.get("slot_tensors", {}).items()}


def load(path: "str | os.PathLike[str]", *, slots: bool = False
         ) -> Dict[str, np.ndarray]:
    """The variables of a checkpoint by name, in memory of their own.

    Args:
      path: a checkpoint, a directory of them or a run's directory; of several the
        newest.
      slots: also what the optimizer keeps, as "name/slot:momentum".

    Raises InvalidArgument if there is none.
    """
    checkpoint = _newest(pathlib.Path(path))
    manifest: Any = json.loads((checkpoint / "manifest.json").read_text())
    variables: Dict[str, List[Tuple[int, np.ndarray]]] = {}
    for file in manifest.get("files", []):
        if "base" in file:
            raise InvalidArgument(
                f"checkpoint '{checkpoint}' holds only what has changed since "
                "another one; make it whole with `paramd checkpoint export`")
        tensors = _read(checkpoint / file["name"])
        for part in file.get("slices", []):
            names = {part["variable"]: part["values_tensor"]}
            if slots:
                names.update(_slots_of(part))
            for name, tensor in names.items():
                variables.setdefault(name, []).append(
                    (int(part.get("row_begin", 0)), tensors[tensor]))
    shapes = {variable["name"]: [int(d) for d in variable.get("shape", [])]
              for variable in manifest.get("variables", [])}
    loaded = {}
    for name, parts in variables.items():
        parts.sort(key=lambda part: part[0])
        whole = np.concatenate([values.ravel() for _, values in parts])
        loaded[name] = whole.reshape(shapes[name.split("/slot:")[0]])
    return loaded
