"""Image files to pixels as Pillow reads them, upright, opaque, and of 8 bits."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
ORIENTATION = 0x0112
BACKGROUND = (255, 255, 255, 255)
"""Background of transparent pixels, in place of their stored colour."""

BROKEN = (
    *(UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError),
    *(EOFError, LookupError, ArithmeticError, struct.error),
)
"""What Pillow raises for a file that is not an image, or not a complete one, or too large."""

SPARE = 2
"""A JPEG is decoded at a half, a quarter or an eighth of its size where that is still so many times the wanted one."""

STRIP = 1 << 20
"""Pixels that are converted at the same time, at most, or one row."""


def flat(payload: bytes, size: tuple[int, int] | None = None) -> Image.Image:
    """Decode an image to mode L or RGB, of its own size, or of one that is `SPARE` times `size` at least.

    EXIF orientation is applied, transparency is composed over white, CMYK becomes RGB, and 16 bits the upper 8. Raises
    one of `BROKEN` for a broken image.
    """
    with Image.open(io.BytesIO(payload)) as image:
        transparent = image.has_transparency_data
        turned = orientation(image, payload)
        if size is not None:
            width, height = size if turned < 5 else size[::-1]
            image.draft(None, (SPARE * width, SPARE * height))
        if turned != 1:
            ImageOps.exif_transpose(image, in_place=True)
        image.load()
        if not transparent and image.mode in ("L", "RGB"):
            return image
        grey = ("1", "L", "LA", "La") if transparent else ("1", "F", *SIXTEEN_BITS)
        converted = Image.new("L" if image.mode in grey else "RGB", image.size)
        for top, strip in strips(image):
            converted.paste(_converted(strip, converted.mode, transparent), (0, top))
        return converted


def strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """Yield an image in strips of rows, each with the number of its first row."""
    rows = max(1, STRIP // image.width)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def orientation(image: Image.Image, payload: bytes) -> int:
    """Return the EXIF orientation, 1 where it is broken.

    A PNG may have it after the pixels, which Pillow would decode to find it.
    """
    if image.format == "PNG" and b"eXIf" not in payload and b"Raw profile type exif" not in payload:
        return 1
    try:
        found = image.getexif().get(ORIENTATION, 1)
    except BROKEN:
        return 1
    return found if isinstance(found, int) else 1


def _converted(strip: Image.Image, mode: str, transparent: bool) -> Image.Image:
    if transparent:
        background = Image.new("RGBA", strip.size, BACKGROUND)
        return Image.alpha_composite(background, strip.convert("RGBA")).convert(mode)
    if strip.mode in SIXTEEN_BITS:
        # The high byte, as in PNG decoders.
        return Image.fromarray((np.clip(np.asarray(strip, np.int64), 0, 65_535) >> 8).astype(np.uint8))
    return strip.convert(mode)
