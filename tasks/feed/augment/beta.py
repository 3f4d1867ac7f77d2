"""The smaller part of two that a symmetric Beta distribution divides."""

from __future__ import annotations

from functools import cache

import numpy as np

from tasks.feed.augment import Numbers
from tasks.feed.augment.draws import Words


def smaller_part(words: Words, alpha: float) -> Numbers:
    """Return shares in [0, 0.5], float32 [n]: min(x, 1 - x) of x ~ Beta(alpha, alpha), by random words [n]."""
    return _quantiles(alpha)[(words >> np.uint64(52)).astype(np.int64)]


@cache
def _quantiles(alpha: float) -> Numbers:
    """Return the quantiles of the lower half, in the middle of 4,096 parts of equal probability."""
    from scipy.stats import beta

    return beta.ppf((np.arange(4096) + 0.5) / 8192, alpha, alpha).astype(np.float32)
