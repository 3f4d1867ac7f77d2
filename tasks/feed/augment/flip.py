"""`flip`: some images are mirrored."""

from __future__ import annotations

from typing import Any

from tasks.config.augment import Flip
from tasks.feed.augment import Change, Values
from tasks.feed.augment.draws import Draws


def create(config: Flip, feature: dict[str, Any]) -> Change:
    """Return the change of uint8 [n, height, width, channels]."""
    axis = 2 if config.axis == "horizontal" else 1

    def change(values: Values, draws: Draws) -> Values:
        chosen = draws.uniform(0) < config.share
        changed = values.copy()
        changed[chosen] = values[chosen].take(range(values.shape[axis] - 1, -1, -1), axis)
        return changed

    return change
