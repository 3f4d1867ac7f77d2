"""Rows of a database, streamed in the order of their key, in a transaction that changes nothing."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pyarrow as pa
from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    collate,
    column,
    create_engine,
    false,
    func,
    literal_column,
    quoted_name,
    select,
    table,
    text,
)
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from tasks.environment.secrets import resolve, unreferenced
from tasks.errors import Failed, Refused
from tasks.sources import PARTITION_BYTES, Bad, Partition, Rows, Source, not_utf8
from tasks.sources.features import Feature
from tasks.sources.kinds.columns import ColumnsSource, check_columns, features_of, read_columns
from tasks.sources.payloads import columns_of_files
from tasks.sources.values import column_of, text_of

SELECT = re.compile(r"[\s(]*(select|with|values|table)\b", re.IGNORECASE)

SECRET = re.compile(r"pass|pwd|odbc_connect", re.IGNORECASE)
"""Options of a URL that are passwords, or have one."""

BATCH_BYTES, FIRST_ROWS, MAX_ROWS = 4 << 20, 100, 20_000
"""Bytes of a batch, about; rows of the first one, and of any, at most."""
BUFFERED, BUFFERED_FILES = 1000, 16
"""Rows that the driver holds, at most; and where they have images or sounds."""


class Sql(Source):
    """Has the columns of the config with the types of the database; an image is its bytes.

    All rows are streamed to be listed, as they have no date and no hash but what is computed from them. A partition
    is a range of keys, read in a transaction of its own and held against its hash.
    """

    def __init__(self, config: ColumnsSource, url: str, query: str) -> None:
        """Prepare to connect; raises `Refused` where the URL is none."""
        self._config, self._query = config, query.strip().rstrip(";")
        self._columns = read_columns(config)
        self._files = columns_of_files(config)
        self._url = _url_of(url)
        self._key: ColumnElement[Any] = column(quoted_name(str(config.key), quote=True))
        if self._url.get_backend_name() == "sqlite":  # whatever collation the column has
            self._key = collate(self._key, "BINARY")
        self._partitions: list[Partition] = []

    @property
    def features(self) -> Mapping[str, Feature]:
        return features_of(self._config)

    def fingerprint(self) -> list[tuple[str, str]]:
        """Return the SHA-256 of all rows in the order of their key, which are streamed for it."""
        with self._connected() as connection:
            self._check(connection)
            keyless = connection.execute(self._select(func.count()).where(self._key.is_(None))).scalar_one()
            ranges = list(self._ranges(connection))
        ends = [begin for begin, _, _ in ranges[1:]]
        self._partitions = [
            Partition(f"rows from {self._config.key} {text_of(begin)}", size, (begin, end, sha256))
            for (begin, size, sha256), end in zip_longest(ranges, ends)
        ]
        if keyless:
            self._partitions.append(Partition(f"rows without {self._config.key}", 0, (keyless,)))
        return [(partition.name, str(partition.where[-1])) for partition in self._partitions]

    def partitions(self) -> list[Partition]:
        if not self._partitions:
            self.fingerprint()
        return self._partitions

    def read(self, partition: Partition) -> Iterator[Rows]:
        if len(partition.where) == 1:
            yield self._without_key(*partition.where)
            return
        begin, end, sha256 = partition.where
        within = self._key >= begin if end is None else and_(self._key >= begin, self._key < end)
        sha = hashlib.sha256()
        with self._connected() as connection:
            for batch in self._stream(connection, within):
                for row in batch:
                    sha.update(_octets(row))
                yield self._rows(batch)
        if sha.hexdigest() != sha256:
            rule = "a source must not change while it is read"
            raise Failed("source.query", "other rows than a moment ago", rule, "run again, or select from a snapshot")

    def _ranges(self, connection: Connection) -> Iterator[tuple[Any, int, str]]:
        """Yield first key, bytes and SHA-256 of ranges of rows; raises `Failed` for a key that orders no rows."""
        at = self._columns.index(str(self._config.key))
        begin, before, size, sha = None, None, 0, hashlib.sha256()
        for batch in self._stream(connection, self._key.is_not(None)):
            for row in batch:
                if row[at] == before:
                    rule, remedy = "the key orders the rows, so each has another", "name another column, or correct it"
                    raise Failed("source.key", f"{self._config.key} {before} more than once", rule, remedy)
                if size >= PARTITION_BYTES:
                    self._check_order(before, row[at])
                    yield begin, size, sha.hexdigest()
                    size, sha = 0, hashlib.sha256()
                if not size:
                    begin = row[at]
                before = row[at]
                sha.update(_octets(row))
                size += _size(row)
        if size:
            yield begin, size, sha.hexdigest()

    def _check_order(self, before: Any, key: Any) -> None:
        """Raise `Failed` where the database takes two keys for equal, which then are in no range or in two."""
        with self._connected() as connection:
            equal = connection.execute(self._select(func.count()).where(self._key == key)).scalar_one()
        if equal > 1:
            saw = f"{self._config.key} {before} and {key}, which the database takes for equal"
            rule, remedy = "the key orders the rows, so each has another", "give the column a binary collation"
            raise Failed("source.key", saw, rule, remedy)

    def _rows(self, batch: list[tuple[Any, ...]]) -> Rows:
        at = self._columns.index(str(self._config.key))
        bad: dict[int, str] = {}
        columns: dict[str, pa.Array] = {}
        for name, values in zip(self._columns, map(list, zip(*batch, strict=True)), strict=True):
            for row, value in enumerate(values):
                if not isinstance(value, bytes | None) if name in self._files else isinstance(value, bytes):
                    values[row], reason = _fitting(value)
                    if reason:
                        bad.setdefault(row, f"{name}: {reason}")
            columns[name], misfits = column_of(values, self._config.columns[name])
            bad = {**{row: f"{name}: {reason}" for row, reason in misfits.items()}, **bad}
        keys = [text_of(row[at]) for row in batch]
        good = [row for row in range(len(batch)) if row not in bad]
        if bad:
            columns = {name: values.take(pa.array(good, pa.int64())) for name, values in columns.items()}
        left_out = [Bad(str(keys[row]), reason, self._place(keys[row])) for row, reason in sorted(bad.items())]
        good_keys = [keys[row] for row in good]
        return Rows(columns, pa.array(good_keys, pa.string()), lambda row: self._place(good_keys[row]), bad=left_out)

    def _without_key(self, count: int) -> Rows:
        """Return as many bad rows."""
        key = self._config.key
        bad = [Bad(f"without {key} {row:09d}", f"{key}: missing", f"row without {key}") for row in range(count)]
        return Rows(dict.fromkeys(self._columns, pa.nulls(0)), pa.array([], pa.string()), str, bad=bad)

    def _place(self, key: str | None) -> str:
        return f"row with {self._config.key} {key}"

    def _stream(self, connection: Connection, within: ColumnElement[bool]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield rows in the order of their key, in batches."""
        names: list[ColumnElement[Any]] = [column(quoted_name(name, quote=True)) for name in self._columns]
        result = connection.execute(self._select(*names).where(within).order_by(self._key))
        count = FIRST_ROWS
        while batch := result.fetchmany(count):
            rows = [tuple(_value(value) for value in row) for row in batch]
            yield rows
            size = sum(map(_size, rows))
            count = max(1, min(MAX_ROWS, BATCH_BYTES * len(rows) // size))

    def _check(self, connection: Connection) -> None:
        """Raise `Refused` where the rows have other columns than the config names."""
        names = list(connection.execute(self._select(literal_column("*")).where(false())).keys())
        if repeated := [name for name, count in Counter(names).items() if count > 1]:
            rule = "columns have different names"
            raise Refused("source.query", f"{repeated[0]} more than once", rule, "name them with AS")
        check_columns(self._config, names, "source.query")

    def _select(self, *columns: ColumnElement[Any]) -> Select[Any]:
        """Return a selection from the query, or from the table of that name."""
        if SELECT.match(self._query):
            as_it_is = self._query.replace(":", r"\:")  # a colon would begin a parameter
            return select(*columns).select_from(text(f"(\n{as_it_is}\n) AS source_rows"))
        schema, _, name = self._query.rpartition(".")
        within = quoted_name(schema, quote=True) if schema else None
        return select(*columns).select_from(table(quoted_name(name, quote=True), schema=within))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Connect for one transaction, which ends as it began; no error has a password."""
        buffered = BUFFERED_FILES if self._files else BUFFERED
        options: dict[str, Any] = {"stream_results": True, "max_row_buffer": buffered}
        if self._url.get_backend_name() == "postgresql":
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        try:
            with _engine_of(self._url).connect().execution_options(**options) as connection:
                yield connection
        except (SQLAlchemyError, sqlite3.Error) as error:
            saw = self._without_password(str(getattr(error, "orig", None) or error))
            rule, remedy = "the database must answer the query", "correct source.query or source.url, or start it"
            raise Failed("source.query", saw, rule, remedy) from None

    def _without_password(self, text: str) -> str:
        given = [value for name in self._url.query for value in self._url.normalized_query[name] if SECRET.search(name)]
        for secret in filter(None, [str(self._url.password or ""), *given]):
            text = text.replace(secret, "***").replace(quote_plus(secret), "***")
        return " ".join(text.split())


def _url_of(given: str) -> URL:
    """Return a URL, or the one behind a reference."""
    saw = given if unreferenced(given) else "no URL"
    try:
        url = make_url(given if unreferenced(given) else resolve(given))
        url.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError):
        remedy = "write it as dialect://user@host/database, and install its driver"
        raise Refused("source.url", saw, "must be a URL of SQLAlchemy", remedy) from None
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise Refused("source.url", saw, "names a file that is there", "correct the path")
    return url


def _engine_of(url: URL) -> Any:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, poolclass=NullPool, hide_parameters=True)
    path = Path(url.database or "").resolve()

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
        connection.text_factory = lambda octets: _fitting(octets)[0] or octets
        return connection

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


def _octets(row: tuple[Any, ...]) -> bytes:
    """Return what of a row is hashed."""
    return repr(row).encode("utf-8", "surrogatepass")


def _size(row: tuple[Any, ...]) -> int:
    return 8 + sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)


def _value(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def _fitting(value: Any) -> tuple[str | None, str | None]:
    """Return bytes as text; or why they are none, or why another value is no file."""
    if not isinstance(value, bytes):
        what = "text" if isinstance(value, str) else "number" if isinstance(value, int | float) else "value"
        return None, f"a {what}, and a database holds the bytes of images and sounds"
    try:
        return value.decode(), None
    except UnicodeDecodeError as error:
        return None, not_utf8(error)
