"""Spans of a sound's time or bands that are replaced by means."""

from __future__ import annotations

import numpy as np

from tasks.feed.augment import Values
from tasks.feed.augment.draws import Draws


def mask(values: Values, draws: Draws, axis: int, width: int, spans: int) -> Values:
    """Return float32 [n, time, bands] with spans along an axis at the mean of each band, or of all of the sound."""
    length = values.shape[axis]
    covered = np.zeros((len(values), length), bool)
    for number in range(spans):
        widths = draws.integers(2 * number, min(width, length) + 1)
        starts = draws.integers(2 * number + 1, length - widths + 1)
        places = np.arange(length)
        covered |= (places >= starts[:, None]) & (places < (starts + widths)[:, None])
    means = values.mean(axis=1, keepdims=True, dtype=np.float64)
    if axis == 2:  # the mean of a band over time would show what was in it
        means = means.mean(axis=2, keepdims=True)
    where = covered[:, :, None] if axis == 1 else covered[:, None, :]
    return np.where(where, means.astype(np.float32), values)
