"""Columns of CSV, JSON lines and Parquet files, and the settings that read them."""

from __future__ import annotations

import codecs
import csv as csv_module
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tasks.errors import Refused
from tasks.reader.values import NUMBER
from tasks.sources.kinds.columns import header_names, name_of_place
from tasks.sources.streams import open_stream

HEAD = 1 << 20
"""Bytes of the beginning of a file by which its form is found."""
LOOKED_AT = 200
"""Lines by which it is found whether the first one names the columns."""
DELIMITERS = ",;\t|"
ENCODINGS = ("utf-8", "cp1252")
"""Encodings that are tried where no byte order mark says UTF-16; the last one reads any bytes but five."""


INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name in Parquet."""
WORDS: Literal["words"] = "words"
Shape = tuple[int, ...] | Literal["words"] | None
"""Of a JSON value: () of a single one, the sides of an array of numbers, a list of texts, None for another list."""


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
    classes: dict[str, list[str]] = field(default_factory=dict)
    """Classes in their order, by column, where the file names them."""


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
    reader = csv_module.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    first = next(reader, [])
    if not first:
        raise Refused("PATH", f"{path}: no line of column names", "a CSV file begins with one", "name another")
    found: dict[str, Any] = {}
    if encoding != "utf-8":
        found["encoding"] = encoding
        said.append(f"encoding {encoding}, as it is not UTF-8")
    if delimiter != ",":
        found["delimiter"] = delimiter
        said.append(f"cells are separated by {delimiter!r}")
    rows = [row for row in islice(reader, LOOKED_AT) if row]
    _check_first_line(path, first, rows)
    names = header_names(first)
    if why := _no_header([cell.strip() for cell in first], [row for row in rows if len(row) == len(first)]):
        names = found["header"] = [name_of_place(place) for place in range(len(first))]
        said.append(f"no line of column names, as {why}: they are called column0, column1, ...")
        return Form(dict.fromkeys(names, "text"), found, said=tuple(said))
    if numbered := [name for name in names if _is_number(name)]:
        said.append(
            f"the first line is taken for names, also {numbered[0]!r}; if it is a row, list names as source.header"
        )
    if nameless := [name for name, cell in zip(names, first, strict=True) if not cell.strip()]:
        said.append(f"a column without a name is called by its place, from 0: {', '.join(nameless)}")
    return Form(dict.fromkeys(names, "text"), found, said=tuple(said))


def _check_first_line(path: Path, first: list[str], rows: list[list[str]]) -> None:
    """Raise `Refused` where the first line is a title or a comment above the table, or lacks names of its columns."""
    usual = Counter(map(len, rows)).most_common(1)[0][0] if rows else len(first)
    named = sum(bool(cell.strip()) for cell in first)
    behind = [cell.strip() for cell in first[1:]]  # that of an index may be blank
    if usual == len(first) and 2 * behind.count("") <= len(behind):
        return
    saw = f"{path}: a first line with {named} of the {usual} cells that rows have: {' '.join(filter(None, first))!r}"
    rule = "the first line has the names of all columns, or is a row"
    raise Refused("PATH", saw, rule, "delete what is above the names, or add the names that lack")


def _no_header(first: list[str], rows: list[list[str]]) -> str:
    """Return why the first line does not name the columns; empty where it may.

    Numbers are no names, but where they count the columns (1, 2, 3), or stand above texts; nor are cells that most
    columns have again.
    """
    numbers = [place for place, cell in enumerate(first) if _is_number(cell)]
    counted = [float(first[place]) for place in numbers]
    counting = 1 < len(numbers) < len(first) and bool((np.diff(counted) == 1).all())
    if numbers and not counting and all(_is_number_or_empty(row[place]) for row in rows for place in numbers):
        return f"{first[numbers[0]]!r} is a number"
    texts = [place for place in range(len(first)) if place not in numbers]
    again = [place for place in texts if first[place] and any(row[place].strip() == first[place] for row in rows)]
    return f"{first[again[0]]!r} occurs again in its column" if 2 * len(again) > len(texts) else ""


def _is_number_or_empty(text: str) -> bool:
    return not text.strip() or _is_number(text)


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text.strip()) is not None


def jsonl(path: Path) -> Form:
    """Return the fields of the objects in a file's first lines; raises `Refused` where there are none."""
    shapes: dict[str, set[Shape]] = {}
    for number, line in enumerate(_head(path).splitlines()[:1000], 1):
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last one is cut; `convert` names others
        if not isinstance(row, dict):
            saw = f"{path} line {number}: {type(row).__name__}"
            raise Refused("PATH", saw, "a line is a JSON object", "write one object a line")
        for name, value in leaves_of(row):
            shapes.setdefault(name, set())
            if value is not None:
                shapes[name].add(_shape(value))
    if not shapes:
        raise Refused("PATH", f"{path}: no JSON object in a line", "a line is a JSON object", "write one a line")
    _check_names(path, shapes)
    types, unread = {}, {}
    for name, seen in shapes.items():
        types[name], why = _type_of(seen)
        if why:
            unread[name] = why
    return Form(types, unread=unread)


