"""Fits `image`: the range of grey levels of images with more than 8 bits; nothing else is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config.transform import Image
from tasks.reader.decoding import BROKEN, deep_levels
from tasks.reader.values import Values
from tasks.snapshots.transforms import Fitted, Rows
from tasks.snapshots.transforms.samples import NumberSample
from tasks.sources.features import Feature

SHARES = (0.001, 0.999)
"""Shares of the pixels below the levels that become 0 and 255: a few dead or hot pixels do not decide."""
MOST_PIXELS = 1 << 32
"""More than an image has, so that each pixel of the split has a number of its own."""


@dataclass
class ImageFitter:
    """Learns the range of levels, where it is `auto`, from a sample of the pixels."""

    config: Image
    sample: NumberSample = field(default_factory=NumberSample)

    @property
    def reads(self) -> bool:
        """Whether it needs values at all."""
        return self.config.range == "auto"

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from the images of some rows; a broken one is named when it is transformed."""
        for payload, row in zip(values, rows.tolist(), strict=True):
            first = row * MOST_PIXELS
            try:
                for levels in deep_levels(payload) if payload else ():
                    self.sample.add(levels.astype(np.float32), np.arange(first, first + len(levels), dtype=np.int64))
                    first += len(levels)
            except BROKEN:
                continue

    def fitted(self) -> Fitted:
        """Return the transform; where no image has more than 8 bits, it has no range."""
        shape = [self.config.height, self.config.width, self.config.channels]
        chosen = range_of(self.sample) if self.reads else self.config.range
        state = self.config.model_dump(exclude={"range"})
        if chosen is None or isinstance(chosen, str):  # full
            return Fitted(state, {"dtype": "uint8", "shape": shape})
        low, high = chosen
        return Fitted(
            {**state, "range": [low, high]},
            {"dtype": "uint8", "shape": shape},
            summary={"low": low, "high": high} if self.reads else {},
        )


def fitter(name: str, feature: Feature, config: Image, folder: Path) -> ImageFitter:
    """Return a fitter of images."""
    return ImageFitter(config)


def range_of(sample: NumberSample) -> tuple[float, float] | None:
    """Return the levels between which nearly all pixels of a sample are; None of an empty one."""
    if not len(values := sample.values):
        return None
    low, high = (float(level) for level in np.quantile(values, SHARES))
    return low, max(high, low + 1)  # of one level alone: no division by zero


def graph(states: Sequence[dict[str, Any]]) -> str:
    """Return why it has no operations of TensorFlow."""
    return "Pillow decodes and resizes its images"
