"""`cutout`: a square of each image becomes grey."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.config.augment import Cutout
from tasks.feed.augment import Change, Values
from tasks.feed.augment.draws import Draws

GREY = 128


def create(config: Cutout, feature: dict[str, Any]) -> Change:
    """Return the change of uint8 [n, height, width, channels]."""

    def change(values: Values, draws: Draws) -> Values:
        height, width = values.shape[1:3]
        tops = draws.integers(0, height) - config.size // 2  # the centre is within the image
        lefts = draws.integers(1, width) - config.size // 2
        rows, columns = np.arange(height), np.arange(width)
        covered = _within(rows, tops, config.size)[:, :, None] & _within(columns, lefts, config.size)[:, None, :]
        return np.where(covered[..., None], np.uint8(GREY), values)

    return change


def _within(places: Values, starts: Values, size: int) -> Values:
    """Return whether places are within a span from each start, bool [starts, places]."""
    return (places >= starts[:, None]) & (places < starts[:, None] + size)
