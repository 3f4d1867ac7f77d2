"""CSV files, split where records end and parsed by Arrow, with the rows as Python's csv module reads them."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from tasks.errors import Failed, Refused
from tasks.sources import Rows
from tasks.sources.delimited import Block, Delimited, Dialect, Opened, first_record
from tasks.sources.hashes import Hashes
from tasks.sources.kinds.columns import ReferringTables, check_columns, header_names
from tasks.sources.streams import Stream, Transcoded, is_single_byte, open_stream, without_bom
from tasks.sources.table_files import Numbered, is_utf8, texts, with_nul

MAX_UNCLOSED = 100
"""Lines in a quote that is not closed, at most: it may hide as many rows."""


class Csv(Delimited):
    """Has a text column for each of the config, with missing cells as nulls.

    A file is split into parts unless it is compressed, has escapes, or an encoding in which ASCII's bytes may be parts
    of other characters.
    """

    def __init__(
        self,
        config: ReferringTables,
        memory: Path | None,
        *,
        dialect: Dialect,
        encoding: str,
        header: Literal[True] | tuple[str, ...],
        missing: tuple[str, ...],
    ) -> None:
        """Find the files; raises `Refused` where there are none, or the first has other columns than named."""
        try:
            self._encoding = codecs.lookup(encoding).name
            "".encode(self._encoding)
        except LookupError as error:
            raise Refused("source.encoding", encoding, str(error), "name one as Python does: utf-8") from None
        self.dialect, self._named_encoding, self._header, self._missing = dialect, encoding, header, missing
        self._utf8 = self._encoding in ("utf-8", "utf-8-sig")
        self._wide = not self._utf8 and not is_single_byte(self._encoding)
        self.streamed = self._wide or bool(dialect.escape)
        super().__init__(config, memory)

    def check(self, path: str) -> None:
        with self.opened(path):
            return

    @contextmanager
    def opened(self, path: str) -> Iterator[Opened]:
        with open_stream(self.root, path) as raw:
            stream: Stream = Transcoded(raw, self._encoding) if self._wide else raw
            stream, begin = without_bom(stream, path, f"source.encoding {self._named_encoding}")
            if self._header is not True:
                yield Opened(stream, list(self._header), begin)
                return
            head, lines, stream = first_record(stream, self.dialect, path)
            yield Opened(stream, self._names(path, head), begin + len(head), 1 + lines)

    def _names(self, path: str, head: bytes) -> list[str]:
        """Return the names in the header; raises `Refused` for others than the config's."""
        if not head.strip():
            rule = "the first line of a CSV file names its columns"
            raise Failed(path, "an empty file", rule, "name it in source.exclude, or list the names in source.header")
        delimiter, quote, escape = self._signs
        quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
        lines = io.StringIO(self._as_utf8(head).decode("utf-8", "replace").lstrip("\r\n"), newline="")
        try:
            cells = next(csv.reader(lines, delimiter=delimiter, escapechar=escape or None, **quoting))
        except csv.Error as error:
            raise Failed(path, error, "the first line of a CSV file names its columns", "correct it") from None
        names = header_names(cells)
        if repeated := [name for name, count in Counter(names).items() if count > 1]:
            rule, remedy = "columns have different names", "rename one in the file"
            raise Refused(f"{path} line 1", f"{len(names)} columns, {repeated[0]!r} more than once", rule, remedy)
        check_columns(self.config, names, path)
        return names

    def written(self, record: bytes) -> bytes:
        return self._as_utf8(record.rstrip(b"\r\n"))

    def parsed(self, path: str, names: list[str], block: Block, columns: list[str], hashes: Hashes | None) -> Rows:
        data = self._as_utf8(block.data)
        ragged: dict[int, str] = {}
        if not is_utf8(data):  # Arrow cannot hand over a ragged row that is not
            self._table(path, block, data.decode("utf-8", "replace").encode(), names, columns, ragged)
            data = self._as_utf8(block.without(sorted(ragged)))
        table = self._table(path, block, data, names, columns, ragged)
        assert table.num_rows + len(ragged) == len(block), f"{path}: rows are not counted as they are parsed"
        read, misread = texts({name: table[name].combine_chunks() for name in columns})
        read = {name: self._without_missing(column) for name, column in read.items()}
        if b"\0" in data:
            misread = {**with_nul(read), **misread}
        bad = dict(ragged)
        if misread:
            present = [record for record in range(len(block)) if record not in ragged]
            bad |= {present[row]: reason for row, reason in misread.items()}
        if block.unclosed:
            bad[len(block) - 1] = self._unclosed(path, block)
        return Numbered(path, block.row, len(block), block.lines).rows(read, bad, sorted(ragged), hashes)

    @property
    def _signs(self) -> tuple[str, str, str]:
        """Delimiter, quote and escape."""
        return self.dialect.delimiter.decode(), self.dialect.quote.decode(), self.dialect.escape.decode()

    def _without_missing(self, column: pa.Array) -> pa.Array:
        """Return cells with nulls also where there are blanks around a text that means a missing value."""
        bare = pc.ascii_trim_whitespace(column)
        missing = pc.is_in(bare, pa.array(self._missing, pa.string()))
        return pc.if_else(missing, pa.scalar(None, pa.string()), column)

    def _table(
        self, path: str, block: Block, data: bytes, names: list[str], columns: list[str], ragged: dict[int, str]
    ) -> pa.Table:
        """Parse UTF-8 to binary columns without ragged rows, which are added to `ragged`, by record, with reasons."""

        def note(row: pa_csv.InvalidRow) -> str:
            ragged[row.number - 1] = f"{row.actual_columns} cells, and there are {row.expected_columns} columns"
            return "skip"

        delimiter, quote, escape = self._signs
        try:
            return pa_csv.read_csv(
                pa.BufferReader(data),
                pa_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
                pa_csv.ParseOptions(
                    delimiter=delimiter,
                    quote_char=quote or False,
                    escape_char=escape or False,
                    newlines_in_values=True,
                    invalid_row_handler=note,
                ),
                pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.binary()),
                    include_columns=columns,
                    null_values=self._missing,
                    strings_can_be_null=True,
                ),
            )
        except pa.ArrowInvalid as error:
            raise Failed(f"{path} line {block.line}", error, "a CSV file has rows of cells", "correct it") from None

    def _unclosed(self, path: str, block: Block) -> str:
        """Return the reason of a last row with an open quote; raises `Failed` where it takes many lines with it."""
        lines = len(block.breaks) + block.line - int(block.lines[-1])
        reason = f"a quote that is not closed by the end of the file, {lines} lines further"
        if lines > MAX_UNCLOSED:
            rule = f"a quote is closed, or opened in the last {MAX_UNCLOSED} lines"
            raise Failed(f"{path} line {block.lines[-1]}", reason, rule, "correct it there, or set source.quote")
        return reason

    def _as_utf8(self, data: bytes) -> bytes:
        """Return text as UTF-8; an undecodable byte becomes a surrogate, which is not UTF-8 either."""
        if self._utf8 or self._wide:
            return data
        return data.decode(self._encoding, "surrogateescape").encode("utf-8", "surrogatepass")
