"""Sums over the pixels of an encoded image, for the statistics of records.

Pillow holds 4 bytes for a pixel of a decoded colour image; no second copy of it is made.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from tasks.reader.decoding import BROKEN, SIXTEEN_BITS, is_transparent, strips

Image.MAX_IMAGE_PIXELS = None  # `records.max_pixels` is the limit

PIXEL_MODES = ("L", "LA", "RGB", "RGBA", *SIXTEEN_BITS)
"""Pillow modes whose values are pixels, unlike a palette's; of PNG with a transparent level or colour that one too."""


class NotAnImage(ValueError):
    """The reason why bytes are not an image that can be used."""


@dataclass(frozen=True)
class PixelSums:
    """Shape [height, width, channels] of an image; for each channel the sum of the values and of their squares."""

    shape: tuple[int, int, int]
    sums: list[int]
    squares: list[int]


def sums(payload: bytes, max_pixels: int) -> PixelSums:
    """Decode an image and sum over its pixels; raises `NotAnImage` for a broken one, and one of too many pixels."""
    try:
        with Image.open(io.BytesIO(payload)) as image:
            if (count := image.width * image.height) > max_pixels:
                shape = f"{image.width:,} x {image.height:,} = {count:,} pixels"
                raise NotAnImage(f"{shape}; records.max_pixels is {max_pixels:,}")
            colours = "RGBA" if is_transparent(image) else "RGB"
            known = image.mode in PIXEL_MODES and image.mode != "RGBA"
            return _sums(image, image.mode if known else colours)
    except BROKEN as error:
        if isinstance(error, NotAnImage):
            raise
        saw = "not an image" if isinstance(error, UnidentifiedImageError) else f"not a whole image: {error}"
        raise NotAnImage(saw) from error


def _sums(image: Image.Image, mode: str) -> PixelSums:
    """Return the sums over an image after its conversion to a mode."""
    channels = len(Image.new(mode, (1, 1)).getbands())
    levels = 65_536 if mode in SIXTEEN_BITS else 256
    counts = np.zeros((channels, levels), np.int64)
    for _, strip in strips(image):
        counts += _histogram(strip if strip.mode == mode else strip.convert(mode), levels).reshape(channels, levels)
    values = np.arange(levels, dtype=np.int64)
    shape = (image.height, image.width, channels)
    return PixelSums(shape, (counts @ values).tolist(), (counts @ (values * values)).tolist())


def _histogram(strip: Image.Image, levels: int) -> NDArray[np.int64]:
    if levels == 256:
        return np.array(strip.histogram(), np.int64)
    return np.bincount(np.clip(np.asarray(strip, np.int64), 0, levels - 1).ravel(), minlength=levels)
