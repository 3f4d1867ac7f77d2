"""Text files of records: their parts, and the blocks of whole records in these."""

from __future__ import annotations

import io
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.errors import Failed
from tasks.sources import Rows
from tasks.sources.hashes import Hashes, hashes_of
from tasks.sources.streams import Pushed, Stream, compression_of
from tasks.sources.table_files import Part, Tables

LINE_FEED, RETURN = 10, 13

MAX_RECORD = 256 << 20
"""Bytes of a record, at most: a quote that nobody closes makes one of the rest of the file."""

HEAD = 1 << 14
"""Bytes that are read for a first record."""

Offsets = NDArray[np.intp]


@dataclass(frozen=True)
class Dialect:
    """How records are written: each on a line where there is no delimiter, else with cells that may be quoted."""

    delimiter: bytes = b""
    quote: bytes = b""
    escape: bytes = b""

    @cached_property
    def record(self) -> re.Pattern[bytes]:
        """The pattern of a record with its end, exactly as Python's csv module and Arrow read it; no match where it is
        cut."""
        return re.compile(
            rb"(?:%b%b)*+%b(?:\r\n|\n|\r(?=[^\n]))" % (self._cell, re.escape(self.delimiter), self._cell), re.S
        )

    @cached_property
    def unended(self) -> re.Pattern[bytes]:
        """The pattern of a record without its end, in which no quote is open."""
        return re.compile(rb"(?:%b%b)*+%b\r?" % (self._cell, re.escape(self.delimiter), self._cell), re.S)

    @property
    def _cell(self) -> bytes:
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        escaped = rb"|%b." % escape if escape else b""
        bare = rb"(?:[^%b\r\n%b]++%b)*+" % (re.escape(self.delimiter), escape, escaped)
        if not quote:
            return bare
        quoted = rb"%b(?:[^%b%b]++|%b%b%b)*+%b" % (quote, quote, escape, quote, quote, escaped, quote)
        return rb"(?:%b%b|(?!%b)%b)" % (quoted, bare, quote, bare)


@dataclass(frozen=True)
class Block:
    """Whole records of a file, in their order."""

    data: bytes
    starts: Offsets
    """Offset of each record in `data`; an empty line is none."""
    row: int
    """Number of the first record in its file, from 0."""
    line: int
    """Number of the first line in its file, from 1."""
    unclosed: bool = False
    """Whether a quote of the last record is not closed at the end of the file."""

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def breaks(self) -> Offsets:
        """Offsets of the line ends."""
        octets = np.frombuffer(self.data, np.uint8)
        ends = octets == LINE_FEED
        if RETURN in self.data:
            ends[:-1] |= (octets[:-1] == RETURN) & (octets[1:] != LINE_FEED)
            ends[-1:] |= octets[-1:] == RETURN
        return np.flatnonzero(ends)

    @cached_property
    def lines(self) -> Sequence[int] | NDArray[np.intp]:
        """The line in the file on which each record begins, from 1."""
        whole_lines = len(self.breaks) + (not self.data.endswith((b"\n", b"\r")))
        if whole_lines == len(self):
            return range(self.line, self.line + len(self))
        return self.line + np.searchsorted(self.breaks, self.starts)

    @property
    def records(self) -> list[bytes]:
        """The bytes of each record, with its line end and the empty lines after it."""
        ends = [*self.starts[1:].tolist(), len(self.data)]
        return [self.data[start:end] for start, end in zip(self.starts.tolist(), ends, strict=True)]

    def without(self, records: Sequence[int]) -> bytes:
        """Return the bytes without some records."""
        left_out = set(records)
        return b"".join(record for number, record in enumerate(self.records) if number not in left_out)


def blocks(stream: Stream, dialect: Dialect, size: int, path: str, row: int = 0, line: int = 1) -> Iterator[Block]:
    """Yield the records of a stream in blocks of about `size` bytes, or one record.

    Raises:
        Failed: a record is longer than `MAX_RECORD`.
    """
    rest, wanted = b"", size
    while True:
        chunk = stream.read(wanted)
        data, last = rest + chunk, not chunk
        if not data:
            return
        ends, unclosed = record_ends(data, dialect, last)
        if not len(ends):
            if len(data) > MAX_RECORD:
                raise _endless(path, line)
            rest, wanted = data, len(data)
            continue
        cut = int(ends[-1])
        block = Block(data[:cut], _starts(data, ends), row, line, unclosed)
        yield block
        row, line = row + len(block), line + len(block.breaks)
        rest, wanted = data[cut:], size


