"""`image`: files of images to pixels of one size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .values import Apply, Unusable, Values

if TYPE_CHECKING:
    from PIL import Image


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to uint8 [rows, height, width, channels]; a missing image is black.

    A `range` in the state has the levels of grey images of more than 8 bits that become 0 and 255.
    """
    from .decoding import BROKEN, flat

    height, width, channels = state["height"], state["width"], state["channels"]
    levels = state.get("range")

    def apply(values: Values) -> NDArray[np.uint8]:
        images = np.zeros((len(values), height, width, channels), np.uint8)
        for row, payload in enumerate(values):
            if not payload:
                continue
            try:
                image = flat(payload, (width, height), levels).convert("L" if channels == 1 else "RGB")
            except BROKEN as error:
                saw = f"{len(payload)} bytes, {str(error).partition(' <')[0]}"
                raise Unusable(row, saw, "must be a whole image file (PNG, JPEG, ...)") from error
            images[row] = np.asarray(fitted(image, height, width, state["fit"])).reshape(height, width, channels)
        return images

    return apply


def fitted(image: Image.Image, height: int, width: int, fit: str) -> Image.Image:
    """Return an image of this size (bilinear, antialiased).

    `stretch` changes its proportions, `crop` keeps the middle, `pad` adds black around it.
    """
    from PIL import Image

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
