"""Raw image files to the model's input, by the same decoder and the same arithmetic as the snapshot stage."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from tasks.errors import Failed

AS_THEY_ARE = {"PNG": {"1", "L", "LA", "P", "RGB", "RGBA", "I;16"}, "JPEG": {"L", "RGB"}}
"""Formats and pixel modes that TensorFlow's decoder reads as Pillow does; all others are written anew as PNG."""
SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
ORIENTATION = 0x0112


def read(path: Path) -> bytes:
    """The file's payload, upright and in a form that every decoder here understands.

    Colour, grey, palette, 1-bit, 16-bit and CMYK images are taken; transparency is dropped, as in training; an
    EXIF orientation is applied.

    Raises:
        Failed: it is no image, or a broken one.
    """
    try:
        payload = path.read_bytes()
        with Image.open(io.BytesIO(payload)) as image:
            image.load()
            upright = image.getexif().get(ORIENTATION, 1) == 1
            if upright and image.mode in AS_THEY_ARE.get(image.format or "", ()):
                return payload
            return _as_png(ImageOps.exif_transpose(image))
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        saw = "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise Failed(str(path), saw, "an input is a whole image file (PNG, JPEG, ...)", "check the file") from error


def prepare(payload: bytes, transform: dict[str, Any], name: str) -> npt.NDArray[np.uint8]:
    """Decode an image and bring it to the snapshot's size: uint8 [height, width, channels].

    Args:
        payload: an encoded image.
        transform: contents of `transform/image.json`.
        name: what to call it in an error.

    Raises:
        Failed: it cannot be decoded.
    """
    import tensorflow as tf

    size = (transform["height"], transform["width"])
    try:
        image = tf.io.decode_image(payload, channels=transform["channels"], expand_animations=False)
    except tf.errors.OpError as error:
        raise Failed(name, error.message, "TensorFlow must be able to decode it", "check the file") from error
    if tuple(image.shape[:2]) != size:
        resized = tf.image.resize(image, size, method="bilinear", antialias=True)
        image = tf.saturate_cast(tf.round(resized), tf.uint8)
    pixels: npt.NDArray[np.uint8] = image.numpy()
    return pixels


def _as_png(image: Image.Image) -> bytes:
    if image.mode in SIXTEEN_BITS:
        # The high byte, as PNG decoders take it.
        image = Image.fromarray((np.clip(np.asarray(image, np.int64), 0, 65_535) >> 8).astype(np.uint8))
    elif image.mode not in ("L", "RGB"):
        image = image.convert("L" if image.mode in ("1", "LA", "La", "F") else "RGB")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
