"""Images moved in a random direction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.config.probes import ShiftProbe
from tasks.evaluation.probes import Draws


def change(values: npt.NDArray, draws: Draws, config: ShiftProbe, feature: Mapping[str, Any]) -> npt.NDArray:
    """Return images [n, height, width, channels], each moved; pixels of the edge fill the gap."""
    height, width = values.shape[1:3]
    rows, columns = np.arange(height), np.arange(width)
    moved = np.empty_like(values)
    for number, draw in enumerate(draws):
        down, right = draw.integers(-config.pixels, config.pixels, 2, endpoint=True)
        above, left = np.clip(rows - down, 0, height - 1), np.clip(columns - right, 0, width - 1)
        moved[number] = values[number][above][:, left]
    return moved
