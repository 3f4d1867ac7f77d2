"""`image`: files of images to pixels of one size, as Pillow reads them: upright, opaque, and of 8 bits."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from .values import Apply, Unusable, Values

SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
DEEP = (*SIXTEEN_BITS, "F")
"""Modes of grey images that may have more than 256 levels; of colour images Pillow keeps the upper 8 bits."""
ORIENTATION = 0x0112
IN_TEXT = (b"eXIf", b"Raw profile type exif", b"XML:com.adobe.xmp")
"""Where a PNG has its orientation: in EXIF, in EXIF as a text, or in XMP."""
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

Range = tuple[float, float]
"""The levels of a deep grey image that become 0 and 255."""


def image(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to uint8 [rows, height, width, channels]; a missing image is black.

    A `range` in the state has the levels of grey images of more than 8 bits that become 0 and 255.
    """
    height, width, channels = state["height"], state["width"], state["channels"]
    levels = state.get("range")

    def apply(values: Values) -> NDArray[np.uint8]:
        images = np.zeros((len(values), height, width, channels), np.uint8)
        for row, payload in enumerate(values):
            if not payload:
                continue
            try:
                decoded = flat(payload, (width, height), levels).convert("L" if channels == 1 else "RGB")
            except BROKEN as error:
                saw = f"{len(payload)} bytes, {str(error).partition(' <')[0]}"
                raise Unusable(row, saw, "must be a whole image file (PNG, JPEG, ...)") from error
            images[row] = np.asarray(fitted(decoded, height, width, state["fit"])).reshape(height, width, channels)
        return images

    return apply


