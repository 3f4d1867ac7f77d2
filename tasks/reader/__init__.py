"""Turns raw rows into a model's inputs, exactly as the snapshot that trained it did.

This folder imports nothing of Millrace and, at import, NumPy alone. Exports carry it as `transform/reader/`:

    from reader import Reader                    # with `transform` on the import path
    inputs = Reader.open("transform")(rows)      # rows: dicts, as of `csv.DictReader` or `json.loads`

Images need Pillow, sounds soundfile, tokens (other than bytes) tokenizers. A kind of transform is a function of its
name, `KIND(state, folder) -> Apply`, in a module of its name or that of its family; the snapshot calls the same code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import cast
from .values import Apply, Unusable, Values

__all__ = ["Apply", "Reader", "Unusable", "Values", "transform"]

FORMAT = 1
FAMILIES = {
    **dict.fromkeys(("standardise", "log", "keep", "quantile", "bucketize"), "numbers"),
    **dict.fromkeys(("vocabulary", "hash"), "categories"),
    **dict.fromkeys(("tokens", "words", "hash_words"), "texts"),
}
"""The module of the kinds that share one."""
DESCRIPTION = "transform.json"


class Reader:
    """Turns rows into arrays.

    `columns`: type of each column that it needs, as in `source.columns` (`number[8, 8]`, `category`); `arrays`: dtype
    and shape of an example of each array that it returns; `classes` and `targets`: names of the model's outputs.
    """

    def __init__(self, description: Mapping[str, Any], folder: Path) -> None:
        """Create it from the contents of `transform.json` and the folder with the files that belong to it."""
        if description["format"] != FORMAT:
            raise ValueError(f"{folder}: format {description['format']}; this reader reads format {FORMAT}")
        self.columns = {
            column["name"]: column["kind"] + (str(column["shape"]) if column["shape"] else "")
            for column in description["columns"]
        }
        self.arrays: dict[str, dict[str, Any]] = description["arrays"]
        self.classes: list[str] = description["classes"]
        self.targets: list[str] = description["targets"]
        self._columns = {column["name"]: column for column in description["columns"]}
        self._layout: list[dict[str, Any]] = description["layout"]
        self._missing = frozenset(description["missing"])
        self._applies: dict[str, Apply] = {
            name: transform(state, folder) for name, state in description["transforms"].items()
        }

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Reader:
        """Open a folder `transform/` of a snapshot or an export."""
        path = Path(folder)
        return cls(json.loads((path / DESCRIPTION).read_text(encoding="utf-8")), path)

    def __call__(
        self, rows: Iterable[Mapping[str, Any]], folder: str | os.PathLike[str] = "."
    ) -> dict[str, NDArray[Any]]:
        """Return the model's inputs by name, [rows, ...].

        Args:
            rows: raw values by column: text as in a CSV file, JSON values, datetimes, bytes of images and sounds or
                the paths of their files; None is a missing value. Further columns are ignored.
            folder: relative paths begin here.

        Raises:
            Unusable: a row lacks a column, or a value cannot be used; it names row, column, value and rule.
        """
        listed = list(rows)
        typed: dict[str, Values] = {}
        for name, column in self._columns.items():
            for number, row in enumerate(listed):
                if name not in row:
                    with _named(name):
                        raise Unusable(number, "is not there", "must be given, None where missing")
            raw = [row[name] for row in listed]
            if (pattern := column.get("file")) is not None:  # the path of the file that a cell means
                raw = [pattern.replace("{}", cell) if isinstance(cell, str) and cell else cell for cell in raw]
            with _named(name):
                typed[name] = cast.column(
                    raw, column["kind"], tuple(column["shape"]), self._missing, Path(folder), column.get("format")
                )
        return self.apply(typed, len(listed))

    def apply(self, typed: Mapping[str, Values], count: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of `count` rows from typed values by column (`values.Values`).

        Raises:
            ValueError: a value cannot be used, such as a broken image.
        """
        arrays = {
            name: np.empty((count, *array["shape"]), np.dtype(array["dtype"])) for name, array in self.arrays.items()
        }
        for place in self._layout:
            name = place["column"]
            with _named(name):
                result = self._applies[name](typed[name])
            if "start" in place:
                arrays[place["array"]][:, place["start"] : place["stop"]] = result
            else:
                arrays[place["array"]][...] = result
        return arrays


def transform(state: dict[str, Any], folder: Path) -> Apply:
    """Return a fitted transform, to whose state files of the folder may belong."""
    kind = state["kind"]
    module = import_module(f".{FAMILIES.get(kind, kind)}", __name__)
    apply: Apply = getattr(module, kind)(state, folder)
    return apply


@contextmanager
def _named(column: str) -> Iterator[None]:
    """Add the column's name to an `Unusable`."""
    try:
        yield
    except Unusable as error:
        error.column = column
        raise
