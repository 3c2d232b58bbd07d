"""Columns of Arrow as the features of examples: what `csv` in a job file makes of text."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from paramd._errors import Error, InvalidArgument

# 64-bit FNV-1a, as base/random.h has it.
_BASIS, _PRIME, _SEED = 0xCBF29CE484222325, 0x100000001B3, 0x9E3779B97F4A7C15
_WHITE = b" \t\n\v\f\r"
# The job file's bounds of list_length, and of hash_buckets and classes.
_MOST_LIST = 65536
_MOST_CLASSES = 2 ** 31 - 1

# Keys of `csv` that are said of one feature, and those beside them.
_OF_FEATURE = ("name", "columns", "classes", "hash_buckets", "hash_keys",
               "list_column", "list_separator", "list_length", "list_of", "missing")
_BESIDE = ("label", "labels", "class_names", "features", "group", "weight")


def load_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise Error("Parquet files are read with pyarrow, which is not installed: "
                    "pip install pyarrow") from None
    return pyarrow


def hash_texts(texts: Sequence[bytes], salt: int = 0) -> np.ndarray:
    """Of each text the uint64 that hash_keys makes of it; `salt`: that of its
    column's name, of which the salt is 0."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    order = np.argsort(-lengths, kind="stable")  # The longest first.
    falling = -lengths[order]
    begins = (np.cumsum(lengths) - lengths)[order]
    content = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    begin = _BASIS ^ (salt * _SEED & 0xFFFFFFFFFFFFFFFF)
    hashes: np.ndarray = np.full(len(texts), begin, np.uint64)
    prime = np.uint64(_PRIME)
    for i in range(-int(falling[0]) if len(texts) else 0):
        # Texts that have a byte i.
        some = hashes[:int(np.searchsorted(falling, -i))]
        some ^= content[begins[:len(some)] + i].astype(np.uint64)
        some *= prime
    found: np.ndarray = np.empty_like(hashes)
    found[order] = hashes
    return found


def _salt(name: str) -> int:
    return int(hash_texts([name.encode()])[0])


class Wrong(Exception):
    """What is wrong with a column: a sentence, and its row if it is of one."""

    def __init__(self, sentence: str, row: Optional[int] = None):
        super().__init__(sentence)
        self.row = row


# Values of Arrow as texts and as numbers ---------------------------------------


def _text_of(kind: Any) -> Optional[Callable[[Any], bytes]]:
    """What makes the text of a value of this type; None: it has no one text."""
    types = load_pyarrow().types
    if types.is_boolean(kind):
        return lambda value: b"true" if value else b"false"
    if types.is_integer(kind):
        return lambda value: str(value).encode()
    if types.is_date(kind):
        return lambda value: str(value.isoformat()).encode()
    if types.is_binary(kind) or types.is_large_binary(kind):
        return lambda value: bytes(value).strip(_WHITE)
    if types.is_null(kind):
        return lambda value: b""
    return None


def _distinct(array: Any, name: str) -> Tuple[List[bytes], np.ndarray]:
    """The texts that an array has, without white space around them and "" last, and
    of each value the number of its text; nothing is ""."""
    pa = load_pyarrow()
    types = pa.types
    if types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    # Files have strings that are no UTF-8.
    if types.is_string(array.type):
        array = array.cast(pa.binary())
    elif types.is_large_string(array.type):
        array = array.cast(pa.large_binary())
    text_of = _text_of(array.type)
    if text_of is None:
        raise Wrong(
            f"column '{name}' is {array.type}, of which a value has no one text; texts "
            "are of string, binary, integer, bool or date: cast it to one of these")
    if types.is_null(array.type):
        return [b""], np.zeros(len(array), np.int64)
    encoded = array.dictionary_encode()
    texts = [text_of(value) for value in encoded.dictionary.to_pylist()] + [b""]
    which = encoded.indices.fill_null(len(texts) - 1)
    return texts, which.to_numpy(zero_copy_only=False)


def _numbers(array: Any, name: str) -> Tuple[np.ndarray, np.ndarray]:
    """The values of an array, and where it has none."""
    pa = load_pyarrow()
    types = pa.types
    if types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    nothing = array.is_null().to_numpy(zero_copy_only=False)
    if types.is_null(array.type):
        return np.zeros(len(array), np.float32), nothing
    if types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif types.is_float16(array.type):
        array = array.cast(pa.float32())
    elif not (types.is_integer(array.type) or types.is_floating(array.type)):
        raise Wrong(f"column '{name}' is {array.type}; numbers are of integer, float "
                    "or bool: cast it to one of these")
    return array.fill_null(0).to_numpy(zero_copy_only=False), nothing


