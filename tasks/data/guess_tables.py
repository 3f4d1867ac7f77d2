"""Samples of files of rows and of databases, for `millrace init`."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from tasks.config import SourceConfig
from tasks.data.features import KEY
from tasks.data.sources import Piece, Rows, open_source
from tasks.data.sources.files import find
from tasks.data.sources.streams import open_stream
from tasks.errors import Refused

HEAD = 1 << 20
"""Bytes of the beginning of a file by which its form is found."""
SAMPLED = 10_000
"""Rows of a sample, about, from the beginning, the middle and the end."""
DELIMITERS = ",;\t|"
ENCODINGS = ("utf-8", "cp1252")
"""Encodings that are tried where no byte order mark says UTF-16; the last one reads any bytes but five."""
DATABASES = {".db", ".sqlite", ".sqlite3"}
COMPRESSED = ("", ".gz", ".zst", ".bz2")
ENDINGS = {"csv": (".csv", ".tsv"), "jsonl": (".jsonl", ".ndjson"), "parquet": (".parquet",)}
"""Endings of files of rows by `source.kind`."""


@dataclass(frozen=True)
class Sample:
    """Some raw rows of a source."""

    source: dict[str, Any]
    """The section `source` without the types of columns."""
    columns: dict[str, pa.Array]
    rows: int
    """Rows of the whole source, about; exact where the sample is all of it."""
    exact: bool
    root: Path
    """The folder to which paths in cells are relative."""
    said: tuple[str, ...] = ()
    """Lines for the user."""


def kind_of_file(name: str) -> str | None:
    """Return the `source.kind` that reads a file by its name; None for another file."""
    lower = name.lower()
    for kind, endings in ENDINGS.items():
        compressed = ("",) if kind == "parquet" else COMPRESSED
        if lower.endswith(tuple(ending + packed for ending in endings for packed in compressed)):
            return kind
    return None


def sample_files(path: Path, kind: str, name: str) -> Sample:
    """Read some rows of a file, or of a folder's files of this kind; raises `Refused` where they are not of it."""
    if path.is_file():
        first, source = path, {"kind": kind, "name": name, "path": str(path)}
    else:
        names = [each for each in find(path, "**/*", ()) if kind_of_file(each) == kind]
        ending = max(ENDINGS[kind], key=lambda end: sum(end in each.lower() for each in names))
        first = path / names[0]
        source = {"kind": kind, "name": name, "path": str(path), "glob": f"**/*{ending}*"}
    root = path.parent if path.is_file() else path
    said: list[str] = []
    columns, more = FORMS[kind](first, said)
    return _sampled({**source, **more}, columns, root, tuple(said))


def sample_database(url: str, table: str | None, name: str) -> Sample:
    """Read some rows of a table of a database; raises `Refused` where none, or not one, can be chosen."""
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.exc import SQLAlchemyError

    try:
        inspector = inspect(create_engine(url))
        tables = inspector.get_table_names()
        if table is None and len(tables) != 1:
            rule = "a preset reads one table"
            remedy = f"add --table {tables[0]}" if tables else "name another database"
            raise Refused("PATH", f"tables {', '.join(tables) or 'none'}", rule, remedy)
        chosen = table or tables[0]
        if chosen not in tables:
            raise Refused("--table", chosen, f"must be one of {', '.join(tables)}", "correct it")
        columns = [column["name"] for column in inspector.get_columns(chosen)]
        keys = inspector.get_pk_constraint(chosen)["constrained_columns"]
    except SQLAlchemyError as error:
        saw = str(error).splitlines()[0]
        raise Refused("PATH", saw, "must be a database that can be read", "correct the URL") from None
    if len(keys) != 1:
        rule = "rows are read in the order of a key of one column"
        raise Refused("PATH", f"table {chosen} with the primary key {keys or 'none'}", rule, "write a preset by hand")
    source = {"kind": "sql", "name": name, "url": url, "query": chosen, "key": keys[0]}
    return _sampled(source, columns, Path(), (f"table {chosen}, ordered by {keys[0]}",))


