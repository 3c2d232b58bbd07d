"""Parquet files: written as records, which a job reads, or leased by row group.

    python3 -m paramd.parquet day-*.parquet --to /data/day --label click \\
        --columns user,item --hash_keys
    paramd.parquet.convert(files, to, ...)      the same
    paramd.parquet.Dataset(files, ...)          examples for a loop of one's own

Columns are described as by `csv` in a job file, and become the same numbers: a text
has the hash that it has in a CSV file. Needs pyarrow, which the import doesn't load.
"""

import argparse
import contextlib
import fcntl
import glob
import json
import os
import re
import secrets
import shutil
import sys
import time
from typing import (Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple,
                    Union)

import numpy as np

from paramd._columns import Feature, Wrong, features_of, load_pyarrow
from paramd._errors import Error, InvalidArgument
from paramd.data import Shards

# Names of six digits sort as their numbers do.
_MOST_FILES = 1_000_000

Files = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]

# Files -----------------------------------------------------------------------------


def _paths(files: Files) -> List[str]:
    """Files as they are given; of a directory those in it, by name."""
    named = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    paths: List[str] = []
    for one in named:
        name = os.fspath(one)
        if os.path.isdir(name):
            found = sorted(
                path for path in glob.glob(os.path.join(glob.escape(name), "*.parquet"))
                if not os.path.basename(path).startswith(("_", ".")))
            if not found:
                raise InvalidArgument(f"'{name}' has no file *.parquet")
            paths += found
        else:
            paths.append(name)
    if not paths:
        raise InvalidArgument("no Parquet file is named")
    seen: Dict[str, str] = {}  # By what links lead to.
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise InvalidArgument(
                f"'{path}' is named twice: it would be read twice"
                if seen[real] == path else
                f"'{seen[real]}' and '{path}' are one file: it would be read twice")
        seen[real] = path
    return paths


class _RowGroups:
    """Examples of Parquet files, a row group at a time."""

    def __init__(self, files: Files, config: Dict[str, Any]):
        self.paths = _paths(files)
        self.groups: List[Tuple[str, int]] = []
        self.counts: List[int] = []
        self.features: List[Feature] = []
        self._open: Tuple[str, Any] = ("", None)
        for path in self.paths:
            with self._errors(path):
                file = self._file(path)
                names = list(file.schema_arrow.names)
                if not self.features:
                    self.features = features_of(config, names)
                    self.columns = sorted({column.name for feature in self.features
                                           for column in feature.columns})
                for name in self.columns:
                    if names.count(name) != 1:
                        found = "two columns" if name in names else "no column"
                        raise InvalidArgument(f"'{path}' has {found} '{name}'; it has "
                                              + ", ".join(names[:20]))
                for group in range(file.metadata.num_row_groups):
                    self.groups.append((path, group))
                    self.counts.append(file.metadata.row_group(group).num_rows)
        self.dtype = np.dtype([feature.dtype for feature in self.features])

    def read(self, path: str, group: int) -> np.ndarray:
        """The records of a row group."""
        with self._errors(path, group):
            table = self._file(path).read_row_group(group, columns=self.columns)
            records: np.ndarray = np.empty(table.num_rows, self.dtype)
            for feature in self.features:
                feature.fill(table, records[feature.name])
        return records

    def _file(self, path: str) -> Any:
        if self._open[0] != path:
            self._open = (path, load_pyarrow().parquet.ParquetFile(path))
        return self._open[1]

    @contextlib.contextmanager
    def _errors(self, path: str, group: Optional[int] = None) -> Iterator[None]:
        where = f"'{path}'" if group is None else f"'{path}' row group {group}"
        try:
            yield
        except Wrong as wrong:
            row = "" if wrong.row is None else f" row {wrong.row}"
            raise InvalidArgument(f"{where}{row}: {wrong}") from None
        except OSError as error:
            raise InvalidArgument(
                f"{where} can't be read: {error.strerror or error}") from error
        except load_pyarrow().ArrowException as error:
            raise InvalidArgument(f"{where} can't be read: {error}") from error