def _first(mask: np.ndarray) -> int:
    return int(np.argmax(mask))


# What is made of columns ---------------------------------------------------------


class _Column(NamedTuple):
    name: str
    salt: int
    missing: Optional[float]


class Feature:
    """How columns become one feature, as csv_feature.h has it.

    `is_lone`: one number of one column, as a label is.
    """

    def __init__(self, config: Dict[str, Any], *, is_lone: bool = False,
                 class_names: Sequence[str] = ()):
        self.name = str(config["name"])
        self.is_lone = is_lone
        self.class_names = [bytes(name, "utf-8") for name in class_names]
        for key in ("hash_buckets", "classes"):
            if not 0 <= int(config.get(key) or 0) <= _MOST_CLASSES:
                raise InvalidArgument(f"{key} of '{self.name}' must be from 0 to "
                                      f"{_MOST_CLASSES}; found {config[key]}")
        self.buckets = int(config.get("hash_buckets") or 0)
        self.is_key = bool(config.get("hash_keys", False))
        self.is_text = self.buckets > 0 or self.is_key
        self.classes = int(config.get("classes") or 0) or len(self.class_names)
        if self.buckets and self.is_key:
            raise InvalidArgument(f"'{self.name}' has hash_buckets and hash_keys; "
                                  "choose numbers below hash_buckets or whole hashes")
        if self.is_text and self.classes:
            raise InvalidArgument(f"'{self.name}' has classes and hashes; choose whole "
                                  "numbers or texts")
        names = [str(name) for name in config["columns"]]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise InvalidArgument(f"'{self.name}' has column '{min(twice)}' twice")
        self.columns = [_Column(name, _salt(name), missing) for name, missing in
                        zip(names, self._missing(config, len(names)))]
        self.list_length = 0
        self.list_separator = str(config.get("list_separator", "|"))
        length = int(config.get("list_length", 16))
        if not 1 <= length <= _MOST_LIST:
            raise InvalidArgument(f"list_length of '{self.name}' must be from 1 to "
                                  f"{_MOST_LIST}; found {length}")
        if config.get("list_column"):
            self._take_list(config, length)
        elif config.get("list_of"):
            raise InvalidArgument(f"list_of is '{config['list_of']}', but no list_column "
                                  f"is given for '{self.name}'")

    def _missing(self, config: Dict[str, Any], count: int) -> List[Optional[float]]:
        given = config.get("missing")
        if given is None or given == []:
            return [None] * count
        if self.is_text:
            raise InvalidArgument(f"missing of '{self.name}' is of numbers; a text that "
                                  "is not there has a hash of its own")
        values = given if isinstance(given, (list, tuple)) else [given]
        if len(values) not in (1, count):
            raise InvalidArgument(f"missing of '{self.name}' has {len(values)} numbers for "
                                  f"{count} columns; give one, or one for each")
        if self.classes and not all(value in range(self.classes) for value in values):
            raise InvalidArgument(f"missing of '{self.name}' must be a whole number from 0 "
                                  f"to {self.classes - 1}")
        every = list(values) if len(values) == count else list(values) * count
        return [float(value) for value in every]

    def _take_list(self, config: Dict[str, Any], length: int) -> None:
        name, of = str(config["list_column"]), str(config.get("list_of") or "")
        last = self.columns[-1]
        if not self.is_text or name != last.name:
            raise InvalidArgument(
                f"list_column is '{name}'; it must be the last of the columns of "
                f"'{self.name}', which have hash_buckets or hash_keys")
        if len(self.list_separator) != 1:
            raise InvalidArgument("list_separator must be one character; found "
                                  f"'{self.list_separator}'")
        self.columns[-1] = last._replace(salt=_salt(of or name))
        self.list_length = length

    @property
    def width(self) -> int:
        """Numbers of an example."""
        return len(self.columns) + max(self.list_length - 1, 0)

    @property
    def dtype(self) -> Tuple[Any, ...]:
        """As a field of a record."""
        kind = "<i8" if self.is_key else "<i4" if self.is_text or self.classes else "<f4"
        return (self.name, kind) if self.is_lone else (self.name, kind, (self.width,))

    def describe(self) -> Dict[str, Any]:
        """As a job file has it."""
        kind = {"<i8": "int64", "<i4": "int32", "<f4": ""}[self.dtype[1]]
        said: Dict[str, Any] = {"name": self.name}
        if kind:
            said["type"] = kind
        if not self.is_lone:
            said["dims"] = [self.width]
        if self.buckets or self.classes:
            said["classes"] = self.buckets or self.classes
        return said

    def fill(self, table: Any, out: np.ndarray) -> None:
        """Makes the examples of a table, into an array of this field."""
        rows = out[:, None] if self.is_lone else out
        lone = len(self.columns) - (1 if self.list_length else 0)
        for i, column in enumerate(self.columns):
            at = 0
            for chunk in table.column(column.name).chunks:
                part = rows[at:at + len(chunk)]
                try:
                    if i == lone:
                        self._fill_list(column, chunk, part[:, lone:])
                    else:
                        part[:, i] = self._of(column, chunk)
                except Wrong as wrong:
                    if wrong.row is None:
                        raise
                    raise Wrong(str(wrong), wrong.row + at) from None
                at += len(chunk)

    def _of(self, column: _Column, chunk: Any) -> np.ndarray:
        if self.is_text:
            texts, which = _distinct(chunk, column.name)
            hashed: np.ndarray = self._hashed(hash_texts(texts, column.salt))[which]
            return hashed
        if self.class_names:
            return self._named(column, chunk)
        values, nothing = _numbers(chunk, column.name)
        if nothing.any() and column.missing is None:
            raise Wrong(f"column '{column.name}' needs a number; found nothing"
                        + ("" if self.is_lone else
                           "; missing=0 would read that as 0"), _first(nothing))
        found: np.ndarray
        if self.classes:
            found = self._classes(column, values, nothing)
        else:
            with np.errstate(over="ignore"):
                found = values.astype(np.float32)
            infinite = ~np.isfinite(found) & ~nothing
            if infinite.any():
                row = _first(infinite)
                raise Wrong(f"column '{column.name}' needs a number that is finite in "
                            f"float32; found {values[row]}", row)
        if nothing.any():
            found[nothing] = column.missing
        return found

    def _classes(self, column: _Column, values: np.ndarray,
                 nothing: np.ndarray) -> np.ndarray:
        whole = (values >= 0) & (values < self.classes)
        if values.dtype.kind == "f":
            whole &= values == np.floor(values)
        wrong = ~whole & ~nothing
        if wrong.any():
            row = _first(wrong)
            raise Wrong(f"column '{column.name}' needs a whole number from 0 to "
                        f"{self.classes - 1}; found {values[row]}", row)
        found: np.ndarray = np.where(whole, values, 0).astype(np.int32)
        return found

    def _named(self, column: _Column, chunk: Any) -> np.ndarray:
        texts, which = _distinct(chunk, column.name)
        numbers = {name: i for i, name in enumerate(self.class_names)}
        known: np.ndarray = np.array([numbers.get(text, -1) for text in texts], np.int32)
        found: np.ndarray = known[which]
        if (found < 0).any():
            row = _first(found < 0)
            text = texts[int(which[row])].decode(errors="replace")
            raise Wrong(f"column '{column.name}' has the class '{text}'; known are "
                        + ", ".join(name.decode() for name in self.class_names), row)
        return found

    def _hashed(self, hashes: np.ndarray) -> np.ndarray:
        found: np.ndarray = (hashes.view(np.int64) if self.is_key else
                             (hashes % np.uint64(self.buckets)).astype(np.int32))
        return found

    def _fill_list(self, column: _Column, chunk: Any, out: np.ndarray) -> None:
        """The first texts of each list that are not empty, and -1 after them."""
        pa = load_pyarrow()
        types = pa.types
        if types.is_dictionary(chunk.type):
            chunk = chunk.cast(chunk.type.value_type)
        if types.is_string(chunk.type) or types.is_large_string(chunk.type):
            chunk = pa.compute.split_pattern(chunk, self.list_separator)
        elif not (types.is_list(chunk.type) or types.is_large_list(chunk.type)
                  or types.is_fixed_size_list(chunk.type)):
            raise Wrong(f"column '{column.name}' is {chunk.type}; list_column is of "
                        "lists, or of strings with separators")
        lengths = pa.compute.list_value_length(chunk).fill_null(0).to_numpy(
            zero_copy_only=False)
        texts, which = _distinct(chunk.flatten(), column.name)
        kept = np.array([text != b"" for text in texts])[which]
        rows = np.repeat(np.arange(len(chunk)), lengths)[kept]
        hashes = self._hashed(hash_texts(texts, column.salt))[which[kept]]
        counts = np.bincount(rows, minlength=len(chunk))
        places = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        fits = places < self.list_length
        out[:] = -1
        out[rows[fits], places[fits]] = hashes[fits]


