"""The rows of CSV files, in the form of those that a model was trained on."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.errors import Failed
from tasks.sources.columns import header_names
from tasks.sources.streams import Stream, is_single_byte, open_stream

DELIMITERS = ",;\t|"
"""What may be between cells where the model was trained on no CSV file: the first with which all columns are there."""
PLAIN: dict[str, Any] = {"encoding": "utf-8", "quote": '"', "escape": "", "header": None, "outputs": []}
HEAD = 1 << 16
"""Bytes by which a file is known to be UTF-8 after all."""


def rows(path: Path, columns: Collection[str], form: Mapping[str, Any] | None) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, also a compressed one.

    Args:
        columns: those that the model reads.
        form: `csv` of `transform.json`; None where the model was trained on other files.

    Raises:
        Failed: the file is not of this form, lacks a column, or has a row of another number of cells.
    """
    delimiters, form = (DELIMITERS, PLAIN) if form is None else (form["delimiter"], form)
    with text_of(path, form["encoding"]) as lines:
        first = next(lines, "").removeprefix("\ufeff")
        if not first.strip():
            raise Failed(str(path), "an empty file", "a table has rows", "check the file")
        if form["header"] is None:
            delimiter, names = _header(path, first, columns, delimiters, form)
        else:
            delimiter, names = delimiters, []
            lines = _after(first, lines)
        named = 1 if form["header"] is None else 0  # lines before those of the reader
        reader = csv.reader(lines, **_dialect(delimiter, form))
        for cells in reader:
            if not cells:  # an empty line
                continue
            names = names or _names(path, len(cells), form)
            if len(cells) != len(names):
                saw, rule = f"{len(cells)} cells", f"a row has {len(names)}: {', '.join(names)}"
                raise Failed(f"{path} row of line {named + reader.line_num}", saw, rule, "correct that line")
            yield dict(zip(names, cells, strict=True))


@contextmanager
def text_of(path: Path, encoding: str) -> Iterator[Iterator[str]]:
    """Open the lines of a file, which end as they do there; errors of reading them are `Failed`."""
    try:
        with open_stream(path.parent, path.name) as stream:
            head = stream.read(HEAD)
            other = codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig") and is_single_byte(encoding)
            if other and not head.isascii() and _is_utf8(head):
                saw, rule = "UTF-8", f"rows are in {encoding}, as those of the training were"
                raise Failed(str(path), saw, rule, f"convert it: iconv -f utf-8 -t {encoding}")
            raw = io.BufferedReader(_Raw(head, stream))
            with io.TextIOWrapper(raw, encoding, newline="") as lines:
                yield lines
    except UnicodeDecodeError as error:
        saw = f"byte 0x{error.object[error.start]:02x}, {error.reason}"
        raise Failed(str(path), saw, f"must be text in {encoding}", f"convert it to {encoding}") from None
    except UnicodeError as error:  # UTF-16 without a byte order mark
        raise Failed(str(path), str(error), f"must be text in {encoding}", f"convert it to {encoding}") from None
    except csv.Error as error:
        raise Failed(str(path), str(error), "must be a file of separated values", "check the file") from None


class _Raw(io.RawIOBase):
    """A stream as Python's readers of text take it."""

    def __init__(self, head: bytes, stream: Stream) -> None:
        self._head, self._stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._head:
            self._head = self._stream.read(len(buffer))
        taken, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # its last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _dialect(delimiter: str, form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `csv.reader`."""
    quoting = {"quotechar": form["quote"]} if form["quote"] else {"quoting": csv.QUOTE_NONE}
    return {"delimiter": delimiter, "escapechar": form["escape"] or None, **quoting}


def _header(
    path: Path, first: str, columns: Collection[str], delimiters: str, form: Mapping[str, Any]
) -> tuple[str, list[str]]:
    """Return delimiter and names of a file whose first line names its columns."""
    read = {sign: header_names(next(csv.reader([first], **_dialect(sign, form)), [])) for sign in delimiters}
    names = next((names for names in read.values() if set(columns) <= set(names)), read[delimiters[0]])
    if absent := [name for name in columns if name not in names]:
        signs = " or ".join(map(repr, delimiters))
        rule = f"the model reads {', '.join(columns)}, of a file in {form['encoding']} with cells separated by {signs}"
        raise Failed(str(path), f"no column {absent[0]} in {first.strip()!r}", rule, "write it in this form")
    if repeated := [name for name, count in Counter(names).items() if count > 1 and name in columns]:
        raise Failed(str(path), f"several columns {repeated[0]}", "columns have different names", "rename one")
    return next(sign for sign, found in read.items() if found == names), names


def _names(path: Path, cells: int, form: Mapping[str, Any]) -> list[str]:
    """Return the names of the cells of a file in which no line has them."""
    whole = form["header"]
    inputs = [name for name in whole if name not in form["outputs"]]
    for names in (whole, inputs):
        if len(names) == cells:
            return list(names)
    rule = f"a row has {len(whole)}: {', '.join(whole)}; or those without {', '.join(form['outputs'])}"
    raise Failed(str(path), f"{cells} cells, separated by {form['delimiter']!r}", rule, "write it in this form")


def _after(first: str, lines: Iterable[str]) -> Iterator[str]:
    yield first
    yield from lines
