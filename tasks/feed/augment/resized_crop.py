"""`resized_crop`: a rectangle of each image is resized to the whole size, by Pillow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from PIL import Image

from tasks.config.augment import ResizedCrop
from tasks.feed.augment import Change, Values
from tasks.feed.augment.draws import Draws
from tasks.feed.augment.pillow import as_image, as_pixels


def create(config: ResizedCrop, feature: dict[str, Any]) -> Change:
    """Return the change of uint8 [n, height, width, channels]."""
    low, high = (math.log(bound) for bound in config.ratio)

    def change(values: Values, draws: Draws) -> Values:
        height, width = values.shape[1:3]
        areas = draws.between(0, *config.area)
        ratios = np.exp(draws.between(1, low, high))  # as likely wide as tall
        widths = np.clip(np.rint(width * np.sqrt(areas * ratios)), 1, width)
        heights = np.clip(np.rint(height * np.sqrt(areas / ratios)), 1, height)
        lefts = draws.integers(2, (width - widths + 1).astype(np.int64))
        tops = draws.integers(3, (height - heights + 1).astype(np.int64))
        boxes = np.stack([lefts, tops, lefts + widths, tops + heights], axis=1).tolist()
        changed = np.empty_like(values)
        for number, box in enumerate(boxes):
            image = as_image(values[number])
            changed[number] = as_pixels(image.resize((width, height), Image.Resampling.BILINEAR, tuple(box)))
        return changed

    return change
