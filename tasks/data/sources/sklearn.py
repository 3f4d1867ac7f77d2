"""Data sets that ship inside the scikit-learn package, read from its files: the package itself is not imported."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from tasks.config import SklearnSource
from tasks.data.features import Example, Feature
from tasks.data.sources import Item, Source, Unreadable
from tasks.errors import Failed, Refused

SIDE, LEVELS, CLASSES = 8, 16, 10


def open(config: SklearnSource, memory: Path | None = None) -> Source:
    """The data set named by `config.dataset`; too small for a memory."""
    spec = find_spec("sklearn")
    path = Path(spec.origin).parent / "datasets/data/digits.csv.gz" if spec and spec.origin else Path("sklearn")
    if not path.is_file():
        raise Refused("source.kind", config.kind, "needs the package scikit-learn", "pip install scikit-learn")
    return Digits(path)


class Digits(Source):
    """Handwritten digits: one CSV row of 64 grey levels from 0 to 16 and a label per item.

    Gives `image`, PNG of uint8 [8, 8, 1], grey level v as round(v * 255 / 16), and `label`, 0 to 9.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def features(self) -> Mapping[str, Feature]:
        return {
            "image": Feature("image", "uint8", (SIDE, SIDE, 1), encoding="png"),
            "label": Feature("label", "int64", classes=tuple(str(digit) for digit in range(CLASSES))),
        }

    def listing(self) -> list[Item]:
        return [Item(f"digits/{number:05d}", _sha256(row)) for number, row in enumerate(self._load())]

    def read(self, item: Item) -> Example:
        row = self._rows[int(item.key.rpartition("/")[2])]
        if _sha256(row) != item.sha256:
            raise Failed(
                item.key, "other content than was listed", "a source must not change while it is read", "rerun"
            )
        try:
            values = np.array(row.split(b","), dtype=np.float64)
        except ValueError as error:
            raise Unreadable(f"not a row of numbers: {error}") from error
        if values.shape != (SIDE * SIDE + 1,):
            raise Unreadable(f"{len(values)} fields, not {SIDE * SIDE + 1}")
        levels, label = values[:-1], values[-1]
        if not ((levels >= 0) & (levels <= LEVELS)).all() or label not in range(CLASSES):
            raise Unreadable(f"grey levels outside 0..{LEVELS} or a label outside 0..{CLASSES - 1}")
        pixels = np.rint(levels * (255 / LEVELS)).astype(np.uint8).reshape(SIDE, SIDE)
        payload = io.BytesIO()
        # Stored, not deflated: what deflate makes of 72 bytes differs between builds of zlib.
        Image.fromarray(pixels).save(payload, format="PNG", compress_level=0)
        return {"image": payload.getvalue(), "label": int(label)}

    @cached_property
    def _rows(self) -> list[bytes]:
        return self._load()

    def _load(self) -> list[bytes]:
        return gzip.decompress(self._path.read_bytes()).splitlines()


def _sha256(row: bytes) -> str:
    return hashlib.sha256(row).hexdigest()
