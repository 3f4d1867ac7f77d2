"""Typed values: what a column holds after casting, in records and in a request alike."""

from __future__ import annotations

import math
import re
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

LARGEST = math.nextafter((2 - 2.0**-24) * 2.0**127, 0)
"""The largest number whose nearest float32 is finite; 3.4028235e38, the shortest text of the largest float32, too."""

NO_TIME = -(2**63)
"""A missing time."""

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})
"""Texts that are a missing number or time; of other columns only the empty text is."""

BLANKS = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's white space, which may surround a number."""
WHOLE = r"^([+-]?[0-9]+)\.0*$"
"""A whole number with zeros, or nothing, as its fraction: a category called so is called by the number."""
ASCII_BLANKS = " \t\n\r\x0b\x0c"
"""White space that may surround a text that means a missing value."""
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A decimal number."""


class Unusable(ValueError):
    """A value that cannot be used: `row` (from 0, of the rows at hand), `column`, `saw` and `rule`."""

    def __init__(self, row: int, saw: str, rule: str) -> None:
        super().__init__(row, saw, rule)
        self.row, self.saw, self.rule = row, saw, rule
        self.column = ""

    def __str__(self) -> str:
        return f"row {self.row}, column {self.column}: {self.saw}; {self.rule}"