def _sampled(source: dict[str, Any], columns: list[str], root: Path, said: tuple[str, ...]) -> Sample:
    """Read rows of the first, middle and last piece of a source."""
    key = source.get("key") or (KEY if KEY in columns else None)
    types = {name: "category" if name == key else "text" for name in columns}
    config: SourceConfig = TypeAdapter(SourceConfig).validate_python({**source, "key": key, "columns": types})
    opened = open_source(config)
    opened.fingerprint()
    pieces = opened.pieces()
    chosen = [pieces[number] for number in sorted({0, len(pieces) // 2, len(pieces) - 1})] if pieces else []
    read, complete, seen = dict[str, list[pa.Array]](), len(chosen) == len(pieces), 0
    for piece in chosen:
        rows, whole = _rows(opened.read, piece, SAMPLED // len(chosen))
        complete &= whole
        seen += piece.bytes
        for batch in rows:
            for name, values in batch.columns.items():
                parts = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
                read.setdefault(name, []).extend(parts)
    joined = {name: _joined(read.get(name, [])) for name in columns}
    count = len(next(iter(joined.values()), []))
    if not count:
        raise Refused("PATH", f"{source.get('path', source.get('url'))}: no rows", "a table has rows", "name another")
    if not complete:
        count = max(count, _estimate(joined, count, sum(piece.bytes for piece in pieces)))
    return Sample(source, joined, count, complete, root, said)


def _rows(read: Callable[[Piece], Any], piece: Piece, most: int) -> tuple[list[Rows], bool]:
    """Return rows of a piece until there are enough, and whether these are all."""
    batches: list[Rows] = []
    count = 0
    for batch in read(piece):
        batches.append(batch)
        count += len(batch.keys)
        if count >= most:
            return batches, False
    return batches, True


def _joined(parts: list[pa.Array]) -> pa.Array:
    types = {part.type for part in parts if not pa.types.is_null(part.type)}
    if len(types) > 1:
        return pa.array([None if v is None else str(v) for part in parts for v in part.to_pylist()], pa.string())
    wanted = next(iter(types), pa.string())
    return pa.concat_arrays([part.cast(wanted) for part in parts]) if parts else pa.array([], wanted)


def _estimate(columns: dict[str, pa.Array], rows: int, size: int) -> int:
    """Return about how many rows so many bytes are."""
    held = sum(values.nbytes for values in columns.values())
    return int(size * rows / max(held, 1))


def _csv(path: Path, said: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the columns of a CSV file, and its dialect where it is not the default."""
    head = _head(path)
    marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if marked else ENCODINGS:
        try:
            # Incremental, as the sample may end within a character.
            text = codecs.getincrementaldecoder(encoding)().decode(head).removeprefix("\ufeff")
            break
        except UnicodeDecodeError:
            continue
    else:
        raise Refused("PATH", f"{path}: no text", "read are UTF-8, UTF-16 and cp1252", "convert it to UTF-8")
    lines = text.splitlines(keepends=True)
    try:
        dialect = csv.Sniffer().sniff("".join(lines[:200]), DELIMITERS)
        delimiter = dialect.delimiter
    except csv.Error:
        delimiter = ","
    names = next(csv.reader(lines[:1], delimiter=delimiter), [])
    found: dict[str, Any] = {}
    if encoding != "utf-8":
        found["encoding"] = encoding
        said.append(f"encoding {encoding}, as it is not UTF-8")
    if delimiter != ",":
        found["delimiter"] = delimiter
        said.append(f"cells are separated by {delimiter!r}")
    if names and all(_is_number(name) for name in names):
        found["header"] = False
        said.append("no line of column names: they are called column0, column1, ...")
        names = [f"column{number}" for number in range(len(names))]
    return names, found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _jsonl(path: Path, said: list[str]) -> tuple[list[str], dict[str, Any]]:
    names: dict[str, None] = {}
    for number, line in enumerate(_head(path).splitlines()[:1000], 1):
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last one is cut; `convert` names others
        if not isinstance(row, dict):
            saw = f"{path} line {number}: {type(row).__name__}"
            raise Refused("PATH", saw, "a line is a JSON object", "write one object a line")
        names |= dict.fromkeys(_leaves(row))
    if not names:
        raise Refused("PATH", f"{path}: no JSON object in a line", "a line is a JSON object", "write one a line")
    return list(names), {}


def _leaves(row: dict[str, Any], prefix: str = "") -> list[str]:
    """Return the fields of an object, those of nested objects by dotted name."""
    names: list[str] = []
    for name, value in row.items():
        names += _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]
    return names


def _parquet(path: Path, said: list[str]) -> tuple[list[str], dict[str, Any]]:
    import pyarrow.parquet as pq

    from tasks.data.sources.nested import leaves

    try:
        return list(leaves(pq.read_schema(path), ())), {}
    except (pa.ArrowException, OSError) as error:
        saw = f"{path}: {str(error).splitlines()[0]}"
        raise Refused("PATH", saw, "must be a Parquet file", "check it") from None


def _head(path: Path) -> bytes:
    with open_stream(path.parent, path.name) as stream:
        return stream.read(HEAD)


FORMS = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}
"""By `source.kind`, from a first file to its columns and the settings that read it."""
