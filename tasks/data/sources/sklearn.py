"""Data sets of the scikit-learn package, read from its files without importing it."""

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
    """Open the data set `config.dataset`; `memory` is not used."""
    spec = find_spec("sklearn")
    folder = Path(spec.origin).parent / "datasets/data" if spec and spec.origin else Path("sklearn")
    if not folder.is_dir():
        raise Refused("source.kind", config.kind, "needs the package scikit-learn", "pip install scikit-learn")
    if config.dataset == "diabetes":
        return Diabetes(folder)
    path = folder / "digits.csv.gz"
    return DigitsTraits(path) if config.dataset == "digits_traits" else Digits(path)


class Digits(Source):
    """Handwritten digits: one CSV row of 64 grey levels from 0 to 16 and a label per item.

    Has the features `image`, PNG of uint8 [8, 8, 1], grey level v as round(v * 255 / 16), and `label`, 0 to 9.
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
        return [
            Item(f"digits/{number:05d}", _sha256(row), unlabelled=_sha256(row.rpartition(b",")[0]))
            for number, row in enumerate(self._load())
        ]

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
        # Not compressed, as the output of deflate differs between builds of zlib.
        Image.fromarray(pixels).save(payload, format="PNG", compress_level=0)
        return {"image": payload.getvalue(), "label": int(label)}

    @cached_property
    def _rows(self) -> list[bytes]:
        return self._load()

    def _load(self) -> list[bytes]:
        return gzip.decompress(self._path.read_bytes()).splitlines()


class DigitsTraits(Digits):
    """The digits with `target`, float32 [3], in place of the label: 1 where the digit has the trait, else 0."""

    TRAITS: Mapping[str, frozenset[int]] = {
        "even": frozenset({0, 2, 4, 6, 8}),
        "at_least_five": frozenset({5, 6, 7, 8, 9}),
        "closed_loop": frozenset({0, 6, 8, 9}),
    }

    @property
    def features(self) -> Mapping[str, Feature]:
        target = Feature("number", "float32", (len(self.TRAITS),), classes=tuple(self.TRAITS))
        return {"image": super().features["image"], "target": target}

    def read(self, item: Item) -> Example:
        example = super().read(item)
        label = example.pop("label")
        return {**example, "target": np.array([label in digits for digits in self.TRAITS.values()], np.float32)}


class Diabetes(Source):
    """442 patients (Efron et al., Annals of Statistics 32, 2004): `numbers` float32 [10], `target` float32 [1]."""

    COLUMNS = ("age", "sex", "body_mass", "blood_pressure", "tc", "ldl", "hdl", "tch", "ltg", "glucose")

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def features(self) -> Mapping[str, Feature]:
        return {
            "numbers": Feature("number", "float32", (len(self.COLUMNS),), classes=self.COLUMNS),
            "target": Feature("number", "float32", (1,), classes=("progression",)),
        }

    def listing(self) -> list[Item]:
        return [
            Item(f"diabetes/{number:05d}", _sha256(row), unlabelled=_sha256(row.rpartition(b" ")[0]))
            for number, row in enumerate(self._load())
        ]

    def read(self, item: Item) -> Example:
        row = self._rows[int(item.key.rpartition("/")[2])]
        if _sha256(row) != item.sha256:
            rule = "a source must not change while it is read"
            raise Failed(item.key, "other content than was listed", rule, "rerun")
        try:
            values = np.array(row.split(), dtype=np.float32)
        except ValueError as error:
            raise Unreadable(f"not a row of numbers: {error}") from error
        if values.shape != (len(self.COLUMNS) + 1,):
            raise Unreadable(f"{len(values)} fields, not {len(self.COLUMNS) + 1}")
        return {"numbers": values[:-1], "target": values[-1:]}

    @cached_property
    def _rows(self) -> list[bytes]:
        return self._load()

    def _load(self) -> list[bytes]:
        files = (self._folder / "diabetes_data_raw.csv.gz", self._folder / "diabetes_target.csv.gz")
        numbers, targets = (gzip.decompress(file.read_bytes()).splitlines() for file in files)
        return [row + b" " + target for row, target in zip(numbers, targets, strict=True)]


def _sha256(row: bytes) -> str:
    return hashlib.sha256(row).hexdigest()
