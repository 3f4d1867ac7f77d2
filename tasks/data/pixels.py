"""Sums over the pixels of an encoded image, for the statistics of records.

Pillow holds 4 bytes for a pixel of a decoded colour image; no second copy of it is made.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from tasks.data.images import BROKEN, strips
from tasks.data.sources import Unreadable

PIXEL_MODES = ("L", "LA", "RGB", "RGBA", "I;16")
"""Pillow modes whose values are pixels, unlike a palette's."""

TINY = 4096
"""Bytes of a file that is not opened only for its header."""


@dataclass(frozen=True)
class PixelSums:
    """Shape [height, width, channels] of an image; for each channel the sum of the values and of their squares."""

    shape: tuple[int, int, int]
    sums: list[int]
    squares: list[int]


def number_of_pixels(payload: object) -> int:
    """Return the number of pixels that an image's header names; 0 of a tiny file, or where it cannot be read."""
    if not isinstance(payload, bytes) or len(payload) <= TINY:
        return 0
    try:
        with Image.open(io.BytesIO(payload)) as image:
            return image.width * image.height
    except BROKEN:
        return 0


def sums(name: str, payload: object, max_pixels: int | None) -> PixelSums:
    """Decode an image and sum over its pixels; raises `Unreadable` for a broken one, and one of too many pixels."""
    try:
        with Image.open(io.BytesIO(payload if isinstance(payload, bytes) else b"")) as image:
            if max_pixels is not None and (count := image.width * image.height) > max_pixels:
                shape = f"{image.width:,} x {image.height:,} = {count:,} pixels"
                raise Unreadable(f"{name}: {shape}; records.max_pixels is {max_pixels:,}")
            colours = "RGBA" if image.has_transparency_data else "RGB"
            return _sums(image, image.mode if image.mode in PIXEL_MODES else colours)
    except BROKEN as error:
        saw = "not an image" if isinstance(error, UnidentifiedImageError) else f"not a whole image: {error}"
        raise Unreadable(f"{name}: {saw}") from error


def _sums(image: Image.Image, mode: str) -> PixelSums:
    """Return the sums over an image after its conversion to a mode."""
    channels = len(Image.new(mode, (1, 1)).getbands())
    levels = 65_536 if mode == "I;16" else 256
    counts = np.zeros((channels, levels), np.int64)
    for _, strip in strips(image):
        counts += _histogram(strip if strip.mode == mode else strip.convert(mode), levels).reshape(channels, levels)
    values = np.arange(levels, dtype=np.int64)
    shape = (image.height, image.width, channels)
    return PixelSums(shape, (counts @ values).tolist(), (counts @ (values * values)).tolist())


def _histogram(strip: Image.Image, levels: int) -> NDArray[np.int64]:
    if levels == 256:
        return np.array(strip.histogram(), np.int64)
    return np.bincount(np.asarray(strip).ravel(), minlength=levels)
