"""Raw rows from files in the forms in which people have them, and answers in the same."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from tasks.errors import Failed
from tasks.exporting import raw_csv
from tasks.sources.streams import compression_of

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
        raw_csv.rows(path, columns, form) if ending in CSV else _json_lines(path) if ending in JSONL else _parquet(path)
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
    with raw_csv.text_of(path, "utf-8") as lines:
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
