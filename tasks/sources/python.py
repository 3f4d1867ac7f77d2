"""Examples that a function of the user's yields as dicts, from the first to the last."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tasks.environment.user_code import deciding, files_of, importable, raised_at
from tasks.errors import Failed
from tasks.reader.own_modules import imported
from tasks.sources import Partition, Rows, Source, not_utf8
from tasks.sources.features import Feature
from tasks.sources.hashes import bytes_of, hashes_of
from tasks.sources.kinds.columns import ColumnsSource, features_of, read_columns, shape_of
from tasks.sources.payloads import columns_of_files
from tasks.sources.table_files import Numbered, batches
from tasks.sources.values import LISTS, NOT_NUMBERS, columns_of

SCALARS = (str, int, float, bytes, datetime.date)


class Taken(NamedTuple):
    """What is read of an example: copies of the values, its bytes, about, and its content, of which its hash is made;
    or why it is none."""

    values: dict[str, Any]
    size: int
    content: bytes = b""
    bad: str = ""


class Python(Source):
    """Has the columns of the config with the values of the dicts.

    A dict without one of the columns, or with a key that the config does not name, is bad.
    """

    def __init__(self, config: ColumnsSource, function: str, folder: Path, arguments: Mapping[str, Any]) -> None:
        """Find the code, without running it; raises `Refused` where there is no such module."""
        self._config, self._function, self._arguments = config, function, arguments
        self._types = {name: config.columns[name] for name in read_columns(config)}
        self._files = columns_of_files(config)
        self._folder = folder.expanduser().resolve()
        self._listed = self._hashes()

    @property
    def features(self) -> Mapping[str, Feature]:
        return features_of(self._config)

    def fingerprint(self) -> list[tuple[str, str]]:
        """Return path and hash of the function's module and of what it imports from its folder, and name and version
        of the packages that these import."""
        self._listed = self._hashes()
        return self._listed

    def partitions(self) -> list[Partition]:
        return [Partition(self._function, 0, ())]

    def read(self, partition: Partition) -> Iterator[Rows]:
        if self._hashes() != self._listed:
            rule = "a source must not change during a run"
            raise Failed(self._function, "it changed since it was listed", rule, "run again")
        first = 0
        for batch in batches(map(self._taken, self._values()), lambda taken: taken.size):
            yield self._rows(batch, first)
            first += len(batch)

    def _hashes(self) -> list[tuple[str, str]]:
        return deciding(files_of("source.function", self._function, self._folder), self._folder)

    def _values(self) -> Iterator[Any]:
        """Yield what the function yields; raises `Failed` where it raises, with file and line."""
        with importable(self._folder, dict(self._listed)):
            function = self._called(lambda: imported(self._function, self._folder))
            values = self._called(lambda: iter(function(**dict(sorted(self._arguments.items())))))
            end = object()
            while (value := self._called(lambda: next(values, end))) is not end:
                yield value

    def _called(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            where = raised_at(error, self._folder) or self._function
            saw = f"{type(error).__name__}: {_said(error)}".rstrip(": ").splitlines()[0]
            rule = "the function of source.function yields a dict for each example"
            raise Failed(where, saw, rule, "correct it, or source.function and source.arguments") from None

    def _rows(self, batch: list[Taken], first: int) -> Rows:
        """Return what was taken as columns; the first is number `first`."""
        columns, bad = columns_of(batch, self._types, _given)
        hashes = hashes_of([taken.content for taken in batch]) if self._config.key is None else None
        return Numbered(self._function, first, len(batch)).rows(columns, bad, hashes=hashes)

    def _taken(self, example: Any) -> Taken:
        """Return what is read of an example now: a function may yield the same dict or array again, with other
        values."""
        size = _size(example)
        try:
            values = self._fitting(example)
        except ValueError as error:
            return Taken({}, size, bad=str(error))
        return Taken(values, size, b"" if self._config.key else bytes_of(example))

    def _fitting(self, example: Any) -> dict[str, Any]:
        """Return the values that are read; raises `ValueError` for what is no example."""
        if not isinstance(example, dict):
            raise ValueError(f"a {type(example).__name__}, and not a dict")
        if missing := [name for name in self._types if name not in example]:
            raise ValueError(f"without {missing[0]!r}; a missing value is None")
        if unknown := [name for name in example if name not in self._config.columns]:
            raise ValueError(f"a key {unknown[0]!r} that source.columns does not name")
        return {name: self._value(name, example[name]) for name in self._types}

    def _value(self, name: str, value: Any) -> Any:
        """Return a value as one of Python's; raises `ValueError` for one that the column cannot hold."""
        column_type = self._config.columns[name]
        if isinstance(value, np.generic):
            value = value.astype("datetime64[us]").item() if isinstance(value, np.datetime64) else value.item()
        if value is None:
            return None
        if name in self._files:
            if isinstance(value, bytes):
                return value
            raise ValueError(f"{name}: a {type(value).__name__}, and an {column_type} is the bytes of its file")
        if column_type.startswith("number["):
            return _array(name, value, shape_of(column_type))
        if column_type in LISTS:
            return value
        if not isinstance(value, SCALARS):
            kind = f"an array of shape {list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
            raise ValueError(f"{name}: {kind}, and the column is of type {column_type}")
        if isinstance(value, datetime.date):
            return _utc(name, value) if value == value else None  # pandas.NaT is a date that is not itself
        return _text(name, value) if isinstance(value, str | bytes) else value


def _given(taken: Taken) -> dict[str, Any]:
    if taken.bad:
        raise ValueError(taken.bad)
    return taken.values


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # of an error of the user's own
        return ""


def _text(name: str, value: str | bytes) -> str:
    try:
        text = value.decode() if isinstance(value, bytes) else value
        text.encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: {not_utf8(error)}") from None
    except UnicodeEncodeError:
        raise ValueError(f"{name}: half of a surrogate pair") from None
    return text


def _array(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    try:
        array = np.array(value)
    except ValueError:  # of a ragged list
        raise ValueError(f"{name}: {NOT_NUMBERS}") from None
    if array.dtype.kind in "cmM":
        raise ValueError(f"{name}: {NOT_NUMBERS}")
    if array.shape != shape:
        raise ValueError(f"{name}: an array of shape {list(array.shape)}, and the column is number{list(shape)}")
    return array


def _utc(name: str, value: datetime.date) -> datetime.datetime:
    """Return a date or time as a time in UTC; without an offset it is in UTC already."""
    if not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    try:
        return value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
    except OverflowError:
        raise ValueError(f"{name}: {value} is in UTC in no year from 1 to 9999") from None


def _size(example: Any) -> int:
    """Return the bytes of a dict, about."""
    if not isinstance(example, dict):
        return 8
    values = example.values()
    return 8 + sum(
        value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(value, str | bytes) else 8
        for value in values
    )
