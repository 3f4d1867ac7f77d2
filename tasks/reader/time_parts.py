"""`time_parts`: a time to numbers: year, month, day, weekday, hour, as they are or as places on a circle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import NO_TIME, Apply, Values

PERIODS = {"month": (1, 12), "day": (1, 31), "weekday": (0, 7), "hour": (0, 24)}
"""First value and number of values of the parts that come again."""


def time_parts(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to float32 [rows, numbers], the indicator last."""
    fill = np.array(state["fill"], np.float32)

    def apply(values: Values) -> NDArray[np.float32]:
        missing = values == NO_TIME
        numbers = np.where(missing[:, None], fill, parts_of(values, state["parts"], state["cyclical"]))
        indicator = [missing[:, None].astype(np.float32)] if state["indicator"] else []
        return np.concatenate([numbers.astype(np.float32), *indicator], axis=1)

    return apply


def names_of(parts: list[str], cyclical: bool) -> list[str]:
    """Return the names of the numbers of `parts_of`."""
    return [
        name for part in parts for name in ([f"{part}_sin", f"{part}_cos"] if cyclical and part in PERIODS else [part])
    ]


def parts_of(values: NDArray[np.int64], parts: list[str], cyclical: bool) -> NDArray[np.float64]:
    """Return the parts of times in UTC, [rows, numbers]; Monday is weekday 0. Of missing times they mean nothing."""
    times = np.where(values == NO_TIME, 0, values).astype("datetime64[us]")
    days, months, years = (times.astype(f"datetime64[{unit}]") for unit in "DMY")
    found = {
        "year": years.astype(np.int64) + 1970,
        "month": (months - years).astype(np.int64) + 1,
        "day": (days - months).astype(np.int64) + 1,
        "weekday": (days.astype(np.int64) + 3) % 7,
        "hour": (times - days).astype(np.int64) // 3_600_000_000,
    }
    columns = []
    for part in parts:
        number = found[part].astype(np.float64)
        if cyclical and part in PERIODS:
            columns += on_circle(number, part)
        else:
            columns.append(number)
    return np.stack(columns, axis=1)


def on_circle(numbers: NDArray[np.float64], part: str) -> list[NDArray[np.float64]]:
    """Return sine and cosine of the place of a part's numbers on its circle."""
    first, period = PERIODS[part]
    angle = 2 * np.pi * (numbers - first) / period
    return [np.sin(angle), np.cos(angle)]
