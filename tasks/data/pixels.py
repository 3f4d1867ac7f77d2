"""Sums over the pixels of an encoded image, for the statistics of records.

Pillow holds 4 bytes for a pixel of a decoded colour image; no second copy of it is made.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from tasks.data.images import BROKEN
from tasks.data.sources import Unreadable

EIGHT_BITS = ("L", "LA", "RGB", "RGBA")
SIXTEEN_BITS = "I;16"
"""Pillow modes whose values are pixels, unlike a palette's."""

TINY = 4096
"""Bytes of a file that is not opened only for its header."""

STRIP = 1 << 20
"""Pixels that are widened for sums at the same time."""


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
            known = image.mode in (*EIGHT_BITS, SIXTEEN_BITS)
            return _sums(image if known else image.convert(colours))
    except BROKEN as error:
        saw = "not an image" if isinstance(error, UnidentifiedImageError) else f"not a whole image: {error}"
        raise Unreadable(f"{name}: {saw}") from error


def _sums(image: Image.Image) -> PixelSums:
    channels = len(image.getbands())
    shape = (image.height, image.width, channels)
    if image.mode == SIXTEEN_BITS:
        rows = np.asarray(image)
        strips = np.array_split(rows, max(1, rows.size // STRIP))
        widened = [strip.astype(np.int64) for strip in strips]
        return PixelSums(shape, [sum(int(s.sum()) for s in widened)], [sum(int((s * s).sum()) for s in widened)])
    counts: NDArray[np.int64] = np.array(image.histogram(), np.int64).reshape(channels, 256)
    values = np.arange(256, dtype=np.int64)
    return PixelSums(shape, (counts @ values).tolist(), (counts @ (values * values)).tolist())
