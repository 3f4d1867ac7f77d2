"""Nested values by dotted name: `user.age` is the field `age` of the object `user`, or a field of that very name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Fields = Iterable[pa.Field]


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