def fitted(image: Image.Image, height: int, width: int, fit: str) -> Image.Image:
    """Return an image of this size (bilinear, antialiased).

    `stretch` changes its proportions, `crop` keeps the middle, `pad` adds black around it.
    """
    bilinear = Image.Resampling.BILINEAR
    if fit == "stretch":
        return image.resize((width, height), bilinear)
    if fit == "crop":
        scale = min(image.width / width, image.height / height)
        left, top = (image.width - width * scale) / 2, (image.height - height * scale) / 2
        box = (
            max(left, 0.0),
            max(top, 0.0),
            min(left + width * scale, image.width),
            min(top + height * scale, image.height),
        )
        return image.resize((width, height), bilinear, box=box)
    scale = min(width / image.width, height / image.height)
    inner = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), bilinear)
    padded = Image.new(image.mode, (width, height))
    padded.paste(inner, ((width - inner.width) // 2, (height - inner.height) // 2))
    return padded


def flat(payload: bytes, size: tuple[int, int] | None = None, levels: Range | None = None) -> Image.Image:
    """Decode an image to mode L or RGB, of its own size, or of one that is `SPARE` times `size` at least.

    The orientation of EXIF or XMP is applied, transparency is composed over white, CMYK becomes RGB. Grey levels of
    more than 8 bits become those from 0 to 255 by `levels`, clipped; without it the upper 8 of 16 bits are kept. Raises
    one of `BROKEN` for a broken image.
    """
    with Image.open(io.BytesIO(payload)) as image:
        turned = orientation(image, payload)
        if size is not None:
            width, height = size if turned < 5 else size[::-1]
            image.draft(None, (SPARE * width, SPARE * height))
        if turned != 1:
            ImageOps.exif_transpose(image, in_place=True)
        hidden = hidden_pixels(image, payload, turned)
        composed = hidden is None and is_transparent(image)
        if hidden is None and not composed and image.mode in ("L", "RGB"):
            image.load()
            return image
        grey = image.mode in ("L", "LA", "La", "1", *DEEP)
        converted = Image.new("L" if grey else "RGB", image.size)
        for top, strip in strips(image):
            opaque = composed_over_white(strip) if composed else strip
            converted.paste(_converted(opaque, converted.mode, levels), (0, top))
        if hidden is not None:
            converted.paste(BACKGROUND[0] if grey else BACKGROUND[:3], mask=hidden)
        return converted


def deep_levels(payload: bytes) -> Iterator[NDArray[Any]]:
    """Yield the levels of a grey image of more than 8 bits in parts, without those that are transparent or no number;
    nothing of another image. Raises one of `BROKEN` for a broken image."""
    with Image.open(io.BytesIO(payload)) as image:
        if image.mode not in DEEP:
            return
        hidden = hidden_pixels(image, payload, 1)
        for top, strip in strips(image):
            values = np.asarray(strip, np.float64)
            taken = np.isfinite(values)
            if hidden is not None:
                taken &= np.asarray(hidden.crop((0, top, image.width, top + strip.height))) == 0
            yield values[taken]


def strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """Yield an image in strips of rows, each with the number of its first row."""
    rows = max(1, STRIP // image.width)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def orientation(image: Image.Image, payload: bytes) -> int:
    """Return the orientation by EXIF, or else by XMP; 1 where it is broken.

    A PNG may have it after the pixels, which Pillow would decode to find it.
    """
    if image.format == "PNG" and not any(name in payload for name in IN_TEXT):
        return 1
    try:
        found = image.getexif().get(ORIENTATION, 1)
    except BROKEN:
        return 1
    return found if isinstance(found, int) else 1


def is_transparent(image: Image.Image) -> bool:
    """Return whether an image has transparency; a BMP whose alpha is 0 everywhere has none, as programs leave it."""
    if image.format == "BMP" and image.mode == "RGBA":
        return image.getchannel("A").getextrema() != (0, 0)
    return bool(image.has_transparency_data)


def hidden_pixels(image: Image.Image, payload: bytes, turned: int) -> Image.Image | None:
    """Return a mask of the pixels of an upright image that have its one transparent level or colour (tRNS of a PNG);
    None of an image without one. Pillow would compare it with pixels that are scaled, or cut, to 8 bits."""
    level = image.info.get("transparency")
    if image.format != "PNG" or image.mode not in ("1", "L", "I;16", "RGB") or not isinstance(level, int | tuple):
        return None
    depth = payload[24]  # the bit depth of its header
    stored: NDArray[Any] = np.asarray(image)
    if image.mode == "1":
        return _mask(np.equal(stored, bool(level)))
    if isinstance(level, int):
        scale = 255 // ((1 << depth) - 1) if depth < 8 else 1
        return _mask(stored == (level & ((1 << depth) - 1)) * scale)
    colour = np.array(level)
    if depth == 8:
        return _mask((stored == colour & 255).all(axis=-1))
    return _mask((stored == colour >> 8).all(axis=-1) & (_lower_bytes(payload, turned) == colour & 255).all(axis=-1))


def composed_over_white(strip: Image.Image) -> Image.Image:
    """Return a transparent image over the background."""
    return Image.alpha_composite(Image.new("RGBA", strip.size, BACKGROUND), strip.convert("RGBA"))


def _mask(hidden: NDArray[np.bool_]) -> Image.Image:
    return Image.fromarray(hidden.astype(np.uint8) * 255)


def _lower_bytes(payload: bytes, turned: int) -> NDArray[np.uint8]:
    """Return the lower bytes of a PNG of 16-bit colours, upright: read with the bytes exchanged."""
    with Image.open(io.BytesIO(payload)) as image:
        image.tile = [tile._replace(args="RGB;16L") for tile in image.tile]
        if turned != 1:
            ImageOps.exif_transpose(image, in_place=True)
        return np.asarray(image)


def _converted(strip: Image.Image, mode: str, levels: Range | None) -> Image.Image:
    if strip.mode in DEEP and levels is not None:
        low, high = levels
        share = (np.nan_to_num(np.asarray(strip, np.float64), nan=low) - low) / (high - low)
        return Image.fromarray(np.rint(np.clip(share, 0, 1) * 255).astype(np.uint8))
    if strip.mode in SIXTEEN_BITS:
        # The high byte, as in PNG decoders.
        return Image.fromarray((np.clip(np.asarray(strip, np.int64), 0, 65_535) >> 8).astype(np.uint8))
    return strip.convert(mode)
