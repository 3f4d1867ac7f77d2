"""Preprocessing of encoded images to the model's input, shared by training, serving and the scoring of a champion.

TensorFlow is imported inside functions.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from tasks.errors import Failed

if TYPE_CHECKING:
    import tensorflow as tf

PASSED_THROUGH = {"PNG": {"1", "L", "P", "RGB", "I;16"}, "JPEG": {"L", "RGB"}}
"""Formats and pixel modes that TensorFlow decodes as Pillow does; all others are re-encoded as PNG."""
SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
ORIENTATION = 0x0112
BACKGROUND = (255, 255, 255, 255)
"""Background of transparent pixels, in place of their stored colour."""

BROKEN = (UnidentifiedImageError, OSError, SyntaxError, ValueError)
"""What Pillow raises for a file that is not an image, or not a complete one."""

STRIP = 1 << 20
"""Pixels that are converted at the same time, at most, or one row."""

Image.MAX_IMAGE_PIXELS = None  # `records.max_pixels` is the limit


def read(path: Path) -> bytes:
    """Read an image file's bytes; raises `Failed` where they are not a complete image."""
    try:
        payload = path.read_bytes()
        with Image.open(io.BytesIO(payload)) as image:
            image.load()
        return payload
    except BROKEN as error:
        raise _failed(str(path), error) from error


def is_normal(payload: bytes) -> bool:
    """Return whether TensorFlow decodes the image as Pillow does; raises one of `BROKEN` for a broken header."""
    with Image.open(io.BytesIO(payload)) as image:
        known = image.mode in PASSED_THROUGH.get(image.format or "", ())
        return known and not image.has_transparency_data and _orientation(image, payload) == 1


def normalized(payload: bytes) -> bytes:
    """Return the image in an encoding that TensorFlow decodes as Pillow does; most images are returned unchanged.

    EXIF orientation is applied, transparency is composed over white, CMYK becomes RGB, 16 bits become the upper 8, and
    formats other than PNG and JPEG become PNG. Raises one of `BROKEN` for a broken image.
    """
    if is_normal(payload):
        return payload
    with Image.open(io.BytesIO(payload)) as image:
        transparent = image.has_transparency_data
        if _orientation(image, payload) != 1:
            ImageOps.exif_transpose(image, in_place=True)
        return _as_png(image, transparent)


def as_png(payload: bytes) -> bytes:
    """Return any image, the first frame of several, as a PNG that TensorFlow decodes as Pillow does.

    Raises one of `BROKEN` for a broken image.
    """
    with Image.open(io.BytesIO(payload)) as image:
        image.load()
        return _as_png(image, image.has_transparency_data)


def strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """Yield an image in strips of rows, each with the number of its first row."""
    rows = max(1, STRIP // image.width)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def prepare(payload: bytes, transform: dict[str, Any], name: str) -> npt.NDArray[np.uint8]:
    """Decode an image and resize it to the snapshot's size: uint8 [height, width, channels].

    Args:
        transform: contents of `transform/image.json`.
        name: the image's name in an error.

    Raises:
        Failed: it cannot be decoded.
    """
    import tensorflow as tf

    try:
        shape = (transform["height"], transform["width"], transform["channels"])
        pixels: npt.NDArray[np.uint8] = decode(tf.constant(normalized(payload)), shape).numpy()
        return pixels
    except (*BROKEN, tf.errors.OpError) as error:
        raise _failed(name, error) from error


def decode(payload: tf.Tensor, shape: tuple[int, int, int]) -> tf.Tensor:
    """Decode a normalised image and resize it (bilinear, antialiased): uint8 [height, width, channels]."""
    import tensorflow as tf

    image = tf.io.decode_image(payload, channels=shape[2], expand_animations=False)
    image.set_shape([None, None, shape[2]])

    def resized() -> tf.Tensor:
        pixels = tf.image.resize(image, shape[:2], method="bilinear", antialias=True)
        return tf.saturate_cast(tf.round(pixels), tf.uint8)

    # An image of this size is not resized, so that its pixels stay exact.
    image = tf.cond(tf.reduce_all(tf.shape(image)[:2] == shape[:2]), lambda: image, resized)
    return tf.ensure_shape(image, shape)


def _failed(name: str, error: Exception) -> Failed:
    saw = "not an image" if isinstance(error, UnidentifiedImageError) else str(error).splitlines()[0]
    return Failed(name, saw, "an input is a whole image file (PNG, JPEG, ...)", "check the file")


def _orientation(image: Image.Image, payload: bytes) -> int:
    """Return the EXIF orientation, 1 where it is broken.

    A PNG may have it after the pixels, which Pillow would decode to find it.
    """
    if image.format == "PNG" and b"eXIf" not in payload and b"Raw profile type exif" not in payload:
        return 1
    try:
        orientation = image.getexif().get(ORIENTATION, 1)
    except (*BROKEN, LookupError, struct.error):
        return 1
    return orientation if isinstance(orientation, int) else 1


def _as_png(image: Image.Image, transparent: bool) -> bytes:
    """Return a PNG of mode L or RGB, not compressed, as it is decoded at once."""
    if transparent or image.mode not in ("L", "RGB"):
        grey = ("1", "L", "LA", "La") if transparent else ("1", "F", *SIXTEEN_BITS)
        converted = Image.new("L" if image.mode in grey else "RGB", image.size)
        for top, strip in strips(image):
            converted.paste(_converted(strip, converted.mode, transparent), (0, top))
        image = converted
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=0)
    return buffer.getvalue()


def _converted(strip: Image.Image, mode: str, transparent: bool) -> Image.Image:
    if transparent:
        background = Image.new("RGBA", strip.size, BACKGROUND)
        return Image.alpha_composite(background, strip.convert("RGBA")).convert(mode)
    if strip.mode in SIXTEEN_BITS:
        # The high byte, as in PNG decoders.
        return Image.fromarray((np.clip(np.asarray(strip, np.int64), 0, 65_535) >> 8).astype(np.uint8))
    return strip.convert(mode)
