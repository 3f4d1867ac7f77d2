"""Packing: the places of documents' tokens in rows of equal length.

`stream` cuts the concatenated documents into rows that share a token, so that every token is a target exactly once.
`best_fit` puts each document into one row, the fullest that has room for it (Ding et al., arXiv 2404.10830); what is
left of a row is padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Packed:
    """Where the tokens of rows come from; what no piece names is padding."""

    origin: Numbers
    """int64 [rows, 2]: first piece and number of pieces of each row."""
    pieces: Numbers
    """int64 [pieces, 4]: record, begin in the record, length, column in the row."""
    width: int
    """Tokens of a row."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.origin)

    def gather(self, start: int, stop: int, stream: NDArray[Any], begins: Numbers, padding: int) -> NDArray[Any]:
        """Return the rows [start, stop) of values of the stream of all documents, of which each has its begin in it."""
        rows = np.full((stop - start) * self.width, padding, stream.dtype)
        places, tokens = self._places(start, stop, begins)
        rows[places] = stream[tokens]
        return rows.reshape(stop - start, self.width)

    def _places(self, start: int, stop: int, begins: Numbers) -> tuple[Numbers, Numbers]:
        """Return the positions of the tokens in the rows [start, stop), flat, and in the stream."""
        first, last = self.origin[start, 0], self.origin[stop - 1].sum()
        record, begin, length, column = self.pieces[first:last].T
        row = np.repeat(np.arange(stop - start), self.origin[start:stop, 1])
        within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        return (
            np.repeat(row * self.width + column, length) + within,
            np.repeat(begins[record] + begin, length) + within,
        )


def stream(lengths: Numbers, block: int) -> Packed:
    """Pack documents of these lengths, each with the BOS before it, one after another: row i has the tokens from
    i * block to i * block + block of all."""
    rows = -(-(int(lengths.sum()) - 1) // block)
    ends = np.cumsum(lengths)
    begins = ends - lengths
    low = np.arange(rows, dtype=np.int64) * block
    high = np.minimum(low + block + 1, ends[-1])
    first = np.searchsorted(begins, low, side="right") - 1
    number = np.searchsorted(begins, high - 1, side="right") - first
    origin = np.stack([np.cumsum(number) - number, number], axis=1)
    row = np.repeat(np.arange(rows), number)
    record = first[row] + np.arange(len(row)) - origin[row, 0]
    start = np.maximum(begins[record], low[row])
    stop = np.minimum(ends[record], high[row])
    pieces = np.stack([record, start - begins[record], stop - start, start - low[row]], axis=1)
    return Packed(origin, pieces, block + 1)


def best_fit(lengths: Numbers, block: int, cut: bool = False) -> Packed:
    """Pack documents of these lengths, each with the BOS before it, into as few rows as the best fit finds.

    A document of more than block + 1 tokens has several rows, the later ones with a BOS of their own; with `cut` it
    ends there.
    """
    record, begin, length = _chunks(lengths, block, cut)
    lead = (begin > 0).astype(np.int64)  # a BOS that is not of the document
    row, column = _fit(length + lead, block + 1)
    order = np.lexsort((column, row))
    pieces = np.stack([record, begin, length, column + lead], axis=1)[order]
    number = np.bincount(row, minlength=int(row.max()) + 1)
    return Packed(np.stack([np.cumsum(number) - number, number], axis=1), pieces, block + 1)


def _chunks(lengths: Numbers, block: int, cut: bool) -> tuple[Numbers, Numbers, Numbers]:
    """Return record, begin and length of the parts of documents that rows hold whole."""
    count = np.ones_like(lengths) if cut else np.maximum(-(-(lengths - 1) // block), 1)
    record = np.repeat(np.arange(len(lengths)), count)
    number = np.arange(len(record)) - np.repeat(np.cumsum(count) - count, count)
    begin = np.where(number > 0, 1 + number * block, 0)
    end = np.minimum(1 + (number + 1) * block, lengths[record])
    return record, begin, end - begin


def _fit(sizes: Numbers, capacity: int) -> tuple[Numbers, Numbers]:
    """Return row and column of each size: from the largest on, each in the row with the least room that has enough."""
    row, column = np.empty(len(sizes), np.int64), np.empty(len(sizes), np.int64)
    open_rows: dict[int, list[int]] = {}
    room_left, rows = 0, 0  # a bit for each room that some row has left
    for index in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[index])
        fitting = room_left >> size
        room = size + (fitting & -fitting).bit_length() - 1 if fitting else capacity
        if fitting:
            chosen = open_rows[room].pop()
            if not open_rows[room]:
                room_left ^= 1 << room
        else:
            chosen, rows = rows, rows + 1
        row[index], column[index] = chosen, capacity - room
        if room > size:
            open_rows.setdefault(room - size, []).append(chosen)
            room_left |= 1 << (room - size)
    return row, column
