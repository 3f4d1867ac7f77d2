"""Columns of CSV, JSON lines and Parquet files, and the settings that read them."""

from __future__ import annotations

import codecs
import csv as csv_module
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.data.sources.streams import open_stream
from tasks.errors import Refused

HEAD = 1 << 20
"""Bytes of the beginning of a file by which its form is found."""
DELIMITERS = ",;\t|"
ENCODINGS = ("utf-8", "cp1252")
"""Encodings that are tried where no byte order mark says UTF-16; the last one reads any bytes but five."""


@dataclass(frozen=True)
class Form:
    """How a file is read."""

    types: dict[str, str]
    """Type of each column with which a sample is read."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of `source` that are not the defaults."""
    unread: dict[str, str] = field(default_factory=dict)
    """Why a column is of type `ignore`."""
    said: tuple[str, ...] = ()
    """Lines for the user."""


def csv(path: Path) -> Form:
    """Return the columns of a CSV file, and its dialect where it is not the default."""
    said: list[str] = []
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
        dialect = csv_module.Sniffer().sniff("".join(lines[:200]), DELIMITERS)
        delimiter = dialect.delimiter
    except csv_module.Error:
        delimiter = ","
    names = next(csv_module.reader(lines[:1], delimiter=delimiter), [])
    found: dict[str, Any] = {}
    if encoding != "utf-8":
        found["encoding"] = encoding
        said.append(f"encoding {encoding}, as it is not UTF-8")
    if delimiter != ",":
        found["delimiter"] = delimiter
        said.append(f"cells are separated by {delimiter!r}")
    if names and all(_is_number(name) for name in names):
        names = found["header"] = [f"column{number}" for number in range(len(names))]
        said.append("no line of column names: they are called column0, column1, ...")
    return Form(dict.fromkeys(names, "text"), found, said=tuple(said))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def jsonl(path: Path) -> Form:
    """Return the fields of the objects in a file's first lines; raises `Refused` where there are none."""
    names: dict[str, None] = {}
    for number, line in enumerate(_head(path).splitlines()[:1000], 1):
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last one is cut; `convert` names others
        if not isinstance(row, dict):
            saw = f"{path} line {number}: {type(row).__name__}"
            raise Refused("PATH", saw, "a line is a JSON object", "write one object a line")
        names |= dict.fromkeys(leaves_of(row))
    if not names:
        raise Refused("PATH", f"{path}: no JSON object in a line", "a line is a JSON object", "write one a line")
    return Form(dict.fromkeys(names, "text"))


def leaves_of(row: dict[str, Any], prefix: str = "") -> list[str]:
    """Return the fields of an object, those of nested objects by dotted name."""
    names: list[str] = []
    for name, value in row.items():
        names += leaves_of(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]
    return names


def parquet(path: Path) -> Form:
    """Return the columns of a Parquet file; raises `Refused` where it is none."""
    import pyarrow.parquet as pq

    from tasks.data.sources.nested import leaves

    try:
        return Form(dict.fromkeys(leaves(pq.read_schema(path), ()), "text"))
    except (pa.ArrowException, OSError) as error:
        saw = f"{path}: {str(error).splitlines()[0]}"
        raise Refused("PATH", saw, "must be a Parquet file", "check it") from None


def _head(path: Path) -> bytes:
    with open_stream(path.parent, path.name) as stream:
        return stream.read(HEAD)
