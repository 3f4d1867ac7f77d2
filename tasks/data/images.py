"""Encoded images to the model's input: one way for training, for serving and for a champion that is scored anew.

TensorFlow is imported inside functions.
"""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from tasks.errors import Failed

if TYPE_CHECKING:
    import tensorflow as tf

AS_THEY_ARE = {"PNG": {"1", "L", "P", "RGB", "I;16"}, "JPEG": {"L", "RGB"}}
"""Formats and pixel modes that TensorFlow's decoder reads as Pillow does; all others are written anew as PNG."""
SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
ORIENTATION = 0x0112
PAPER = (255, 255, 255, 255)
"""What lies behind transparent pixels: what a viewer shows, and not the colour that happens to be stored there."""

BROKEN = (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError)
"""What Pillow raises for a file that is no image, or not a whole one."""


def read(path: Path) -> bytes:
    """An image file's bytes, found to be a whole image; raises `Failed` if they are not."""
    try:
        payload = path.read_bytes()
        with Image.open(io.BytesIO(payload)) as image:
            image.load()
        return payload
    except BROKEN as error:
        raise _failed(str(path), error) from error


def upright(payload: bytes) -> bytes:
    """The image in a form that TensorFlow's decoder reads as it is meant; most are passed on untouched.

    An EXIF orientation is applied, transparency is laid over white, CMYK becomes RGB, 16 bits the upper 8, and formats
    other than PNG and JPEG become PNG. Raises what Pillow raises for a broken one.
    """
    with Image.open(io.BytesIO(payload)) as image:
        turned = _orientation(image, payload) != 1
        clear = image.has_transparency_data
        if not turned and not clear and image.mode in AS_THEY_ARE.get(image.format or "", ()):
            return payload
        return _as_png(ImageOps.exif_transpose(image) if turned else image, clear)


def prepare(payload: bytes, transform: dict[str, Any], name: str) -> npt.NDArray[np.uint8]:
    """Decode an image and bring it to the snapshot's size: uint8 [height, width, channels].

    `transform`: contents of `transform/image.json`; `name`: what to call the image in an error. Raises `Failed` where
    it cannot be decoded.
    """
    import tensorflow as tf

    try:
        shape = (transform["height"], transform["width"], transform["channels"])
        pixels: npt.NDArray[np.uint8] = decode(tf.constant(upright(payload)), shape).numpy()
        return pixels
    except (*BROKEN, tf.errors.OpError) as error:
        raise _failed(name, error) from error


def decode(payload: tf.Tensor, shape: tuple[int, int, int]) -> tf.Tensor:
    """An upright image as uint8 [height, width, channels]: bilinear, antialiased; in a pipeline or by itself."""
    import tensorflow as tf

    image = tf.io.decode_image(payload, channels=shape[2], expand_animations=False)
    image.set_shape([None, None, shape[2]])

    def resized() -> tf.Tensor:
        pixels = tf.image.resize(image, shape[:2], method="bilinear", antialias=True)
        return tf.saturate_cast(tf.round(pixels), tf.uint8)

    # An image of the right size is passed on as it is: what is exact stays exact.
    image = tf.cond(tf.reduce_all(tf.shape(image)[:2] == shape[:2]), lambda: image, resized)
    return tf.ensure_shape(image, shape)


def _failed(name: str, error: Exception) -> Failed:
    saw = "not an image" if isinstance(error, UnidentifiedImageError) else str(error).splitlines()[0]
    return Failed(name, saw, "an input is a whole image file (PNG, JPEG, ...)", "check the file")


def _orientation(image: Image.Image, payload: bytes) -> int:
    """As EXIF has it; what is broken there says nothing.

    A PNG may say it after its pixels, so Pillow would decode all of them to look.
    """
    if image.format == "PNG" and b"eXIf" not in payload and b"Raw profile type exif" not in payload:
        return 1
    try:
        found = image.getexif().get(ORIENTATION, 1)
    except (*BROKEN, LookupError, struct.error):
        return 1
    return found if isinstance(found, int) else 1


def _as_png(image: Image.Image, clear: bool) -> bytes:
    if clear:
        colour = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, PAPER)
        image = Image.alpha_composite(paper, colour).convert("L" if image.mode in ("1", "L", "LA", "La") else "RGB")
    elif image.mode in SIXTEEN_BITS:
        # The high byte, as PNG decoders take it.
        image = Image.fromarray((np.clip(np.asarray(image, np.int64), 0, 65_535) >> 8).astype(np.uint8))
    elif image.mode not in ("L", "RGB"):
        image = image.convert("L" if image.mode in ("1", "F") else "RGB")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
