"""`convert` of photos: of large ones against decoding each once with Pillow, of many against TFDS with a generator.

    python -m tests.benchmarks.photos [large | many]

Large are 20 JPEGs of 12 megapixels, and 4 PNGs of 60. Their memory is what the process has more at its peak than
before; Pillow holds 4 bytes for a pixel. Many are 20,000 JPEGs of 256 x 192 pixels. A generator for TFDS'
`download_and_prepare` may yield their paths, and TFDS copies the files without looking into them, or arrays, which it
encodes again; `convert` decodes each file to check it, and keeps its bytes.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from PIL import Image

from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.sources.kinds.folders import ImageFolderSource
from tasks.store.staging import Staging
from tests.benchmarks.pairs import compare

SPLITS = ("train", "validation", "test")
CONFIG = RecordsConfig(splits="official", official={split: (split,) for split in SPLITS}, shards=1)
MANY, CLASSES = 20_000, 10
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


def convert(source: ImageFolderSource, config: RecordsConfig, root: Path) -> None:
    """Convert as `millrace run dataset` does, on all cores."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    lock = root.with_name("lock")
    lock.write_text(json.dumps({"token": 1}))
    nothing = lambda *_, **__: None  # noqa: E731
    threads = len(psutil.Process().cpu_affinity())
    bench = Workbench(Staging(root, lock, 1), None, nothing, nothing, lambda: 0, threads=threads)  # type: ignore[arg-type]
    conversion.build(bench, source, config)


def by_tfds(folder: Path, root: Path, read: Callable[[Path], Any]) -> None:
    """Convert by `download_and_prepare` over a generator of classes and of what `read` returns of a path."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core import registered

    shutil.rmtree(root, ignore_errors=True)
    paths = sorted(folder.rglob("*.jpg"))

    with registered.skip_registration():  # it is defined in each round

        class Photos(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.0.0")

            def _info(self) -> Any:
                label = tfds.features.ClassLabel(names=[f"class{number}" for number in range(CLASSES)])
                features = tfds.features.FeaturesDict({"image": tfds.features.Image(), "label": label})
                return tfds.core.DatasetInfo(builder=self, features=features)

            def _split_generators(self, dl_manager: Any) -> Any:
                return {"train": self._generate_examples()}

            def _generate_examples(self) -> Any:
                for path in paths:
                    yield path.relative_to(folder).as_posix(), {"image": read(path), "label": path.parent.name}

    Photos(data_dir=str(root)).download_and_prepare()


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


def pixels(path: Path) -> Any:
    """Return a decoded image."""
    with Image.open(path) as image:
        return np.asarray(image)


def many(place: Path, count: int = MANY) -> None:
    """Print the speed for many small photos."""
    folder = place / "many"
    for number in range(count):
        path = folder / f"class{number % CLASSES}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(number, 256, 192).save(path, quality=90)
    source = ImageFolderSource(path=str(folder))
    ways = {
        "TFDS generator of paths": partial(by_tfds, folder, place / "tfds", str),
        "TFDS generator of arrays": partial(by_tfds, folder, place / "tfds", pixels),
        "convert": partial(convert, source, RecordsConfig(), place / "records"),
    }
    compare(f"convert {count:,} JPEGs of 256 x 192 pixels", ways, rounds=5)


def large(place: Path) -> None:
    """Print memory and time for each set of large photos."""
    for name, (images, across, down) in SETS.items():
        measure(place, name, images, across, down)


def measure(place: Path, suffix: str, count: int, width: int, height: int) -> None:
    """Print the memory and the time for a set of photos."""
    folder, root = place / suffix, place / "records"
    write(folder, suffix, count, width, height)
    whole = partial(convert, ImageFolderSource(path=str(folder), split_folders=True), CONFIG, root)
    with peak() as most:
        whole()
    size = 4 * width * height
    print(f"{suffix}: peak +{most[0] / 2**20:.0f} MiB = {most[0] / size:.2f} decoded images of {size / 2**20:.0f} MiB")
    ways = {"decode by Pillow": lambda: decode(folder), "convert": whole}
    compare(f"convert {count} {suffix} of {width * height / 1e6:.0f} megapixels", ways, rounds=5)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ["large", "many"]:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as temporary:
            {"large": large, "many": many}[chosen](Path(temporary))
