"""`rand_augment`: random operations of Pillow, of the 14 of the paper, at one magnitude."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from tasks.config.augment import RandAugment
from tasks.feed.augment import Change, Values
from tasks.feed.augment.draws import Draws
from tasks.feed.augment.pillow import as_image, as_pixels

GREY = 128
"""Value of pixels that come from outside of the image."""

Operation = Callable[[Image.Image, float, int], Image.Image]
"""Changes an image with a strength from 0 to 1, in a direction, 1 or -1."""


def _affine(image: Image.Image, *numbers: float) -> Image.Image:
    grey = GREY if image.mode == "L" else (GREY,) * 3
    return image.transform(image.size, Image.Transform.AFFINE, numbers, Image.Resampling.BILINEAR, fillcolor=grey)


def _rotate(image: Image.Image, strength: float, direction: int) -> Image.Image:
    grey = GREY if image.mode == "L" else (GREY,) * 3
    return image.rotate(30 * strength * direction, Image.Resampling.BILINEAR, fillcolor=grey)


def _enhance(enhancer: type[Any]) -> Operation:
    return lambda image, strength, direction: enhancer(image).enhance(1 + 0.9 * strength * direction)


OPERATIONS: dict[str, Operation] = {
    "identity": lambda image, strength, direction: image,
    "auto_contrast": lambda image, strength, direction: ImageOps.autocontrast(image),
    "equalize": lambda image, strength, direction: ImageOps.equalize(image),
    "rotate": _rotate,
    "solarize": lambda image, strength, direction: ImageOps.solarize(image, round(256 * (1 - strength))),
    "colour": _enhance(ImageEnhance.Color),
    "posterize": lambda image, strength, direction: ImageOps.posterize(image, 8 - round(4 * strength)),
    "contrast": _enhance(ImageEnhance.Contrast),
    "brightness": _enhance(ImageEnhance.Brightness),
    "sharpness": _enhance(ImageEnhance.Sharpness),
    "shear_x": lambda image, strength, direction: _affine(image, 1, 0.3 * strength * direction, 0, 0, 1, 0),
    "shear_y": lambda image, strength, direction: _affine(image, 1, 0, 0, 0.3 * strength * direction, 1, 0),
    "move_x": lambda image, strength, direction: _affine(
        image, 1, 0, 0.45 * strength * direction * image.width, 0, 1, 0
    ),
    "move_y": lambda image, strength, direction: _affine(
        image, 1, 0, 0, 0, 1, 0.45 * strength * direction * image.height
    ),
}
"""The operations by name."""


def create(config: RandAugment, feature: dict[str, Any]) -> Change:
    """Return the change of uint8 [n, height, width, channels]."""
    operations, strength = list(OPERATIONS.values()), config.magnitude / 10

    def change(values: Values, draws: Draws) -> Values:
        words = range(config.operations)
        chosen = np.stack([draws.integers(2 * number, len(operations)) for number in words], axis=1).tolist()
        signs = np.stack([1 - 2 * draws.integers(2 * number + 1, 2) for number in words], axis=1).tolist()
        changed = np.empty_like(values)
        for number, (which, directions) in enumerate(zip(chosen, signs, strict=True)):
            image = as_image(values[number])
            for index, direction in zip(which, directions, strict=True):
                image = operations[index](image, strength, direction)
            changed[number] = as_pixels(image)
        return changed

    return change
