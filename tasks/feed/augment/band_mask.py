"""`band_mask`: spans of a sound's bands are replaced."""

from __future__ import annotations

from typing import Any

from tasks.config.augment import BandMask
from tasks.feed.augment import Change
from tasks.feed.augment.masks import mask


def create(config: BandMask, feature: dict[str, Any]) -> Change:
    """Return the change of float32 [n, time, bands]."""
    return lambda values, draws: mask(values, draws, 2, config.width, config.spans)
