"""Parquet files, read by row groups, with nested columns by dotted name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from tasks.errors import Failed
from tasks.sources import PARTITION_BYTES, Rows
from tasks.sources.hashes import hashes_of_columns
from tasks.sources.kinds.columns import check_columns
from tasks.sources.streams import check_ratio, reading
from tasks.sources.table_files import Numbered, Part, Tables, texts
from tasks.sources.values import column, is_octets, leaves

FIXED = re.compile(r"Expected all lists to be of size", re.IGNORECASE)
BUFFER = 1 << 20
"""Bytes of a column that are read at a time."""
MAX_ROWS, MAX_FILES = 1 << 16, 1 << 10
"""Rows of a batch, at most, and of one with images or sounds."""


class Parquet(Tables):
    """Has the columns of the config with their types in the files."""

    def check(self, path: str) -> None:
        with self._opened(path) as file:
            check_columns(self.config, leaves(file.schema_arrow, self.config.columns), path)

    def parts(self, path: str, target: int) -> Iterator[Part]:
        self.check(path)
        with self._opened(path) as file:
            row = first = size = 0
            begin = 0
            for group in range(file.num_row_groups):
                metadata = file.metadata.row_group(group)
                size += self._bytes(path, metadata)
                row += metadata.num_rows
                if size >= target or group == file.num_row_groups - 1:
                    yield Part(path, size, (begin, group + 1, first))
                    begin, first, size = group + 1, row, 0

    def rows(self, path: str, where: tuple[Any, ...], columns: list[str], hashed: bool) -> Iterator[Rows]:
        begin, end, row = where
        read = None if hashed else columns
        groups = list(range(begin, end))
        with self._opened(path) as file:
            count = sum(file.metadata.row_group(group).num_rows for group in groups)
            size = sum(self._bytes(path, file.metadata.row_group(group)) for group in groups)
            most = MAX_FILES if self._payloads.names else MAX_ROWS
            limit = max(1, min(most, PARTITION_BYTES * count // max(size, 1)))
            for batch in file.iter_batches(limit, row_groups=groups, columns=read, use_threads=False):
                table = pa.Table.from_batches([batch])
                everything = dict(zip(table.column_names, table.columns, strict=True))
                hashes = hashes_of_columns(everything, len(batch)) if hashed else None
                classes = class_names(file.schema_arrow)
                found = {name: batch[name] if name in batch.schema.names else column(table, name) for name in columns}
                typed = {name: _named(_plain(values), classes.get(name)) for name, values in found.items()}
                strings = {name: values for name, values in typed.items() if _is_text(values.type)}
                decoded, bad = texts({name: values.cast(pa.large_binary()) for name, values in strings.items()})
                yield Numbered(path, row, len(batch)).rows({**typed, **decoded}, bad, hashes=hashes)
                row += len(batch)

    def referring(self, path: str) -> list[str]:
        with self._opened(path) as file:
            return [name for name in self._payloads.names if not _is_embedded(file, name)]

    def _bytes(self, path: str, group: pq.RowGroupMetaData) -> int:
        """Return the uncompressed bytes of the columns that are read; without a key that is all of them."""
        size = 0
        for number in range(group.num_columns):
            chunk = group.column(number)
            names = chunk.path_in_schema
            if self.config.key is None or any(names == name or names.startswith(f"{name}.") for name in self.columns):
                check_ratio(path, chunk.total_compressed_size, chunk.total_uncompressed_size)
                size += chunk.total_uncompressed_size
        return size

    @contextmanager
    def _opened(self, path: str) -> Iterator[pq.ParquetFile]:
        try:
            with (
                reading(path),
                pq.ParquetFile(
                    self.root / path,
                    buffer_size=BUFFER,
                    pre_buffer=False,
                    page_checksum_verification=True,
                    coerce_int96_timestamp_unit="us",  # nanoseconds end in 2262
                ) as file,
            ):
                yield file
        except pa.ArrowException as error:
            saw = str(error).splitlines()[0]
            if FIXED.search(saw):
                rule = "Arrow reads no missing list in a column of lists of one size"
                raise Failed(path, saw, rule, "write lists of any length, or fill the missing ones") from None
            rule = "a Parquet file must be whole, and of types that Arrow reads"
            raise Failed(path, saw, rule, "bring it again, or name it in source.exclude") from None


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the names of the classes of columns of whole numbers, in their order, as Hugging Face's datasets note them
    in the schema; -1 is no class."""
    noted = (schema.metadata or {}).get(b"huggingface")
    try:
        features = json.loads(noted)["info"]["features"] if noted else {}
        return {name: list(each["names"]) for name, each in features.items() if each.get("_type") == "ClassLabel"}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _named(values: pa.Array, names: list[str] | None) -> pa.Array:
    """Return whole numbers of classes as the names of these."""
    if names is None or not pt.is_integer(values.type):
        return values
    known = pc.and_(pc.greater_equal(values, 0), pc.less(values, len(names)))
    return pa.array(names, pa.string()).take(pc.if_else(known, values, None))


def _plain(values: pa.Array) -> pa.Array:
    """Return values without a dictionary or a type of an extension."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    return values.dictionary_decode() if pt.is_dictionary(values.type) else values


def _is_text(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind)


def _is_embedded(file: pq.ParquetFile, name: str) -> bool:
    """Return whether a column has bytes in every row, by schema and statistics."""
    schema = file.schema_arrow
    kind = schema.field(name).type if name in schema.names else pa.null()
    if not pt.is_struct(kind):
        return is_octets(kind)
    groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    inside = [chunk.statistics for chunk in chunks if chunk.path_in_schema == f"{name}.bytes"]
    return all(statistics is not None and statistics.null_count == 0 for statistics in inside)
