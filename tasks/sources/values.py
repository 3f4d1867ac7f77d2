"""Values of columns: nested ones by dotted name, lists and texts as arrow columns.

The form of a text does not depend on the values around it: a batch may end anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Fields = Iterable[pa.Field]


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are texts."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def is_octets(kind: pa.DataType) -> bool:
    """Return whether values of a type are bytes of any length."""
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether values of a type are lists, of any length or all of one."""
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


def leaves(fields: Fields, known: Iterable[str], prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all values: of an object that is not `known` as a whole, those of its fields."""
    known = set(known)
    for field in fields:
        name = prefix + field.name
        if name not in known and pt.is_struct(field.type):
            yield from leaves(field.type, known, f"{name}.")
        else:
            yield name


def column(table: pa.Table, name: str) -> pa.Array:
    """Return the values of a dotted name; nulls where there are none."""
    if name in table.schema.names:
        values = _whole(table[name])
        if not values.null_count or (inner := _inner(table, name)) is None:
            return values
        if values.null_count == len(values):
            return inner
        return pc.coalesce(values, inner) if values.type == inner.type else values
    inner = _inner(table, name)
    return pa.nulls(table.num_rows) if inner is None else inner


def value(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a dotted name in an object; None where there is none."""
    if name in row:
        return row[name]
    for end in _dots(name):
        if isinstance(inner := row.get(name[:end]), dict):
            return value(inner, name[end + 1 :])
    return None


def names_in(row: Mapping[str, Any], known: set[str], prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all values in an object, as `leaves` does, without those that are null."""
    for name, inner in row.items():
        if prefix + name not in known and isinstance(inner, dict):
            yield from names_in(inner, known, f"{prefix}{name}.")
        elif inner is not None:
            yield prefix + name


def _inner(table: pa.Table, name: str) -> pa.Array | None:
    for end in _dots(name):
        if name[:end] in table.schema.names and pt.is_struct(table.schema.field(name[:end]).type):
            values = _whole(table[name[:end]])
            inside = pa.Table.from_arrays(values.flatten(), [field.name for field in values.type])
            rest = name[end + 1 :]
            if rest in inside.schema.names or _inner(inside, rest) is not None:
                return column(inside, rest)
    return None


def _dots(name: str) -> Iterator[int]:
    return (position for position, sign in enumerate(name) if sign == ".")


def _whole(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(values, pa.ChunkedArray):
        return values
    combined = values.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


TEXTS = ("category", "text")
LISTS = ("words", "tags")
"""Types of columns of lists of texts."""
PLAIN: tuple[set[type], ...] = ({str}, {int}, {bool}, {bytes}, set())
"""Types of values that Arrow makes the same texts of as `text_of`."""

NOT_NUMBERS = "not an array of numbers"


def column_of(values: Sequence[Any], column_type: str) -> tuple[pa.Array, dict[int, str]]:
    """Return values as a column, and the rows whose value is of no use to it, with reasons.

    Arrays become lists of float64 in C order, words and tags lists of texts. Values of several types become texts, each
    by itself.
    """
    if column_type.startswith("number["):
        return _arrays(values)
    if column_type in LISTS:
        return _lists(values, column_type)
    kinds = {type(value) for value in values if value is not None}
    if column_type in ("image", "audio") and kinds not in ({str}, {bytes}, set()):
        return _files(values)
    if column_type in TEXTS and kinds not in PLAIN:
        return _as_texts(values), {}
    try:
        return pa.array(values), {}
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _as_texts(values), {}


def columns_of(
    items: Sequence[Any], types: Mapping[str, str], fitting: Callable[[Any], Mapping[str, Any]]
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """Return items as columns of these types, and the rows that are bad, with reasons.

    Args:
        fitting: returns the values of an item by column, without missing ones; raises `ValueError` for a bad one.
    """
    values: dict[str, list[Any]] = {name: [] for name in types}
    columns: dict[str, pa.Array] = {}
    bad: dict[int, str] = {}
    for row, item in enumerate(items):
        fit: Mapping[str, Any] = {}
        try:
            fit = fitting(item)
        except ValueError as reason:
            bad[row] = str(reason)
        for name in types:
            values[name].append(fit.get(name))
    for name, column_type in types.items():
        columns[name], misfits = column_of(values[name], column_type)
        bad = {**{row: f"{name}: {reason}" for row, reason in misfits.items()}, **bad}
    return columns, bad


def text_of(value: Any) -> str | None:
    """Return the text of a scalar: `true`, `1.5`; of an array or an object its JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        text: str = pa.scalar(float(value)).cast(pa.string()).as_py()
        return text
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _as_texts(values: Sequence[Any]) -> pa.Array:
    return pa.array([text_of(value) for value in values], pa.string())


def _files(values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """Return bytes and paths as Hugging Face writes them."""
    files: list[dict[str, Any] | None] = []
    bad = {}
    for row, value in enumerate(values):
        if isinstance(value, bytes | str | None):
            files.append({"bytes" if isinstance(value, bytes) else "path": value})
        elif isinstance(value, dict) and set(value) <= {"bytes", "path"}:
            files.append(value)
        else:
            bad[row] = "neither bytes nor a path"
            files.append(None)
    return pa.array(files, pa.struct([("bytes", pa.binary()), ("path", pa.string())])), bad


def _lists(values: Sequence[Any], column_type: str) -> tuple[pa.Array, dict[int, str]]:
    lists: list[Any] = []
    bad = {}
    for row, value in enumerate(values):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        lists.append(None)
        if items is None:
            continue
        if not isinstance(items, list | tuple) or any(isinstance(item, dict | list | tuple) for item in items):
            bad[row] = f"not a list of {column_type}"
            continue
        try:
            lists[-1] = [text_of(item) for item in items]
            pa.array(lists[-1], pa.string())
        except UnicodeEncodeError:
            bad[row], lists[-1] = "half of a surrogate pair", None
    return pa.array(lists, pa.list_(pa.string())), bad


def _arrays(values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    arrays: list[Any] = []
    bad = {}
    for row, value in enumerate(values):
        try:
            arrays.append(None if value is None else np.asarray(value, np.float64).ravel())
        except (ValueError, TypeError, OverflowError):
            bad[row] = NOT_NUMBERS
            arrays.append(None)
    return pa.array(arrays, pa.list_(pa.float64())), bad


Columns = Mapping[str, pa.Array]
