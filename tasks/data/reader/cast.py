"""Raw values to typed ones: text of a CSV file, JSON values, dates of a database, bytes and paths."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import NO_TIME, Unusable, Values

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})
"""Texts that are a missing number or time; of other columns only the empty text is."""

BLANKS = " \t\r\n"
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
TIME = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:(?<=:[0-9]{2}:[0-9]{2})[.,](?P<fraction>[0-9]{1,9}))?"
    r" ?(?P<offset>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
"""ISO 8601, extended format."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)
FLOAT32_END = 2.0**128 - 2.0**103
"""The smallest number that float32 rounds to infinity."""


class _Bad(Exception):
    """A value that breaks the rule in its argument."""


def column(
    raw: Sequence[Any], kind: str, shape: tuple[int, ...] = (), missing: Collection[str] = (), folder: Path = Path()
) -> Values:
    """Return raw values as typed ones.

    Args:
        missing: further texts that are missing values.
        folder: relative paths of images and sounds begin here.

    Raises:
        Unusable: a value is not of this kind.
    """
    casts: dict[str, Callable[[Any], Any]] = {
        "number": number if not shape else lambda value: _array(value, shape),
        "category": category,
        "text": text,
        "time": time,
        "image": lambda value: content(value, folder),
        "audio": lambda value: content(value, folder),
    }
    values = []
    for row, value in enumerate(raw):
        try:
            values.append(casts[kind](None if isinstance(value, str) and value in missing else value))
        except _Bad as bad:
            raise Unusable(row, _shown(value), str(bad)) from None
    if kind == "number":
        return np.array(values, np.float32).reshape(len(values), *shape)
    return np.array(values, np.int64) if kind == "time" else values


def number(value: Any) -> float:
    """Return a number as the nearest float64, which becomes the nearest float32; NaN is missing."""
    if value is None:
        return np.nan
    if isinstance(value, str):
        stripped = value.strip(BLANKS)
        if stripped in MISSING:
            return np.nan
        if not NUMBER.fullmatch(stripped):
            raise _Bad("must be a decimal number such as 12, -0.5 or 1e-3")
        value = stripped
    elif not isinstance(value, bool | int | float | decimal.Decimal | np.number | np.bool_):
        raise _Bad("must be a number")
    try:
        converted = float(value)
    except (OverflowError, ValueError, TypeError):
        raise _Bad("must be a number of float32's range") from None
    if abs(converted) >= FLOAT32_END:
        raise _Bad("must be finite, and in float32's range (up to 3.4e38)")
    return converted


def category(value: Any) -> str:
    """Return a category as text: of 3 and of 3.0 it is "3", of True "true"."""
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return ""
    if isinstance(value, str):
        return _unicode(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    raise _Bad("must be text, a number, or true or false")


def text(value: Any) -> str:
    """Return a text; bytes must be UTF-8."""
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError as error:
            raise _Bad(f"must be UTF-8, and byte {error.start} is not") from None
    if isinstance(value, str):
        return _unicode(value)
    raise _Bad("must be text")


def time(value: Any) -> int:
    """Return a time as microseconds since 1970 in UTC, to which a time without an offset belongs."""
    if value is None or value != value:  # NaT of NumPy and pandas
        return NO_TIME
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[us]").astype(np.int64))
    if isinstance(value, str):
        stripped = value.strip(BLANKS)
        if stripped in MISSING:
            return NO_TIME
        value = _parsed(stripped)
    elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    elif not isinstance(value, datetime.datetime):
        raise _Bad("must be a date or time of ISO 8601, or a datetime")
    aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    return (aware - EPOCH) // MICROSECOND


def content(value: Any, folder: Path = Path()) -> bytes:
    """Return the bytes of an image or sound, which is given as such or as the path of its file."""
    if value is None or (isinstance(value, str) and not value):
        return b""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str | Path):
        raise _Bad("must be the bytes of a file, or its path")
    try:
        return (folder / value).read_bytes()
    except (OSError, ValueError) as error:
        raise _Bad(f"must be the path of a file that can be read ({getattr(error, 'strerror', error)})") from None


def _unicode(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Bad(f"must be Unicode text, and character {error.start} is half of one") from None
    return str(value)


def _parsed(value: str) -> datetime.datetime:
    rule = "must be a date or time of ISO 8601, such as 2024-05-31 or 2024-05-31T18:30:00+02:00"
    match = TIME.fullmatch(value)
    if match is None:
        raise _Bad(rule)
    fraction = (match["fraction"] or "")[:6].ljust(6, "0")
    offset = "+00:00" if match["offset"] in (None, "Z", "z") else match["offset"]
    seconds = "" if (clock := match["time"] or "00:00").count(":") == 2 else ":00"
    try:
        return datetime.datetime.fromisoformat(f"{match['date']}T{clock}{seconds}.{fraction}{offset}")
    except ValueError as error:
        raise _Bad(f"{rule} ({error})") from None


def _array(value: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return numbers of a shape, from nested lists or an array; None is missing as a whole, or as a part."""
    if value is None:
        return np.full(shape, np.nan, np.float32)
    if isinstance(value, str | bytes):
        raise _Bad(f"must be a list of numbers of shape {list(shape)}")
    try:
        nested = np.array(value, dtype=object)
    except ValueError:
        nested = np.empty(0, dtype=object)
    if nested.shape != shape:
        raise _Bad(f"must be numbers of shape {list(shape)}")
    return np.array([number(item) for item in nested.ravel()], np.float32).reshape(shape)


def _shown(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
