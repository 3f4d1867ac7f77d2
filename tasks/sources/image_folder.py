"""A folder of images for each class, perhaps in a folder for each split: JPEG and PNG are not re-encoded, nor TIFF of
more than 8 bits."""

from __future__ import annotations

import io

from PIL import Image

from tasks.reader.decoding import BROKEN, DEEP, flat
from tasks.sources.class_folders import ClassFolders
from tasks.sources.features import Feature

KEPT = (".jpg", ".jpeg", ".jfif", ".png")
SUFFIXES = (*KEPT, ".gif", ".webp", ".bmp", ".tif", ".tiff")
WHOLE = (1 << 20, 1 << 20)
"""A size from which no image is made smaller when it is decoded."""


def is_image(name: str) -> bool:
    """Return whether a file name is that of an image."""
    return name.lower().endswith(SUFFIXES)


class ImageFolder(ClassFolders):
    """Has the features `image`, the bytes of a JPEG or PNG file (other kinds as PNG, but for TIFF of more than 8 bits),
    and `label`."""

    name, noun = "image", "an image"
    feature = Feature("image", "uint8", (-1, -1, -1))
    accepts = staticmethod(is_image)

    def content(self, path: str, octets: bytes) -> bytes:
        """Return the bytes of a JPEG or PNG file, or of a TIFF of more than 8 bits; of a GIF the first frame."""
        if path.lower().endswith(KEPT):
            return octets
        try:
            with Image.open(io.BytesIO(octets)) as image:
                if image.mode in DEEP:
                    return octets
            png = io.BytesIO()
            flat(octets, WHOLE).save(png, "PNG", compress_level=0)  # whose bytes do not depend on the build of zlib
            return png.getvalue()
        except BROKEN:
            return octets  # which is found not to be an image
