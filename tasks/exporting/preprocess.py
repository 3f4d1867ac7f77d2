"""Raw columns to a model's inputs in a SavedModel's graph: the reader's preprocessing as operations of TensorFlow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Records
from tasks.data.reader import DESCRIPTION
from tasks.data.reader.cast import CATEGORY_BYTES, LARGEST
from tasks.data.reading import RecordsReader
from tasks.data.transforms import graph
from tasks.data.transforms.columns import typed
from tasks.data.transforms.graphs import Graph, nearest_float32

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True)
class RawKind:
    """What the graph takes of a kind of columns."""

    dtype: str
    missing: str
    """Describes a missing value."""
    typed: Callable[[RawColumn, tf.Tensor], tf.Tensor]
    """Returns what `tasks.data.transforms.graphs.Graph` takes."""
    unit: str = ""
    """Describes what the numbers count."""


@dataclass(frozen=True)
class RawColumn:
    """A column as an input of the graph, [n, *shape]."""

    name: str
    kind: str
    shape: tuple[int, ...]
    argument: str
    """The name of the input."""


def _number(column: RawColumn, raw: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    _check(column, tf.math.is_nan(raw) | (tf.abs(raw) <= LARGEST), "must be at most 3.4e38 in size")
    return nearest_float32(raw)


def _text(column: RawColumn, raw: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    unicode = tf.strings.unicode_transcode(raw, "UTF-8", "UTF-8", errors="ignore")
    _check(column, unicode == raw, "must be UTF-8")
    return raw


def _category(column: RawColumn, raw: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    rule = f"must be a category, of at most {CATEGORY_BYTES} bytes"
    _check(column, tf.strings.length(raw) <= CATEGORY_BYTES, rule)
    return _text(column, raw)


RAW_KINDS = {
    "number": RawKind("float64", "NaN", _number),
    "category": RawKind("string", "empty", _category),
    "text": RawKind("string", "empty", _text),
    "time": RawKind("int64", "-2^63 (NumPy's NaT)", lambda column, raw: raw, ", microseconds since 1970 in UTC"),
}
"""By the kind of a column; of images and sounds there is none, as the reader alone takes them."""


class Preprocess:
    """The preprocessing of an export as functions of tensors; `columns` are those that it takes."""

    def __init__(self, description: Mapping[str, Any], graphs: Mapping[str, Graph]) -> None:
        """Create it from the contents of `transform.json`, and the graph of each column's transform."""
        columns = description["columns"]
        arguments = arguments_of(column["name"] for column in columns)
        self.columns = [
            RawColumn(column["name"], column["kind"], tuple(column["shape"]), arguments[column["name"]])
            for column in columns
        ]
        self._graphs, self._missing = graphs, sorted(description["missing"])
        self._arrays, self._layout = description["arrays"], description["layout"]

    def __call__(self, tensors: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the model's inputs by name, from tensors by argument.

        Where it runs, a value that the reader refuses is an `InvalidArgumentError` that names the column and the rule.
        """
        import tensorflow as tf

        values = {column.name: self._typed(column, tensors[column.argument]) for column in self.columns}
        parts: dict[str, list[tf.Tensor]] = {name: [] for name in self._arrays}
        for place in self._layout:  # those of an array follow each other
            parts[place["array"]].append(self._graphs[place["column"]](values[place["column"]]))
        joined = {name: found[0] if len(found) == 1 else tf.concat(found, axis=1) for name, found in parts.items()}
        return {name: tf.cast(array, self._arrays[name]["dtype"]) for name, array in joined.items()}

    def described(self, column: RawColumn) -> list[str]:
        """Return name, argument, tensor and missing values of a column as text."""
        kind = RAW_KINDS[column.kind]
        missing = [kind.missing, *(self._missing if kind.dtype == "string" else ())]
        tensor = f"{kind.dtype} [{', '.join(['batch', *map(str, column.shape)])}]{kind.unit}"
        return [column.name, f"`{column.argument}`", tensor, ", ".join(missing)]

    def spec(self, column: RawColumn) -> tf.TensorSpec:
        """Return the specification of a column's tensor."""
        import tensorflow as tf

        return tf.TensorSpec([None, *column.shape], RAW_KINDS[column.kind].dtype, name=column.argument)

    def _typed(self, column: RawColumn, raw: tf.Tensor) -> tf.Tensor:
        """Return the typed values of a raw column, as `tasks.data.reader.cast.column` does."""
        import tensorflow as tf

        kind = RAW_KINDS[column.kind]
        if kind.dtype == "string":
            for missing in self._missing:
                raw = tf.where(raw == missing, "", raw)
        return kind.typed(column, raw)


def in_graph(root: Path) -> Preprocess | None:
    """Return the preprocessing of a snapshot or an export as a graph; None where not every column has one."""
    path = root / "transform" / DESCRIPTION
    return of_description(json.loads(path.read_bytes())) if path.is_file() else None


def of_description(description: Mapping[str, Any]) -> Preprocess | None:
    """Do the work of `in_graph` from the contents of the file."""
    made = _graphs(description)
    graphs = {name: each for name, each in made.items() if not isinstance(each, str)}
    return Preprocess(description, graphs) if graphs and len(graphs) == len(made) else None


def without_graph(description: Mapping[str, Any]) -> dict[str, str]:
    """Return why the reader alone can make a column, by its name."""
    return {name: each for name, each in _graphs(description).items() if isinstance(each, str)}


def _graphs(description: Mapping[str, Any]) -> dict[str, Graph | str]:
    return {name: graph(state) for name, state in description.get("transforms", {}).items()}


def arguments_of(columns: Iterable[str]) -> dict[str, str]:
    """Return a name for each column that is one in Python and in TensorFlow, which ignores case: `fixed_acidity` of
    `fixed acidity`."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for column in columns:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", column)
        if not plain[:1].isalpha() or iskeyword(plain) or plain.lower() == "self":
            plain = f"column_{plain}"
        name, number = plain, 2
        while name.lower() in taken:
            name, number = f"{plain}_{number}", number + 1
        names[column] = name
        taken.add(name.lower())
    return names


def golden_columns(preprocess: Preprocess, records: Records, split: str, count: int) -> dict[str, NDArray[Any]]:
    """Return the raw columns of the first records of a split, by argument."""
    reader = RecordsReader(records.path)
    raw: dict[str, list[Any]] = {column.argument: [] for column in preprocess.columns}
    for table in reader.tables(split, [column.name for column in preprocess.columns], stop=count):
        for column in preprocess.columns:
            raw[column.argument] += list(typed(table[column.name], reader.features[column.name]))
    dtypes = {column.argument: RAW_KINDS[column.kind].dtype for column in preprocess.columns}
    return {name: np.array(values, dtypes[name].replace("string", "str")) for name, values in raw.items()}


def _check(column: RawColumn, valid: tf.Tensor, rule: str) -> None:
    """Have the graph refuse invalid values, by their rows: what is not UTF-8 cannot be in a message."""
    import tensorflow as tf

    message = f"column {column.name}: {rule}; rows"
    # The operation itself: `tf.debugging.Assert` makes two functions whose names depend on the process.
    tf.raw_ops.Assert(condition=tf.reduce_all(valid), data=[message, tf.where(~valid)[:, 0]])
