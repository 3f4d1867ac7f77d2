"""JSON lines, parsed by Arrow a block at a time; a block that it cannot parse is read line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.types as pt

from tasks.sources import Rows, not_utf8
from tasks.sources.delimited import Block, Delimited, Dialect, Opened
from tasks.sources.hashes import Hashes
from tasks.sources.kinds.columns import ReferringTables
from tasks.sources.streams import open_stream, without_bom
from tasks.sources.table_files import Numbered, is_utf8
from tasks.sources.values import LISTS, TEXTS, column, column_of, leaves, names_in, value

AS_WRITTEN = (*TEXTS, *LISTS, "time", "image", "audio")
"""Types of columns whose strings are kept as they are: Arrow would take some for times."""

OPEN, CLOSE = b"{}"


class Jsonl(Delimited):
    """Has a column for each of the config, typed as JSON is; a field that a line lacks is null.

    A line with a field that the config does not name is bad, unless that is null.
    """

    dialect = Dialect()

    def __init__(self, config: ReferringTables, memory: Path | None) -> None:
        super().__init__(config, memory)
        self._strings = {name for name in self.columns if config.columns[name] in AS_WRITTEN}
        """Columns in which strings are expected; numbers in one are found out at the first."""

    @contextmanager
    def opened(self, path: str) -> Iterator[Opened]:
        with open_stream(self.root, path) as raw:
            stream, begin = without_bom(raw, path, "JSON is UTF-8, and it")
            yield Opened(stream, [], begin)

    def parsed(self, path: str, names: list[str], block: Block, columns: list[str], hashes: Hashes | None) -> Rows:
        numbered = Numbered(path, block.row, len(block), block.lines)
        table = self._table(block.data) if self._is_regular(block) else None
        if table is not None and table.num_rows == len(block):
            return numbered.rows(self._columns(table, columns), self._unnamed(table), hashes=hashes)
        objects, bad = self._objects(block)
        present, absent = list(objects), sorted(bad)
        table = self._table(block.without(absent)) if objects else None
        if table is not None and table.num_rows == len(objects):
            read, misread = self._columns(table, columns), self._unnamed(table)
        else:
            read, misread = self._from_objects(list(objects.values()), columns)
        bad |= {present[row]: reason for row, reason in misread.items()}
        return numbered.rows(read, bad, absent, hashes)

    def _is_regular(self, block: Block) -> bool:
        """Return whether each line begins and ends as an object does, in UTF-8: Arrow does not read by lines."""
        octets = np.frombuffer(block.data.rstrip(), np.uint8)
        if not len(octets) or len(block.breaks) > len(block) or not is_utf8(block.data):
            return False
        ends = block.starts[1:] - 1
        final = octets[ends - 1]
        final = np.where(final == ord("\r"), octets[ends - 2], final)
        whole = (octets[block.starts] == OPEN).all() and (final == CLOSE).all() and octets[-1] == CLOSE
        return bool(whole)

    def _table(self, data: bytes) -> pa.Table | None:
        """Parse lines; None where Arrow cannot, or would change what is written."""
        everything = {name for name in self.columns if self.config.columns[name] in AS_WRITTEN}
        for strings in (self._strings, everything, set()):
            options = pa_json.ParseOptions(explicit_schema=_schema(strings, self.config.columns))
            reading = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
            try:
                table = pa_json.read_json(pa.BufferReader(data), reading, options)
            except pa.ArrowInvalid:
                continue
            numbers = {name for name in everything if not _is_text(column(table, name).type)}
            if all(_is_exact(column(table, name).type) for name in numbers):
                self._strings = everything - numbers
                return table
        return None

    def _columns(self, table: pa.Table, names: list[str]) -> dict[str, pa.Array]:
        return {name: column(table, name) for name in names}

    def _unnamed(self, table: pa.Table) -> dict[int, str]:
        """Return the rows with a field that the config does not name."""
        known = self.config.columns
        bad: dict[int, str] = {}
        for name in leaves(table.schema, known):
            if name not in known:
                for row in np.flatnonzero(np.asarray(pc.is_valid(column(table, name)))):
                    bad.setdefault(int(row), _unknown(name))
        return bad

    def _objects(self, block: Block) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
        """Parse line by line; return objects by record, and by record why it is bad."""
        objects: dict[int, dict[str, Any]] = {}
        bad: dict[int, str] = {}
        for record, line in enumerate(map(bytes.strip, block.records)):
            try:
                row = json.loads(line.decode(), object_pairs_hook=_once)
                if b"\\u" in line:
                    json.dumps(row, ensure_ascii=False).encode()
            except UnicodeDecodeError as error:
                bad[record] = not_utf8(error)
            except UnicodeEncodeError:
                bad[record] = "half of a surrogate pair"
            except (ValueError, RecursionError) as error:
                bad[record] = f"not JSON: {error}".splitlines()[0]
            else:
                if isinstance(row, dict):
                    objects[record] = row
                else:
                    bad[record] = f"a JSON {type(row).__name__}, and not an object"
        return objects, bad

    def _from_objects(
        self, objects: list[dict[str, Any]], names: list[str]
    ) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """Return columns of objects, and by row why it is bad."""
        columns, known = {}, set(self.config.columns)
        bad: dict[int, str] = {}
        for row, item in enumerate(objects):
            if unknown := next((name for name in names_in(item, known) if name not in known), None):
                bad[row] = _unknown(unknown)
        for name in names:
            values = [value(item, name) for item in objects]
            columns[name], misfits = column_of(values, self.config.columns[name])
            bad |= {row: f"{name}: {reason}" for row, reason in misfits.items() if row not in bad}
        return columns, bad


def _schema(strings: set[str], columns: dict[str, str]) -> pa.Schema:
    """Return the fields that are strings, also within objects."""
    tree: dict[str, Any] = {}
    for name in sorted(strings):
        tree[name] = kind = pa.list_(pa.string()) if columns[name] in LISTS else pa.string()
        *parents, last = name.split(".")
        if parents and not any(".".join(parents[:end]) in columns for end in range(1, len(parents) + 1)):
            reduce(lambda inner, parent: inner.setdefault(parent, {}), parents, tree)[last] = kind
    return pa.schema(_fields(tree))


def _fields(tree: dict[str, Any]) -> list[pa.Field]:
    return [pa.field(name, pa.struct(_fields(kind)) if isinstance(kind, dict) else kind) for name, kind in tree.items()]


def _is_text(kind: pa.DataType) -> bool:
    if pt.is_list(kind):
        return _is_text(kind.value_type)
    return pt.is_string(kind) or pt.is_null(kind)


def _is_exact(kind: pa.DataType) -> bool:
    """Return whether texts of values are as they are written."""
    if pt.is_list(kind):
        return _is_exact(kind.value_type)
    return pt.is_integer(kind) or pt.is_boolean(kind)


def _unknown(name: str) -> str:
    return f"a field {name!r} that source.columns does not name"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there more than once")
    return row
