"""Photos on their way to a snapshot: turned, transparent and very large ones, in memory and time."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.reader import image as reading
from tasks.records.column_types.media import NotAnImage, pixel_sums
from tasks.records.config import RecordsConfig
from tests.support.raw_data import kinds

EVEN = RecordsConfig(splits={"train": 0.4, "validation": 0.3, "test": 0.3}, shards=1, duplicates="keep")


def encoded(image: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, **({"format": "PNG"} | options))
    return buffer.getvalue()


def turned(side: int) -> bytes:
    """A JPEG of one colour whose EXIF says that a viewer must turn it."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(Image.new("RGB", (side, side), (200, 90, 20)), format="JPEG", exif=exif)


def test_strips_change_no_pixel(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).integers(0, 65_536, (40, 30), np.uint16)
    files = [
        encoded(image, **{"format": "PNG" if name.endswith("png") else "JPEG"} | options)
        for name, (image, options) in kinds().items()
    ]
    files += [encoded(Image.fromarray(noise)), encoded(Image.fromarray(noise), transparency=int(noise[0, 0]))]

    def results() -> list[tuple[Any, Any]]:
        return [(reading.flat(content, (1 << 20, 1 << 20)).tobytes(), pixel_sums(content, 10**9)) for content in files]

    whole = results()
    monkeypatch.setattr(reading, "STRIP", 70)
    assert results() == whole


def test_sixteen_bits_are_summed_without_a_wider_copy_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 65_536, (1500, 1000), np.uint16)
    content = encoded(Image.fromarray(pixels), compress_level=0)
    monkeypatch.setattr(reading, "STRIP", 1 << 15)
    tracemalloc.start()
    result = pixel_sums(content, 10**9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    wide = pixels.astype(np.int64)
    assert (result.sums, result.squares) == ([int(wide.sum())], [int((wide * wide).sum())])
    assert peak < 2 * pixels.nbytes, "as int64 alone they are 4 times as large"


def test_pillows_limits_refuse_and_warn_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    for side in (10_000, 20_000):
        small = encoded(Image.new("L", (2, 2)))
        header = struct.pack(">II", side, side) + small[24:29]
        large = small[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + small[33:]
        with pytest.raises(NotAnImage, match="pixels; records.max_pixels"):
            pixel_sums(large, 64_000_000)
    assert not recwarn.list
