"""Rows of a database, streamed in the order of their key, in a transaction that changes nothing."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pyarrow as pa
from sqlalchemy import create_engine
from sqlalchemy.engine import URL, Connection, CursorResult, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from tasks.config import SqlSource
from tasks.data.features import Feature
from tasks.data.sources import Bad, Piece, Rows, Source
from tasks.data.sources.columns import check_columns, features_of, read_columns
from tasks.data.sources.payloads import columns_of_files
from tasks.data.sources.values import column_of, text_of
from tasks.environment.secrets import resolve, unreferenced
from tasks.errors import Failed, Refused

SELECT = re.compile(r"[\s(]*(select|with|values|table)\b", re.IGNORECASE)

BATCH_BYTES, FIRST_ROWS, MAX_ROWS = 4 << 20, 100, 20_000
"""Bytes of a batch, about; rows of the first one, and of any, at most."""
BUFFERED, BUFFERED_FILES = 1000, 16
"""Rows that the driver holds, at most; and where they have images or sounds."""


def open(config: SqlSource, memory: Path | None = None) -> Sql:
    """Return the source, not yet connected; raises `Refused` where the URL is none."""
    return Sql(config)


class Sql(Source):
    """Has the columns of the config with the types of the database; an image is its bytes.

    The rows are streamed twice: they have no date and no hash but what is computed from all of them.
    """

    def __init__(self, config: SqlSource) -> None:
        self._config = config
        self._columns = read_columns(config)
        self._files = columns_of_files(config)
        self._url = _url_of(config)
        self._sha256: str | None = None

    @property
    def features(self) -> Mapping[str, Feature]:
        return features_of(self._config)

    def fingerprint(self) -> list[tuple[str, str]]:
        """Return the SHA-256 of all rows in the order of their key, which are streamed for it."""
        sha = hashlib.sha256()
        for batch in self._stream():
            _add(sha, batch)
        self._sha256 = sha.hexdigest()
        return [("rows", self._sha256)]

    def pieces(self) -> list[Piece]:
        if self._sha256 is None:
            self.fingerprint()
        return [Piece("rows", 0, ())]

    def read(self, piece: Piece) -> Iterator[Rows]:
        sha = hashlib.sha256()
        for batch in self._stream():
            _add(sha, batch)
            yield self._rows(batch)
        if sha.hexdigest() != self._sha256:
            rule = "a source must not change while it is read"
            raise Failed("source.query", "other rows than a moment ago", rule, "run again, or select from a snapshot")

    def _rows(self, batch: list[tuple[Any, ...]]) -> Rows:
        at = self._columns.index(str(self._config.key))
        bad: dict[int, str] = {}
        columns: dict[str, pa.Array] = {}
        for name, values in zip(self._columns, map(list, zip(*batch, strict=True)), strict=True):
            for row, value in enumerate(values):
                if isinstance(value, bytes if name not in self._files else str):
                    values[row], reason = _fitting(value)
                    if reason:
                        bad.setdefault(row, f"{name}: {reason}")
            columns[name], misfits = column_of(values, self._config.columns[name])
            bad = {**{row: f"{name}: {reason}" for row, reason in misfits.items()}, **bad}
        keys = [text_of(row[at]) for row in batch]
        bad |= {row: f"{self._config.key}: missing" for row, key in enumerate(keys) if key is None}
        good = [row for row in range(len(batch)) if row not in bad]
        if bad:
            columns = {name: column.take(pa.array(good, pa.int64())) for name, column in columns.items()}
        left_out = [Bad(keys[row] or "", reason, self._place(keys[row])) for row, reason in sorted(bad.items())]
        good_keys = [keys[row] for row in good]
        return Rows(columns, pa.array(good_keys, pa.string()), lambda row: self._place(good_keys[row]), bad=left_out)

    def _place(self, key: str | None) -> str:
        return f"row with {self._config.key} {key}"

    def _stream(self) -> Iterator[list[tuple[Any, ...]]]:
        """Yield all rows in batches."""
        with self._connected() as connection:
            self._check(connection)
            quoted = connection.dialect.identifier_preparer.quote_identifier
            key, names = quoted(str(self._config.key)), ", ".join(map(quoted, self._columns))
            result = _execute(connection, f"SELECT {names} FROM {self._table(connection)} ORDER BY {key}")
            count = FIRST_ROWS
            while batch := result.fetchmany(count):
                rows = [tuple(_value(value) for value in row) for row in batch]
                yield rows
                size = sum(len(value) if isinstance(value, str | bytes) else 8 for row in rows for value in row)
                count = max(1, min(MAX_ROWS, BATCH_BYTES * len(rows) // max(size, 1)))

    def _check(self, connection: Connection) -> None:
        """Raise `Refused` where the rows have other columns than the config names."""
        names = list(_execute(connection, f"SELECT * FROM {self._table(connection)} WHERE 1 = 0").keys())
        if repeated := [name for name, count in Counter(names).items() if count > 1]:
            rule = "columns have different names"
            raise Refused("source.query", f"{repeated[0]} more than once", rule, "name them with AS")
        check_columns(self._config, names, "source.query")

    def _table(self, connection: Connection) -> str:
        """Return what stands behind FROM."""
        query = self._config.query.strip().rstrip(";")
        if SELECT.match(query):
            return f"(\n{query}\n) AS source_rows"
        return ".".join(map(connection.dialect.identifier_preparer.quote_identifier, query.split(".")))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Connect for one transaction, which ends as it began; no error has a password."""
        buffered = BUFFERED_FILES if self._files else BUFFERED
        options: dict[str, Any] = {"stream_results": True, "max_row_buffer": buffered, "no_parameters": True}
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
        for secret in {str(self._url.password or ""), quote_plus(str(self._url.password or ""))} - {""}:
            text = text.replace(secret, "***")
        return " ".join(text.split())


def _url_of(config: SqlSource) -> URL:
    """Return the URL of the config or behind its reference."""
    saw = "no URL" if not unreferenced(config.url) else config.url
    try:
        url = make_url(config.url if unreferenced(config.url) else resolve(config.url))
        url.get_dialect()
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


def _execute(connection: Connection, statement: str) -> CursorResult:
    return connection.exec_driver_sql(statement)


def _add(sha: Any, batch: list[tuple[Any, ...]]) -> None:
    for row in batch:
        sha.update(repr(row).encode("utf-8", "surrogatepass"))


def _value(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def _fitting(value: bytes | str) -> tuple[str | None, str | None]:
    """Return bytes as text; or why they are none, or why a text is no file."""
    if isinstance(value, str):
        return None, "a text, and a database holds the bytes of images and sounds"
    try:
        return value.decode(), None
    except UnicodeDecodeError as error:
        return None, f"byte {error.start} (0x{value[error.start]:02x}) is not UTF-8"
