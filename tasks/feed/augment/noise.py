"""`noise`: normal noise is added."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tasks.config.augment import Noise
from tasks.feed.augment import Change, Values
from tasks.feed.augment.draws import Draws


def create(config: Noise, feature: dict[str, Any]) -> Change:
    """Return the change of uint8 [n, height, width, channels] or float32 [n, time, bands]."""

    def change(values: Values, draws: Draws) -> Values:
        noise = draws.normal(0, math.prod(values.shape[1:])).reshape(values.shape)
        if values.dtype == np.uint8:
            changed = values + noise * np.float32(255 * config.deviation)
            return np.clip(np.rint(changed), 0, 255).astype(np.uint8)
        return values + noise * np.float32(config.deviation)

    return change
