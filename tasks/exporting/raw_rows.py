"""Raw rows from files in the forms in which people have them, and answers in the same."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tasks.errors import Failed
from tasks.sources.kinds.columns import header_names
from tasks.sources.streams import Stream, compression_of, is_single_byte, open_stream

DELIMITERS = ",;\t|"
"""What may be between cells where the model was trained on no CSV file: the first with which all columns are there."""
PLAIN: dict[str, Any] = {"encoding": "utf-8", "quote": '"', "escape": "", "header": None, "outputs": []}
HEAD = 1 << 16
"""Bytes by which a file is known to be UTF-8 after all."""


def csv_rows(path: Path, columns: Collection[str], form: Mapping[str, Any] | None) -> Iterator[dict[str, str]]:
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


Row = dict[str, Any]

BATCH = 256
"""Rows that are predicted together."""
CSV, JSONL, PARQUET = (".csv", ".tsv"), (".jsonl", ".ndjson"), (".parquet",)
TABLES = (*CSV, *JSONL, *PARQUET)
"""Endings of files of rows, of text also before that of a compression; any other file is the one value of a row."""
PAYLOADS = ("image", "audio", "text")
"""Types of columns of which a file can be the value."""


def is_table(path: Path) -> bool:
    """Return whether a file has rows, by its name."""
    return _ending(path) in TABLES


def rows_of(path: Path, columns: Mapping[str, str], form: Mapping[str, Any] | None) -> Iterator[list[Row]]:
    """Yield the raw rows of a file in batches.

    Args:
        columns: type of each column that the model reads, by name.
        form: of the CSV files of the training, `csv` of `transform.json`; None where there were none.

    Raises:
        Failed: the file is of no form that the model reads, or has no rows.
    """
    if not is_table(path):
        yield [_alone(path, columns)]
        return
    ending = _ending(path)
    rows: Iterator[Row] = (
        csv_rows(path, columns, form) if ending in CSV else _json_lines(path) if ending in JSONL else _parquet(path)
    )
    if (first := next(rows, None)) is None:
        raise Failed(str(path), "no rows", "a table has rows", "check the file")
    rows = itertools.chain([first], rows)
    while batch := list(itertools.islice(rows, BATCH)):
        # A field that some objects lack is missing in these; one that all lack is an error of the reader's.
        present = dict.fromkeys(name for row in batch for name in row if name in columns)
        yield [{**row, **{name: None for name in present if name not in row}} for row in batch]


def _ending(path: Path) -> str:
    """Return the ending of a file's name, of a compressed text that before the compression's."""
    inner = Path(path.stem).suffix.lower()
    return inner if compression_of(path.name) and inner in (*CSV, *JSONL) else path.suffix.lower()


def _alone(path: Path, columns: Mapping[str, str]) -> Row:
    """Return the row whose one value is this file."""
    (name, kind), *others = columns.items()
    if others or kind not in PAYLOADS:
        rule = f"the model reads {', '.join(columns)}: rows are in a file {', '.join(TABLES)}"
        raise Failed(str(path), "a file of another form", rule, "write the rows into one")
    if kind != "text":
        return {name: path.read_bytes()}
    content = path.read_bytes()
    try:
        return {name: content.decode()}
    except UnicodeDecodeError as error:
        saw = f"byte {error.start} (0x{content[error.start]:02x}) is not UTF-8"
        raise Failed(str(path), saw, "text must be UTF-8", "convert it") from error


def _json_lines(path: Path) -> Iterator[Row]:
    with text_of(path, "utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.removeprefix("\ufeff").rstrip())
            except json.JSONDecodeError as error:
                saw = f"{error.msg} at character {error.pos + 1}"
                raise Failed(f"{path} line {number}", saw, "a line is a JSON object", "fix that line") from error
            if not isinstance(row, dict):
                saw = type(row).__name__
                raise Failed(f"{path} line {number}", saw, "a line is a JSON object", "fix that line")
            yield dict(_flat(row))


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object, those of nested objects by dotted name."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(path, coerce_int96_timestamp_unit="us").iter_batches(BATCH):
            yield from (dict(_flat(row)) for row in batch.to_pylist())
    except pa.ArrowException as error:
        raise Failed(str(path), str(error).splitlines()[0], "must be a whole Parquet file", "check it") from error


class Answers:
    """Writes rows with their answers to a file `.csv` or `.jsonl`."""

    def __init__(self, path: Path) -> None:
        """Create the file."""
        self._lines = path.suffix.lower() == ".jsonl"
        self._file: IO[str] = open(path, "w", newline="", encoding="utf-8")  # noqa: SIM115 - closed by close
        self._writer: csv.DictWriter[str] | None = None

    def write(self, rows: Iterable[Row]) -> None:
        """Append rows; their columns are those of the first."""
        for row in rows:
            plain = {name: f"{len(value)} bytes" if isinstance(value, bytes) else value for name, value in row.items()}
            if self._lines:
                self._file.write(json.dumps(plain, ensure_ascii=False, default=str) + "\n")
                continue
            if self._writer is None:
                self._writer = csv.DictWriter(self._file, list(plain), restval="", extrasaction="ignore")
                self._writer.writeheader()
            lists = {
                name: json.dumps(value, ensure_ascii=False) for name, value in plain.items() if isinstance(value, list)
            }
            self._writer.writerow(plain | lists)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
