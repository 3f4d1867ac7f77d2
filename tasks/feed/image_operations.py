"""Operations of Pillow on images: the 14 of `rand_augment`, by name, and pixels as images and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

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


def as_image(pixels: NDArray[Any]) -> Image.Image:
    """Return uint8 [height, width, 1 or 3] as an image, grey or RGB."""
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def as_pixels(image: Image.Image) -> NDArray[np.uint8]:
    """Return an image's pixels, uint8 [height, width, 1 or 3]."""
    pixels = np.asarray(image)
    return pixels if pixels.ndim == 3 else pixels[:, :, None]
