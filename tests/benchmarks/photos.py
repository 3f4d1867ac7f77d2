"""`convert` of photos against decoding each once with Pillow: 20 JPEGs of 12 megapixels, and 4 PNGs of 60.

The memory is what the process has more at its peak than before; Pillow holds 4 bytes for a pixel.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

from tasks.config import ImageFolderSource, RecordsConfig
from tasks.data import records
from tasks.processes.workbench import Workbench
from tasks.store.staging import Staging
from tests.benchmarks.pairs import compare

SPLITS = ("train", "validation", "test")
CONFIG = RecordsConfig(splits="official", official={split: (split,) for split in SPLITS}, shards=1)
SETS = {"jpg": (20, 4000, 3000), "png": (4, 8000, 7500)}


def photo(number: int, width: int, height: int) -> Image.Image:
    """Smooth colours with some noise."""
    random = np.random.default_rng(number)
    colours = Image.fromarray(random.integers(0, 240, (height // 16, width // 16, 3), np.uint8))
    smooth = np.asarray(colours.resize((width, height), Image.Resampling.BICUBIC))
    return Image.fromarray(
        np.minimum(smooth.astype(np.uint16) + random.integers(0, 12, smooth.shape), 255).astype("u1")
    )


def write(folder: Path, suffix: str, count: int, width: int, height: int) -> None:
    for number in range(count):
        path = folder / SPLITS[number % 3] / f"class{number % 2}" / f"{number}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(number, width, height).save(path, quality=90, compress_level=1)


def decode(folder: Path) -> None:
    for path in folder.rglob("*.*"):
        with Image.open(path) as image:
            image.load()


def convert(folder: Path, root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    lock = root.with_name("lock")
    lock.write_text(json.dumps({"token": 1}))
    nothing = lambda *_, **__: None  # noqa: E731
    threads = len(psutil.Process().cpu_affinity())
    bench = Workbench(Staging(root, lock, 1), None, nothing, nothing, lambda: 0, threads=threads)  # type: ignore[arg-type]
    records.build(bench, ImageFolderSource(path=str(folder), split_folders=True), CONFIG)


@contextmanager
def peak() -> Iterator[list[int]]:
    """Measure the largest resident memory within the block, above that before it."""
    process, over, most = psutil.Process(), threading.Event(), [0]
    before = process.memory_info().rss

    def watch() -> None:
        while not over.wait(0.005):
            most[0] = max(most[0], process.memory_info().rss - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def measure(place: Path, suffix: str, count: int, width: int, height: int) -> None:
    """Print the memory and the time for a set of photos."""
    folder, root = place / suffix, place / "records"
    write(folder, suffix, count, width, height)
    with peak() as most:
        convert(folder, root)
    size = 4 * width * height
    print(f"{suffix}: peak +{most[0] / 2**20:.0f} MiB = {most[0] / size:.2f} decoded images of {size / 2**20:.0f} MiB")
    ways = {"decode by Pillow": lambda: decode(folder), "convert": lambda: convert(folder, root)}
    compare(f"convert {count} {suffix} of {width * height / 1e6:.0f} megapixels", ways, rounds=5)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        for name, (images, across, down) in SETS.items():
            measure(Path(temporary), name, images, across, down)
