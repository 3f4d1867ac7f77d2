"""`cutmix`: a rectangle of each image comes from another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.config.augment import Cutmix
from tasks.feed.augment import Mix, Numbers, Values
from tasks.feed.augment.beta import smaller_part
from tasks.feed.augment.draws import Draws


def create(config: Cutmix, feature: dict[str, Any]) -> Mix:
    """Return the mixture of uint8 [n, height, width, channels]."""

    def mix(values: Values, others: Values, draws: Draws) -> tuple[Values, Numbers]:
        height, width = values.shape[1:3]
        side = np.sqrt(smaller_part(draws.words(0)[:, 0], config.alpha).astype(np.float64))
        heights, widths = np.rint(side * height).astype(np.int64), np.rint(side * width).astype(np.int64)
        tops, lefts = draws.integers(1, height - heights + 1), draws.integers(2, width - widths + 1)
        rows, columns = np.arange(height), np.arange(width)
        tall = (rows >= tops[:, None]) & (rows < (tops + heights)[:, None])
        wide = (columns >= lefts[:, None]) & (columns < (lefts + widths)[:, None])
        mixed = np.where((tall[:, :, None] & wide[:, None, :])[..., None], others, values)
        return mixed, (heights * widths / (height * width)).astype(np.float32)

    return mix
