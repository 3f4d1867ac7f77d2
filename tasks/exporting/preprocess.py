"""The preprocessing that an export carries: the reader, its fitted transforms, and the graph that does the same."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Records
from tasks.errors import Failed
from tasks.models.features import TOKENS
from tasks.reader import DESCRIPTION
from tasks.reader.cast import CATEGORY_BYTES
from tasks.reader.values import BLANKS, LARGEST, NUMBER, WHOLE
from tasks.records.reading import RecordsReader, typed
from tasks.snapshots.fitting import formula, graph
from tasks.snapshots.text import LAYOUT, Codec
from tasks.snapshots.transforms.graphs import Graph, nearest_float32

if TYPE_CHECKING:
    import tensorflow as tf


TASK = "task.json"
"""Task, loss and target names, of models whose task the kind of transform does not say."""

DECISION = "decision.json"
"""Temperature and thresholds, where the evaluation fitted them (`tasks.evaluation.decisions`)."""

TASKS = {"tokens": "language_model"}
"""The task of a transform without `task.json`, by kind; of all others classification."""

KINDS = {"table": DESCRIPTION, "tokens": LAYOUT}
"""The file in `transform/` of each kind of transform."""


def read_transform(export: Path) -> dict[str, Any]:
    """Read the transform of an export: the one file of `KINDS` that it has, and `task.json`; with `kind` and
    `task`, and `temperature` and `thresholds` where the export has them.

    Raises:
        Failed: the folder has none of them, or it is not JSON.
    """
    for name in KINDS.values():
        path = export / "transform" / name
        if path.is_file():
            try:
                transform: dict[str, Any] = json.loads(path.read_bytes())
            except ValueError as error:
                raise Failed(str(path), "not JSON", "an export holds it whole", "export again") from error
            files = (export / "transform" / more for more in (TASK, DECISION))
            of_task, decision = (json.loads(file.read_bytes()) if file.is_file() else {} for file in files)
            return {"task": TASKS.get(transform["kind"], "classification"), **transform, **of_task, **decision}
    rule = f"an export holds one of transform/{', '.join(KINDS.values())}"
    raise Failed(str(export), "not an export", rule, "see `millrace list export`")


def usual_task(features: dict[str, Any]) -> str:
    """Return the task of a snapshot of these features where an export says none."""
    return TASKS.get("tokens" if TOKENS in features else "table", "classification")


def codec(export: Path) -> Codec:
    """Load the tokenizer of a language model's export."""
    return Codec.open(export / "transform")


@dataclass(frozen=True)
class RawKind:
    """What the graph takes of a kind of columns."""

    dtype: str
    missing: str
    """Describes a missing value."""
    typed: Callable[[Sequence[RawColumn], tf.Tensor], tf.Tensor]
    """Returns what `tasks.snapshots.transforms.graphs.Graph` takes, of columns as a tensor [n, columns, *shape]."""
    together: str
    """The name of the input of all its columns, in a wide table."""
    unit: str = ""
    """Describes what the numbers count."""


@dataclass(frozen=True)
class RawColumn:
    """A column; its values have this shape each."""

    name: str
    kind: str
    shape: tuple[int, ...]
    offset: float = 0.0
    """Is subtracted from numbers."""
    missing: tuple[str, ...] = ()
    """Texts, or numbers, that mean a missing value in this column."""


@dataclass(frozen=True)
class RawInput:
    """An input of the graph: a column, [n, *shape], or all columns of a kind that have single values, [n, columns]."""

    argument: str
    """Its name."""
    columns: tuple[RawColumn, ...]
    together: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an example."""
        return (len(self.columns),) if self.together else self.columns[0].shape


@dataclass(frozen=True)
class Formula:
    """Columns of one kind and shape that become the model's inputs by one graph."""

    columns: tuple[RawColumn, ...]
    graph: Graph