class _RecordFiles:
    """Files of records in a directory: "train-000000.records" and so on."""

    def __init__(self, directory: str, name: str, records: int):
        self._path = os.path.join(directory, name)
        self._records = records  # Of a file.
        self._file: Any = None
        self._left = 0
        self.count = 0

    def add(self, records: np.ndarray) -> None:
        while len(records):
            if self._file is None:
                self._file = open(f"{self._path}-{self.count:06d}.records", "xb")
                self._left = self._records
                self.count += 1
            part = records[:self._left]
            self._file.write(part.tobytes())
            self._left -= len(part)
            records = records[len(part):]
            if self._left == 0:
                self.close()

    def close(self) -> None:
        """What was written is durable."""
        if self._file is not None:
            file, self._file = self._file, None
            with file:
                file.flush()
                os.fsync(file.fileno())


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _hold(directory: str) -> Iterator[bool]:
    """Whether nobody else is at work in it; who holds it until the block ends is not
    taken for dead. The same lock as in checkpoint/whole_directory.cc."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        held = True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held = False
        yield held
    finally:
        os.close(fd)


def _delete_leftovers(above: str, name: str) -> None:
    """What those left that were making a directory of this name when they were killed."""
    hidden = re.compile(re.escape(f".{name}.") + "[0-9a-f]{16}")
    for found in filter(hidden.fullmatch, os.listdir(above)):
        left = os.path.join(above, found)
        with contextlib.suppress(OSError), _hold(left) as held:
            if held:
                shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _whole_directory(to: str) -> Iterator[str]:
    """A directory that is called `to` when all is in it, or is gone."""
    if os.path.lexists(to) and (os.path.islink(to) or not os.path.isdir(to)
                                or os.listdir(to)):
        raise InvalidArgument(f"'{to}' is something else than an empty directory; a "
                              "conversion makes one of its own")
    above, name = os.path.split(to)
    hidden = os.path.join(above, f".{name}.{secrets.token_hex(8)}")
    try:
        os.makedirs(above, exist_ok=True)
        os.mkdir(hidden)
        with _hold(hidden):
            _delete_leftovers(above, name)
            yield hidden
            _sync(hidden)
            os.rename(hidden, to)
            _sync(above)
    except OSError as error:
        raise Error(f"'{to}' can't be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def convert(files: Files, to: "str | os.PathLike[str]", *, source: str = "train",
            part_size: int = 1_000_000_000,
            progress: Optional[Callable[[int, int], None]] = None,
            **columns: Any) -> Dict[str, Any]:
    """Writes Parquet files as records, and returns the `input.train` that reads them.

        train = paramd.parquet.convert(
            files, "/data/train", label="click", columns=["user", "item"],
            hash_keys=True)

    The records are those that `paramd input convert` makes of CSV files with the same
    rows. In memory is one row group at a time.

    Args:
      files: paths in the order of their rows; of a directory the files in it.
      to: the directory that is made, and appears when all is in it.
      source: what its files are called: "train" or "test", whose columns are named.
      part_size: bytes at which another file begins.
      progress: called with how many of how many rows are written.
      columns: the keys of `csv` in a job file: label, labels, classes, class_names,
        columns, name, hash_buckets, hash_keys, list_column, list_separator,
        list_length, list_of, missing, features, group, weight.

    Raises InvalidArgument, naming file, row group and row, for what can't be read as it
    is described, if a file is named twice, and if `to` holds something; Error without
    pyarrow, and if `to` can't be written. Nothing is left then.
    """
    if source not in ("train", "test"):
        raise InvalidArgument(f"source is train or test, not '{source}'")
    groups = _RowGroups(files, columns)
    if source == "test" and not (columns.get("features") or columns.get("columns")):
        raise InvalidArgument(
            "test data need columns, in the order that those of train have: records "
            "have no names of columns, so nobody could tell that two have changed "
            f"places; '{groups.paths[0]}' has "
            + ", ".join(column.name for column in groups.features[0].columns))
    total = sum(groups.counts)
    if total == 0:
        raise InvalidArgument(f"'{groups.paths[0]}' holds no row")
    in_file = max(1, int(part_size) // groups.dtype.itemsize)
    if (total - 1) // in_file >= _MOST_FILES:
        raise InvalidArgument(f"there would be {(total - 1) // in_file + 1} files; at "
                              f"most {_MOST_FILES} can be: give a larger part_size")
    to = os.path.abspath(os.fspath(to))
    with _whole_directory(to) as hidden:
        out = _RecordFiles(hidden, source, in_file)
        done = 0
        with contextlib.closing(out):
            for path, group in groups.groups:
                records = groups.read(path, group)
                out.add(records)
                done += len(records)
                if progress is not None:
                    progress(done, total)
    return {"directory": to, "records": {
        "files": [f"{source}-*.records"],
        "features": [feature.describe() for feature in groups.features]}}


class Dataset(Shards):
    """Examples of Parquet files, leased by the cluster a row group at a time.

        clicks = paramd.parquet.Dataset(files, label="click", features=[
            {"name": "numbers", "columns": ["price", "age"], "missing": 0},
            {"name": "keys", "columns": ["user", "item"], "hash_buckets": 1 << 20}])
        for numbers, keys, click in epoch.batches(clicks, batch_size=64):

    An example is a tuple of NumPy values: of each feature in its order, then labels,
    group and weight. These are `paramd.Shards` whose shards are row groups: row groups
    come in another order in each epoch, and rows of one stay in theirs.

    Args:
      files: as of `convert`; the same in every process.
      shuffle, seed: as of `paramd.Shards`.
      columns: the keys of `csv` in a job file, as of `convert`.

    Raises InvalidArgument as `convert` does, also while it is read; Error without
    pyarrow.
    """

    def __init__(self, files: Files, *, shuffle: bool = True, seed: int = 0,
                 **columns: Any):
        self._row_groups = _RowGroups(files, columns)
        super().__init__(self._row_groups.groups, self._rows,
                         examples=self._row_groups.counts, shuffle=shuffle, seed=seed,
                         seeks=True)

    def _rows(self, shard: Tuple[str, int], begin: int) -> Iterator[Tuple[Any, ...]]:
        records = self._row_groups.read(*shard)[begin:]
        # Records are packed: numbers in them are not where a tensor wants them.
        return zip(*(np.ascontiguousarray(records[name])
                     for name in records.dtype.names or ()))


# The command -----------------------------------------------------------------------


def _bytes(text: str) -> int:
    """1000000, 500MB, 1GB."""
    found = re.fullmatch(r"(\d+) ?([kKMG]?)B?", text)
    if not found or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"wants a size as 500MB or 1GB; found '{text}'")
    times: int = 1000 ** " KMG".index(found[2].upper() or " ")
    return int(found[1]) * times


def _names(text: str) -> List[str]:
    return [name for name in text.split(",") if name]


def _floats(text: str) -> List[float]:
    return [float(number) for number in _names(text)]


def _arguments(words: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m paramd.parquet", argument_default=argparse.SUPPRESS,
        description="Writes Parquet files as records, and prints the input of a job "
        "that reads them. Columns are described as by csv in a job file.")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--to", required=True, metavar="DIR",
                        help="the directory that is made")
    parser.add_argument("--source", choices=["train", "test"], default="train")
    parser.add_argument("--part_size", type=_bytes, metavar="SIZE", default=10 ** 9,
                        help="begin another file at this many bytes")
    for name, kind in (("label", str), ("labels", _names), ("classes", int),
                       ("class_names", _names), ("columns", _names), ("name", str),
                       ("hash_buckets", int), ("list_column", str),
                       ("list_separator", str), ("list_length", int), ("list_of", str),
                       ("missing", _floats), ("group", str), ("weight", str)):
        parser.add_argument(f"--{name}", type=kind, metavar="A,B" if kind in (
            _names, _floats) else "N" if kind is int else "NAME")
    parser.add_argument("--hash_keys", action="store_true")
    parser.add_argument("--features", type=json.loads, metavar="JSON",
                        help="a list, as csv.features in a job file")
    return parser.parse_args(words)


class _Progress:
    """A line every five seconds."""

    def __init__(self) -> None:
        self.began = self._said = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said >= 5:
            self._said = now
            print(f"paramd: {done:,} of {total:,} rows, "
                  f"{done / (now - self.began):,.0f} a second", file=sys.stderr)


def main(words: Optional[Sequence[str]] = None) -> int:
    """`python3 -m paramd.parquet`. Returns the exit code."""
    given = vars(_arguments(words))
    progress = _Progress()
    try:
        source = convert(progress=progress, **given)
    except Error as error:
        print(f"paramd: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgument) else 1
    print(f"paramd: converted in {time.monotonic() - progress.began:.1f} s",
          file=sys.stderr)
    print(json.dumps({"input": {given["source"]: source}}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
