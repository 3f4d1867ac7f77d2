"""Python values as arrow columns, where a source has no typed ones.

The form of a text does not depend on the values around it: a batch may end anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

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
