"""`colour`: brightness, contrast and saturation of images change by random factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.config.augment import Colour
from tasks.feed.augment import Change, Values
from tasks.feed.augment.draws import Draws

LUMA = np.array([299, 587, 114], np.int64)
"""Weights of red, green and blue in grey, in thousandths (ITU-R BT.601)."""


def create(config: Colour, feature: dict[str, Any]) -> Change:
    """Return the change of uint8 [n, height, width, channels]."""

    def factors(draws: Draws, number: int, most: float) -> Values:
        return draws.between(number, 1 - most, 1 + most).astype(np.float32)[:, None, None, None]

    def change(values: Values, draws: Draws) -> Values:
        changed = values.astype(np.float32)
        if config.brightness:
            changed *= factors(draws, 0, config.brightness)
        if config.contrast:
            # A sum of integers does not depend on its order.
            pixels = values.shape[1] * values.shape[2]
            mean = (_grey(np.rint(changed)).sum(axis=(1, 2)) / np.float64(1000 * pixels)).astype(np.float32)
            mean = mean[:, None, None, None]
            changed = mean + (changed - mean) * factors(draws, 1, config.contrast)
        if config.saturation and values.shape[3] == 3:
            grey = (_grey(np.rint(changed)) / np.float64(1000)).astype(np.float32)[..., None]
            changed = grey + (changed - grey) * factors(draws, 2, config.saturation)
        return np.clip(np.rint(changed), 0, 255).astype(np.uint8)

    return change


def _grey(values: Values) -> Values:
    """Return thousandfold grey values, int64 [n, height, width]."""
    whole = values.astype(np.int64)
    return whole @ LUMA if whole.shape[3] == 3 else whole[..., 0] * 1000
