"""`crop`: images are moved by whole pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.config.augment import Crop
from tasks.feed.augment import Change, Values
from tasks.feed.augment.draws import Draws


def create(config: Crop, feature: dict[str, Any]) -> Change:
    """Return the change of uint8 [n, height, width, channels]."""
    border = config.padding
    mode: Any = {"zero": "constant", "edge": "edge"}[config.fill]

    def change(values: Values, draws: Draws) -> Values:
        height, width = values.shape[1:3]
        padded = np.pad(values, ((0, 0), (border, border), (border, border), (0, 0)), mode)
        tops, lefts = (draws.integers(number, 2 * border + 1) for number in (0, 1))
        changed = np.empty_like(values)
        for image, (top, left) in enumerate(zip(tops.tolist(), lefts.tolist(), strict=True)):
            changed[image] = padded[image, top : top + height, left : left + width]
        return changed

    return change