def listed(value: Any) -> List[Any]:
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _labels(config: Dict[str, Any]) -> List[Dict[str, Any]]:
    labels = [dict(label) if isinstance(label, dict) else {"column": label}
              for label in listed(config.get("labels"))]
    beside = [key for key in ("label", "classes", "class_names") if config.get(key)]
    if labels and beside:
        raise InvalidArgument(f"labels and {beside[0]} are both given; say it of each of "
                              "the labels")
    if not labels and config.get("label"):
        labels = [{"column": config["label"], "name": "label",
                   "classes": config.get("classes", 0),
                   "class_names": config.get("class_names") or []}]
    for label in labels:
        label.setdefault("name", label.get("column"))
        unknown = set(label) - {"column", "name", "classes", "class_names"}
        if unknown or not label["name"]:
            raise InvalidArgument(f"a label has column, name, classes and class_names; "
                                  f"found {sorted(label)}")
        _check_label(label, config)
    columns = [label["column"] for label in labels]
    twice = {name for name in columns if columns.count(name) > 1}
    if twice:
        raise InvalidArgument(f"two of the labels are '{min(twice)}'; leave one out")
    return labels


def _check_label(label: Dict[str, Any], config: Dict[str, Any]) -> None:
    column = label["column"]
    for key in ("group", "weight"):
        if config.get(key) == column:
            raise InvalidArgument(f"{key} is '{column}', which is a label")
    names = listed(label.get("class_names"))
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidArgument(f"class_names of '{column}' has '{min(twice)}' twice: which "
                              "of the two is meant?")
    classes = label.get("classes") or len(names)
    if names and classes != len(names):
        raise InvalidArgument(f"classes of '{column}' is {classes}, and {len(names)} "
                              "class_names are given; leave one out")


