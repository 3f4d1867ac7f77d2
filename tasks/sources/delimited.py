"""Text files of records: their parts, and the blocks of whole records in these."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from tasks.sources import Rows
from tasks.sources.blocks import Block, Dialect, blocks
from tasks.sources.hashes import Hashes
from tasks.sources.row_hashes import hashes_of
from tasks.sources.streams import Stream, compression_of
from tasks.sources.table_files import Part, Tables

SCANNED, PARSED = 1 << 20, 4 << 20
"""Bytes of a file that are scanned, or parsed, at a time."""


class Opened(NamedTuple):
    """A file that stands behind its header."""

    stream: Stream
    names: list[str]
    """The columns in the header."""
    begin: int
    """The offset of the first record."""
    line: int = 1
    """The line of the first record."""


class Delimited(Tables):
    """Files that are split into parts where records end, unless they can only be read from their beginning."""

    dialect: Dialect
    streamed = False
    """Whether files are read from their beginning; compressed ones are always."""

    @abstractmethod
    def opened(self, path: str) -> AbstractContextManager[Opened]:
        """Open a file behind its header."""

    @abstractmethod
    def parsed(self, path: str, names: list[str], block: Block, columns: list[str], hashes: Hashes | None) -> Rows:
        """Return the rows of a block with some of the columns.

        Args:
            hashes: of all records of the block.
        """

    def written(self, record: bytes) -> bytes:
        """Return what a record says, in UTF-8: without its line end, and whatever the encoding of the file."""
        return record.strip()

    def parts(self, path: str, target: int) -> Iterator[Part]:
        with self.opened(path) as (stream, _, begin, line):
            if self.streamed or compression_of(path):
                yield Part(path, (self.root / path).stat().st_size)
                return
            row, end, first = 0, begin, (begin, 0, line)
            for block in blocks(stream, self.dialect, min(SCANNED, target), path, 0, line):
                end, row, line = end + len(block.data), row + len(block), line + len(block.breaks)
                if end - first[0] >= target:
                    yield Part(path, end - first[0], (first[0], end, *first[1:]))
                    first = (end, row, line)
            if end > first[0]:
                yield Part(path, end - first[0], (first[0], end, *first[1:]))

    def rows(self, path: str, where: tuple[Any, ...], columns: list[str], hashed: bool) -> Iterator[Rows]:
        with self.opened(path) as (stream, names, _, line):
            row = 0
            if where:
                begin, end, row, line = where
                with (self.root / path).open("rb") as file:
                    file.seek(begin)
                    stream = io.BytesIO(file.read(end - begin))
            for block in blocks(stream, self.dialect, PARSED, path, row, line):
                if len(block):
                    hashes = hashes_of([self.written(record) for record in block.records]) if hashed else None
                    yield self.parsed(path, names, block, columns, hashes)
