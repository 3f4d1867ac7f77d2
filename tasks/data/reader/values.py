"""Typed values: what a column holds after casting, in records and in a request alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

Values = Any
"""The values of some rows of a column, by its kind: `number` float32 [rows, *shape], missing is NaN; `time` int64
[rows], microseconds since 1970 in UTC, missing is `NO_TIME`; `category` and `text` a list of str, missing is "";
`words` a list of lists of str, missing is an empty one; `image` and `audio` a list of the files' bytes, missing is
b""."""

Apply = Callable[[Values], NDArray[Any]]
"""A loaded transform: returns [rows, k] where a column fills k places of an array with others, else [rows, ...]. The
result of a row does not depend on the other rows."""

NO_TIME = -(2**63)
"""A missing time."""


class Unusable(ValueError):
    """A value that cannot be used: `row` (from 0, of the rows at hand), `column`, `saw` and `rule`."""

    def __init__(self, row: int, saw: str, rule: str) -> None:
        super().__init__(row, saw, rule)
        self.row, self.saw, self.rule = row, saw, rule
        self.column = ""

    def __str__(self) -> str:
        return f"row {self.row}, column {self.column}: {self.saw}; {self.rule}"