def _check_list_of(feature: Dict[str, Any], names: Sequence[str]) -> None:
    of = feature.get("list_of")
    if of and of not in names:
        raise InvalidArgument(f"list_of of '{feature['name']}' is '{of}', and there is no "
                              "such column; there are " + ", ".join(names[:20]))


def _check_keys(config: Dict[str, Any]) -> None:
    for key in config:
        if key in ("log_columns", "files", "separator", "header", "quotes"):
            raise InvalidArgument(f"{key} is of CSV files alone")
        if key not in _OF_FEATURE + _BESIDE:
            raise InvalidArgument(f"{key} is no key of csv; there are "
                                  + ", ".join(sorted(_OF_FEATURE + _BESIDE)))
    features = config.get("features") or []
    if not isinstance(features, (list, tuple)) or not all(
            isinstance(feature, dict) for feature in features):
        raise InvalidArgument("features is a list of objects, each with name and columns")
    for feature in features:
        unknown = set(feature) - set(_OF_FEATURE)
        if unknown or not feature.get("name") or not feature.get("columns"):
            raise InvalidArgument(
                "a feature has a name, columns, and " + ", ".join(_OF_FEATURE[2:])
                + f"; found {sorted(feature)}")
    both = set(config) & set(_OF_FEATURE) - {"classes"}
    if config.get("features") and both:
        raise InvalidArgument(f"features and {min(both)} are both given; say it of each "
                              "of the features")


def features_of(config: Dict[str, Any], names: Sequence[str]) -> List[Feature]:
    """In the order of a record: what the job names, labels, group, weight."""
    _check_keys(config)
    labels = _labels(config)
    of_others = {label["column"] for label in labels}
    wanted = [dict(feature, columns=listed(feature["columns"]))
              for feature in config.get("features") or []]
    if not wanted:
        one = {key: config[key] for key in _OF_FEATURE
               if key in config and key != "classes"}
        one.setdefault("name", "features")
        one["columns"] = listed(one.get("columns")) or [
            name for name in names if name not in of_others
            and name not in (config.get("group"), config.get("weight"))]
        if not one["columns"]:
            raise InvalidArgument("there is no column beside the label")
        wanted = [one]
    for feature in wanted:
        told = of_others & set(feature["columns"])
        if told:
            raise InvalidArgument(f"'{feature['name']}' has column '{min(told)}', which is "
                                  "a label: the model would be told what it is to predict")
        _check_list_of(feature, names)
    found = [Feature(feature) for feature in wanted]
    found += [Feature({"name": label["name"], "columns": [label["column"]],
                        "classes": label.get("classes", 0)}, is_lone=True,
                       class_names=label.get("class_names") or ()) for label in labels]
    if config.get("group"):
        found.append(Feature({"name": "group", "columns": [config["group"]],
                               "hash_keys": True}, is_lone=True))
    if config.get("weight"):
        found.append(Feature({"name": "weight", "columns": [config["weight"]]},
                              is_lone=True))
    called = [feature.name for feature in found]
    twice = {name for name in called if called.count(name) > 1}
    if twice:
        raise InvalidArgument(f"two features are called '{min(twice)}'; give each a name "
                              "of its own")
    return found