def _number(columns: Sequence[RawColumn], raw: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    _check(columns, tf.math.is_nan(raw) | (tf.abs(raw) <= LARGEST), "must be at most 3.4e38 in size")
    return nearest_float32(raw)


def _text(columns: Sequence[RawColumn], raw: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    unicode = tf.strings.unicode_transcode(raw, "UTF-8", "UTF-8", errors="ignore")
    _check(columns, unicode == raw, "must be UTF-8")
    return raw


AROUND = "[" + "".join(rf"\x{{{ord(blank):x}}}" for blank in BLANKS) + "]+"


def _category(columns: Sequence[RawColumn], raw: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    _text(columns, raw)
    bare = tf.strings.regex_replace(tf.strings.regex_replace(raw, f"^{AROUND}|{AROUND}$", ""), WHOLE, r"\1")
    rule = f"must be a category, of at most {CATEGORY_BYTES} bytes"
    _check(columns, tf.strings.length(bare) <= CATEGORY_BYTES, rule)
    return bare


WIDE = 256
"""Columns up to which each is an input of its own: an input costs milliseconds where a graph is written or loaded."""

RAW_KINDS = {
    "number": RawKind("float64", "NaN", _number, "numbers"),
    "category": RawKind("string", "empty", _category, "categories"),
    "text": RawKind("string", "empty", _text, "texts"),
    "time": RawKind(
        "int64", "-2^63 (NumPy's NaT)", lambda columns, raw: raw, "times", ", microseconds since 1970 in UTC"
    ),
}
"""By the kind of a column; of images and sounds there is none, as the reader alone takes them."""


class Preprocess:
    """The preprocessing of an export as functions of tensors.

    Columns of one formula are one tensor: with operations for each column, a graph costs 0.1 s a column wherever it is
    written, converted, checked or loaded.
    """

    def __init__(self, description: Mapping[str, Any], columns: list[RawColumn], formulas: list[Formula]) -> None:
        """Create it from the contents of `transform.json`, its columns and their formulas."""
        self.columns, self.inputs = columns, _inputs(columns)
        self._formulas, self._missing = formulas, sorted(description["missing"])
        self._arrays = description["arrays"]
        self._places = {place["column"]: place for place in description["layout"]}
        self._sources = {
            column.name: (source, index) for source in self.inputs for index, column in enumerate(source.columns)
        }

    def __call__(self, tensors: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the model's inputs by name, from tensors by argument.

        Where it runs, a value that the reader refuses is an `InvalidArgumentError` that names the column and the rule.
        """
        import tensorflow as tf

        parts: dict[str, list[tuple[list[int], tf.Tensor]]] = {name: [] for name in self._arrays}
        for each in self._formulas:
            made = each.graph(self._typed(each.columns, tensors))
            places = [self._places[column.name] for column in each.columns]
            if "start" in places[0]:
                numbers = [number for place in places for number in range(place["start"], place["stop"])]
                parts[places[0]["array"]].append((numbers, tf.reshape(made, [-1, len(numbers)])))
                continue
            for index, place in enumerate(places):
                parts[place["array"]].append(([0], made[:, index]))
        return {name: tf.cast(_in_place(parts[name]), array["dtype"]) for name, array in self._arrays.items()}

    def described(self, source: RawInput) -> list[str]:
        """Return columns, argument, tensor and missing values of an input as text."""
        kind, count = RAW_KINDS[source.columns[0].kind], len(source.columns)
        missing = [kind.missing, *(self._missing if kind.dtype == "string" else ())]
        tensor = f"{kind.dtype} [{', '.join(['batch', *map(str, source.shape)])}]{kind.unit}"
        order = f"the {count:,} of this kind, in the order of `columns` in `transform/transform.json`"
        named = order if source.together else source.columns[0].name
        return [named, f"`{source.argument}`", tensor, ", ".join(missing)]

    def spec(self, source: RawInput) -> tf.TensorSpec:
        """Return the specification of an input's tensor."""
        import tensorflow as tf

        return tf.TensorSpec([None, *source.shape], RAW_KINDS[source.columns[0].kind].dtype, name=source.argument)

    def _raw(self, columns: Sequence[RawColumn], tensors: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return raw columns of one kind and shape, [n, columns, *shape]."""
        import tensorflow as tf

        sources = [self._sources[column.name] for column in columns]
        [first, *_], indices = zip(*sources, strict=True)
        if not first.together:
            return tf.stack([tensors[source.argument] for source, _ in sources], axis=1)
        tensor = tensors[first.argument]
        return tensor if len(indices) == len(first.columns) else tf.gather(tensor, indices, axis=1)

    def _typed(self, columns: Sequence[RawColumn], tensors: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the typed values of raw columns of one kind, as `tasks.reader.cast.column` does of each."""
        import tensorflow as tf

        kind, raw = RAW_KINDS[columns[0].kind], self._raw(columns, tensors)
        if kind.dtype == "string":
            bare = tf.strings.strip(raw)
            for missing in self._missing:
                raw = tf.where(bare == missing, "", raw)
            for missing, where in _missing_of(columns):
                raw = tf.where((bare == missing) & where, "", raw)
        if kind.dtype == "float64":
            for missing, where in _missing_of(columns):
                if NUMBER.fullmatch(missing):
                    raw = tf.where((raw == float(missing)) & where, tf.constant(math.nan, tf.float64), raw)
            if any(column.offset for column in columns):
                raw = raw - _of_each(columns, np.array([column.offset for column in columns]))
        return kind.typed(columns, raw)


def _missing_of(columns: Sequence[RawColumn]) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return the texts that mean a missing value in some of the columns, and in which, bool [1, columns, 1, ...]."""
    texts = sorted({text for column in columns for text in column.missing})
    return [(text, _of_each(columns, np.array([text in column.missing for column in columns]))) for text in texts]


def _of_each(columns: Sequence[RawColumn], values: NDArray[Any]) -> NDArray[Any]:
    """Return a value of each column as [1, columns, 1, ...], which belongs to [n, columns, *shape]."""
    return values.reshape(1, len(columns), *(1 for _ in columns[0].shape))


def _in_place(parts: list[tuple[list[int], tf.Tensor]]) -> tf.Tensor:
    """Return an array of tensors whose columns have these numbers in it; one that has an array of its own as it is."""
    import tensorflow as tf

    numbers = [number for part, _ in parts for number in part]
    joined = parts[0][1] if len(parts) == 1 else tf.concat([tensor for _, tensor in parts], axis=1)
    return joined if numbers == sorted(numbers) else tf.gather(joined, np.argsort(numbers), axis=1)


def in_graph(root: Path) -> Preprocess | None:
    """Return the preprocessing of a snapshot or an export as a graph; None where not every column has one."""
    path = root / "transform" / DESCRIPTION
    return of_description(json.loads(path.read_bytes())) if path.is_file() else None


def of_description(description: Mapping[str, Any]) -> Preprocess | None:
    """Do the work of `in_graph` from the contents of the file."""
    if not description.get("columns"):
        return None
    columns = _columns(description)
    made = _graphs(description, columns)
    formulas = [Formula(alike, each) for alike, each in made if not isinstance(each, str)]
    return Preprocess(description, columns, formulas) if len(formulas) == len(made) else None


def without_graph(description: Mapping[str, Any]) -> dict[str, str]:
    """Return why the reader alone can make a column, by its name."""
    made = _graphs(description, _columns(description))
    return {column.name: each for alike, each in made if isinstance(each, str) for column in alike}


def _columns(description: Mapping[str, Any]) -> list[RawColumn]:
    made = []
    for column in description.get("columns", ()):
        written = column.get("format", {})
        offset, missing = float(written.get("offset", 0.0)), tuple(written.get("missing", ()))
        made.append(RawColumn(column["name"], column["kind"], tuple(column["shape"]), offset, missing))
    return made


def _inputs(columns: Sequence[RawColumn]) -> list[RawInput]:
    """Return the inputs of the graph: one for each column, or in a wide table for all of a kind."""
    if len(columns) <= WIDE:
        arguments = arguments_of(column.name for column in columns)
        return [RawInput(arguments[column.name], (column,), together=False) for column in columns]
    single: dict[str, list[RawColumn]] = {}
    for column in columns:
        if not column.shape:
            single.setdefault(RAW_KINDS[column.kind].together, []).append(column)
    arrays = [column for column in columns if column.shape]
    names = list(arguments_of([*single, *(column.name for column in arrays)]).values())
    return [
        *(RawInput(name, tuple(alike), together=True) for name, alike in single.items()),
        *(RawInput(name, (column,), together=False) for name, column in zip(names[len(single) :], arrays, strict=True)),
    ]


def _graphs(
    description: Mapping[str, Any], columns: Iterable[RawColumn]
) -> list[tuple[tuple[RawColumn, ...], Graph | str]]:
    """Return the columns of each formula with their graph, or why they have none."""
    states = description.get("transforms", {})
    alike: dict[Any, list[RawColumn]] = {}
    for column in columns:
        alike.setdefault((column.kind, column.shape, formula(states[column.name])), []).append(column)
    return [(tuple(each), graph([states[column.name] for column in each])) for each in alike.values()]


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
    """Return the raw inputs of the first records of a split, by argument."""
    reader, names = RecordsReader(records.path), [column.name for column in preprocess.columns]
    raw: dict[str, list[Any]] = {name: [] for name in names}
    for table in reader.tables(split, names, stop=count):
        for name in names:
            raw[name] += list(typed(table[name], reader.features[name]))
    for column in preprocess.columns:
        if column.offset:
            raw[column.name] = list(np.array(raw[column.name], np.float64) + column.offset)
    found = {}
    for source in preprocess.inputs:
        dtype = RAW_KINDS[source.columns[0].kind].dtype.replace("string", "str")
        values = [np.array(raw[column.name], dtype) for column in source.columns]
        found[source.argument] = np.stack(values, axis=1) if source.together else values[0]
    return found


def _check(columns: Sequence[RawColumn], valid: tf.Tensor, rule: str) -> None:
    """Have the graph refuse invalid values, by the rows of the first such column: what is not UTF-8 cannot be in a
    message."""
    import tensorflow as tf

    invalid = tf.reduce_any(tf.reshape(~valid, [-1, len(columns), int(np.prod(columns[0].shape))]), axis=2)
    first = tf.argmax(tf.reduce_any(invalid, axis=0))
    message = tf.strings.join(["column ", tf.gather([column.name for column in columns], first), f": {rule}; rows"])
    rows = tf.where(tf.gather(invalid, first, axis=1))[:, 0]
    # The operation itself: `tf.debugging.Assert` makes two functions whose names depend on the process.
    tf.raw_ops.Assert(condition=~tf.reduce_any(invalid), data=[message, rows])
