"""Photos on their way to a snapshot: turned, transparent and very large ones, in memory and time."""

from __future__ import annotations

import io
import struct
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.artifacts import Records
from tasks.config import ImageFolderSource, ImageSnapshot, RecordsConfig
from tasks.data import images, records, snapshots
from tasks.data.pixels import sums
from tests.test_convert_image_folder import kinds

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
        return [(images.normalized(content), sums(content, 10**9)) for content in files]

    whole = results()
    monkeypatch.setattr(images, "STRIP", 70)
    assert results() == whole


def test_sixteen_bits_are_summed_without_a_wider_copy_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 65_536, (1500, 1000), np.uint16)
    content = encoded(Image.fromarray(pixels), compress_level=0)
    monkeypatch.setattr(images, "STRIP", 1 << 15)
    tracemalloc.start()
    result = sums(content, 10**9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    wide = pixels.astype(np.int64)
    assert (result.sums, result.squares) == ([int(wide.sum())], [int((wide * wide).sum())])
    assert peak < 2 * pixels.nbytes, "as int64 alone they are 4 times as large"


def test_an_image_that_must_be_turned_is_not_compressed_again() -> None:
    content = turned(300)
    assert len(images.normalized(content)) > 3 * 300 * 300 > 20 * len(content)


def test_pillows_limits_refuse_and_warn_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    for side in (10_000, 20_000):
        small = encoded(Image.new("L", (2, 2)))
        header = struct.pack(">II", side, side) + small[24:29]
        large = small[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + small[33:]
        assert images.is_normal(large)
    assert not recwarn.list


class AtOnce:
    """Counts how many calls of a function run at the same time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.now, self.most, self.mutex = function, 0, 0, threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        with self.mutex:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.05)
        with self.mutex:
            self.now -= 1
        return self.function(*arguments)


@pytest.mark.parametrize(("pixels", "most"), [(64_000_000, 2), (50 * 50, 1)])
def test_turned_images_are_normalised_by_threads_within_a_number_of_pixels(
    pixels: int, most: int, tmp_path: Path, benches: Callable, publish: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(16):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(turned(50))
    bench = benches("records")
    made = publish(Records, bench, records.build(bench, ImageFolderSource(path=str(tmp_path / "photos")), EVEN))
    at_once = AtOnce(images.normalized)
    monkeypatch.setattr("tasks.data.snapshots.image.normalized", at_once)
    monkeypatch.setattr("tasks.data.snapshots.image.PIXELS", pixels)
    snapshots.build(benches("snapshot"), made, ImageSnapshot(height=8, width=8, channels=3))
    assert at_once.most == most
