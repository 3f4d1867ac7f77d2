"""Raw values to typed ones: text of a CSV file, JSON values, dates of a database, bytes and paths."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import formats
from .values import ASCII_BLANKS, BLANKS, LARGEST, MISSING, NO_TIME, NUMBER, WHOLE, Unusable, Values

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)
CATEGORY_BYTES = 1024
"""Length of a category at most."""


class _Bad(Exception):
    """A value that breaks the rule in its argument."""


def column(
    raw: Sequence[Any],
    kind: str,
    shape: tuple[int, ...] = (),
    missing: Collection[str] = (),
    folder: Path = Path(),
    written: Mapping[str, Any] | None = None,
) -> Values:
    """Return raw values as typed ones.

    Args:
        missing: further texts that are missing values.
        folder: relative paths of images and sounds begin here.
        written: how the cells are written, where they are no plain ones (`formats`).

    Raises:
        Unusable: a value is not of this kind.
    """
    casts: dict[str, Callable[[Any], Any]] = {
        "number": number if not shape else lambda value: _array(value, shape),
        "category": category,
        "text": text,
        "words": words,
        "time": time,
        "image": lambda value: content(value, folder),
        "audio": lambda value: content(value, folder),
    }
    read = formats.reader_of(written) if written else lambda value: value
    values = []
    for row, value in enumerate(raw):
        try:
            given = None if isinstance(value, str) and value.strip(ASCII_BLANKS) in missing else value
            values.append(casts[kind](read(given)))
        except (_Bad, formats.Unreadable) as bad:
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
    if abs(converted) > LARGEST:
        raise _Bad("must be finite, and in float32's range (up to 3.4e38)")
    return converted


def category(value: Any) -> str:
    """Return a category as text: of 3, 3.0 and " 3.0 " it is "3", of True "true"."""
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return ""
        if float(value).is_integer() and abs(float(value)) < 2**53:
            return str(int(value))
    found = re.sub(WHOLE, r"\1", text(value).strip(BLANKS))
    if len(found.encode()) > CATEGORY_BYTES:
        raise _Bad(f"must be a category, of at most {CATEGORY_BYTES} bytes")
    return found


def text(value: Any) -> str:
    """Return a text; bytes must be UTF-8; numbers and dates are written as Arrow does."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _unicode(value)
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError as error:
            raise _Bad(f"must be UTF-8, and byte {error.start} is not") from None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return _shortest(float(value))
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return str(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    raise _Bad("must be text, a number, a date, or true or false")


def words(value: Any) -> list[str]:
    """Return a list of texts."""
    if value is None:
        return []
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(items, list | tuple):
        raise _Bad("must be a list of words")
    if any(item is None for item in items):
        raise _Bad("must be a list of words, none of them missing")
    return [text(item) for item in items]


def time(value: Any) -> int:
    """Return a time as microseconds since 1970 in UTC, to which a time without an offset belongs."""
    if value is None or value != value:  # NaT of NumPy and pandas
        return NO_TIME
    if isinstance(value, np.datetime64):
        return _microseconds(value)
    if isinstance(value, str):
        stripped = value.strip()
        if stripped in MISSING:
            return NO_TIME
        try:
            value = datetime.datetime.fromisoformat(stripped)
        except ValueError:
            rule = "must be a date or time of ISO 8601, such as 2024-05-31 or 2024-05-31T18:30:00+02:00"
            raise _Bad(rule) from None
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


def _shortest(value: float) -> str:
    """Return the shortest text of a number in Arrow's form: 0.000001, 1.5e-7, 1e+10."""
    if not np.isfinite(value):
        return str(value)
    sign, digits, exponent = decimal.Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    place = len(digits) + exponent - 1  # the power of ten of the first digit
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    minus = "-" if sign else ""
    if shown == "0":
        return f"{minus}0"
    if place <= -7 or place >= 10:
        return f"{minus}{shown[0]}{'.' if shown[1:] else ''}{shown[1:]}e{place:+d}"
    if place < 0:
        return f"{minus}0.{'0' * (-place - 1)}{shown}"
    whole, fraction = shown[: place + 1].ljust(place + 1, "0"), shown[place + 1 :]
    return f"{minus}{whole}{'.' if fraction else ''}{fraction}"


def _microseconds(value: np.datetime64) -> int:
    """Return a time in microseconds, cut towards zero."""
    unit, step = np.datetime_data(value.dtype)
    finer = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}.get(unit)
    if finer is None:
        return int(value.astype("datetime64[us]").astype(np.int64))
    number = int(value.astype(np.int64)) * step
    return abs(number) // finer * (1 if number >= 0 else -1)


def _array(value: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return numbers of a shape, from lists or an array of as many, in C order; None within is missing."""
    flat = list(_flattened(value))
    if value is None or len(flat) != math.prod(shape):
        raise _Bad(f"must be a list of numbers of shape {list(shape)}")
    return np.array([number(item) for item in flat], np.float32).reshape(shape)


def _flattened(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple | np.ndarray):
        for item in value:
            yield from _flattened(item)
    else:
        yield value


def _shown(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
