"""`time_mask`: spans of a sound's time are replaced."""

from __future__ import annotations

from typing import Any

from tasks.config.augment import TimeMask
from tasks.feed.augment import Change
from tasks.feed.augment.masks import mask


def create(config: TimeMask, feature: dict[str, Any]) -> Change:
    """Return the change of float32 [n, time, bands]."""
    return lambda values, draws: mask(values, draws, 1, config.width, config.spans)