def first_record(stream: Stream, dialect: Dialect, path: str) -> tuple[bytes, int, Stream]:
    """Return the first record that is not an empty line with the lines before it, how many lines these are, and the
    stream after it; no bytes of an empty file.

    Raises:
        Failed: it is longer than `MAX_RECORD`.
    """
    data, chunk = b"", b"-"
    while chunk:
        chunk = stream.read(max(HEAD, len(data)))
        data += chunk
        ends, unclosed = record_ends(data, dialect, not chunk)
        starts = _starts(data, ends) if len(ends) else ends
        if len(starts):
            end = int(ends[np.searchsorted(ends, starts[0], side="right")])
            block = Block(data[:end], starts[:1], 0, 1, unclosed)
            return block.data, len(block.breaks), Pushed(data[end:], stream)
        if len(data) > MAX_RECORD:
            raise _endless(path, 1)
    return data, 0, stream


def record_ends(data: bytes, dialect: Dialect, last: bool) -> tuple[Offsets, bool]:
    """Return the offset after each record of `data`, which begins at a record, empty lines too.

    Args:
        last: whether the file ends here, and with it the last record.

    Returns:
        The offsets, and whether a quote of the last record is open at the end of the file.
    """
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == LINE_FEED) + 1
    unclosed = False
    if dialect.delimiter and (dialect.escape or _has_lone_return(octets, data, last)):
        ends, unclosed = _matched_ends(data, dialect, last)
    elif dialect.quote and dialect.quote in data:
        quotes = np.flatnonzero(octets == dialect.quote[0])
        if _all_open_a_cell(octets, quotes[::2], dialect):
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
            unclosed = last and len(quotes) % 2 == 1
        else:
            ends, unclosed = _matched_ends(data, dialect, last)
    if last and data and (not len(ends) or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    return ends, unclosed


def _has_lone_return(octets: NDArray[np.uint8], data: bytes, last: bool) -> bool:
    """Return whether a line ends as on old Macs."""
    if b"\r" not in data:
        return False
    returns = np.flatnonzero(octets == RETURN)
    if returns[-1] == len(octets) - 1:
        if last:
            return True
        returns = returns[:-1]
    return bool((octets[returns + 1] != LINE_FEED).any())


def _all_open_a_cell(octets: NDArray[np.uint8], opening: Offsets, dialect: Dialect) -> bool:
    """Return whether every other quote is at the beginning of a cell, or doubled: then parity tells what is quoted.

    A quote inside of an unquoted cell, as in `5" pipe`, is an ordinary character.
    """
    before = octets[opening[opening > 0] - 1]
    return bool(((before == dialect.delimiter[0]) | (before == LINE_FEED) | (before == dialect.quote[0])).all())


def _matched_ends(data: bytes, dialect: Dialect, last: bool) -> tuple[Offsets, bool]:
    """Return the ends of records one by one, for what is rare: escapes, stray quotes, line ends of old Macs."""
    ends, position = [], 0
    while match := dialect.record.match(data, position):
        position = match.end()
        ends.append(position)
    unclosed = last and dialect.unended.fullmatch(data, position) is None
    return np.array(ends, np.intp), unclosed


def _starts(data: bytes, ends: Offsets) -> Offsets:
    """Return the offsets of the records that are not empty lines."""
    octets = np.frombuffer(data, np.uint8)
    starts = np.concatenate((np.zeros(1, np.intp), ends[:-1]))
    lengths = ends - starts
    tiny = np.flatnonzero(lengths <= 2)  # only these can be empty
    first, final = octets[starts[tiny]], octets[ends[tiny] - 1]
    ended = (first == LINE_FEED) | (first == RETURN)
    empty = tiny[ended & ((final == LINE_FEED) | (final == RETURN))]
    return np.delete(starts, empty) if len(empty) else starts


def _endless(path: str, line: int) -> Failed:
    rule = f"a row has at most {MAX_RECORD >> 20} MiB"
    return Failed(f"{path} line {line}", "a row without an end", rule, "look for a quote that is not closed")


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