def leaves_of(row: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object with their values, those of nested objects by dotted name."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from leaves_of(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _shape(value: Any) -> Shape:
    """Return the shape of a value in JSON."""
    if not isinstance(value, list):
        return ()
    if not value:
        return (0,)
    if all(isinstance(item, str) for item in value):
        return WORDS
    inner = {_shape(item) for item in value}
    plain = all(isinstance(item, list | int | float) and not isinstance(item, bool) for item in value)
    [first, *others] = inner or {None}
    return None if others or not isinstance(first, tuple) or not plain else (len(value), *first)


def _type_of(shapes: set[Shape]) -> tuple[str, str]:
    """Return the type of a field whose values have these shapes, and why it is ignored, if it is."""
    if shapes <= {()} or () in shapes:
        return "text", ""
    if all(isinstance(shape, tuple) and 0 in shape for shape in shapes):
        return "ignore", "as all its lists are empty"
    if len(shapes) == 1 and isinstance(shape := next(iter(shapes)), tuple):
        return f"number[{', '.join(map(str, shape))}]", ""
    if all(shape == WORDS or (shape is not None and len(shape) == 1) for shape in shapes):
        return WORDS, ""
    return "ignore", "as its lists are not numbers of one shape"


def parquet(path: Path) -> Form:
    """Return the columns of a Parquet file; raises `Refused` where it is none."""
    import pyarrow.parquet as pq

    from tasks.sources.parquet import class_names
    from tasks.sources.values import leaves

    try:
        schema = pq.read_schema(path)
        names = list(leaves(schema, ()))
        classes = class_names(schema)
    except (pa.ArrowException, OSError) as error:
        saw = f"{path}: {str(error).splitlines()[0]}"
        raise Refused("PATH", saw, "must be a Parquet file", "check it") from None
    _check_names(path, names)
    indices = {name: "as it is an index of pandas" for name in names if INDEX.fullmatch(name)}
    types = {name: "ignore" if name in indices else "text" for name in names}
    return Form(types, unread=indices, classes=classes)


def _check_names(path: Path, names: Iterable[str]) -> None:
    """Raise `Refused` where a field has no name, by which nothing could be said of it."""
    if "" in names:
        raise Refused("PATH", f"{path}: a field with an empty name", "columns have names", "rename it in the file")


def rows_in(head: bytes) -> tuple[str, str] | None:
    """Return what rows the beginning of a text has, and the ending of files of such; None where it has none."""
    lines = [line for line in head.decode("utf-8", "replace").splitlines()[:-1] if line.strip()][:LOOKED_AT]
    if lines and all(map(_is_object, lines)):
        return "a JSON object on each line", ".jsonl"
    for sign in DELIMITERS:
        cells = {len(row) for row in csv_module.reader(lines, delimiter=sign)}
        if len(lines) > 1 and len(cells) == 1 and min(cells) > 1:
            return f"{min(cells)} cells on each line, separated by {sign!r}", ".csv"
    return None


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _head(path: Path) -> bytes:
    with open_stream(path.parent, path.name) as stream:
        return stream.read(HEAD)
