"""`mixup`: an example becomes a weighted mean of itself and another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.config.augment import Mixup
from tasks.feed.augment import Mix, Numbers, Values
from tasks.feed.augment.beta import smaller_part
from tasks.feed.augment.draws import Draws


def create(config: Mixup, feature: dict[str, Any]) -> Mix:
    """Return the mixture of uint8 [n, height, width, channels] or float32 [n, time, bands]."""

    def mix(values: Values, others: Values, draws: Draws) -> tuple[Values, Numbers]:
        shares = smaller_part(draws.words(0)[:, 0], config.alpha)
        of_other = shares.reshape(-1, *[1] * (values.ndim - 1))
        mixed = values + (others.astype(np.float32) - values) * of_other
        return (np.rint(mixed) if values.dtype == np.uint8 else mixed).astype(values.dtype), shares

    return mix
