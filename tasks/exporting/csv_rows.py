"""Reading rows of numbers from CSV files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.errors import Failed


def read_rows(path: Path, columns: list[str]) -> list[NDArray[np.float32]]:
    """Read the rows of a CSV file, float32 [columns]: by the names in its header, or without one in the given order.

    Raises:
        Failed: a column is missing, a value is not a number, or the file is not UTF-8.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = [(number, line) for number, line in enumerate(csv.reader(file), 1) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        rule = "a table is a UTF-8 file of comma-separated values"
        raise Failed(str(path), str(error), rule, "check the file") from error
    order = list(range(len(columns)))
    if lines and not _number(lines[0][1][0]):
        head = [name.strip() for name in lines.pop(0)[1]]
        if missing := [name for name in columns if name not in head]:
            raise Failed(str(path), f"no column {missing[0]}", f"the model reads {', '.join(columns)}", "add it")
        order = [head.index(name) for name in columns]
    if not lines:
        raise Failed(str(path), "no rows", "a table holds a line of numbers for each example", "add some")
    rows = []
    for number, line in lines:
        values = [line[index] if index < len(line) else "" for index in order]
        if bad := [value for value in values if not _number(value)]:
            raise Failed(f"{path}:{number}", repr(bad[0]), f"a row has {len(columns)} numbers", "fix that line")
        rows.append(np.array(values, np.float32))
    return rows


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
