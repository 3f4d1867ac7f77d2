"""Pixels as images of Pillow, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def as_image(pixels: NDArray[Any]) -> Image.Image:
    """Return uint8 [height, width, 1 or 3] as an image, grey or RGB."""
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def as_pixels(image: Image.Image) -> NDArray[np.uint8]:
    """Return an image's pixels, uint8 [height, width, 1 or 3]."""
    pixels = np.asarray(image)
    return pixels if pixels.ndim == 3 else pixels[:, :, None]
