"""Data sets of the scikit-learn package, read from its files without importing it."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from tasks.errors import Refused
from tasks.sources import Bad, Partition, Rows, Source
from tasks.sources.features import Feature

SIDE, LEVELS, CLASSES = 8, 16, 10
TARGET = Feature("number", "float32", role="target")


def open(dataset: str) -> Source:
    """Open a data set by its name in `source.dataset`."""
    spec = find_spec("sklearn")
    folder = Path(spec.origin).parent / "datasets/data" if spec and spec.origin else Path("sklearn")
    if not folder.is_dir():
        raise Refused("source.kind", "sklearn", "needs the package scikit-learn", "pip install scikit-learn")
    if dataset == "diabetes":
        return Diabetes(folder)
    path = folder / "digits.csv.gz"
    return DigitsTraits(path) if dataset == "digits_traits" else Digits(path)


class Packaged(Source):
    """Rows of text that are one small partition; a key is the data set's name and the row's number."""

    name: str

    def fingerprint(self) -> list[tuple[str, str]]:
        return [(self._key(number), hashlib.sha256(row).hexdigest()) for number, row in enumerate(self._load())]

    def partitions(self) -> list[Partition]:
        return [Partition(self.name, sum(map(len, self._load())), ())]

    def read(self, partition: Partition) -> Iterator[Rows]:
        examples, bad = dict[str, dict[str, Any]](), list[Bad]()
        for number, row in enumerate(self._load()):
            key = self._key(number)
            try:
                examples[key] = self._example(row)
            except ValueError as reason:
                bad.append(Bad(key, str(reason), key))
        columns = {name: pa.array([example[name] for example in examples.values()]) for name in self.features}
        keys = list(examples)
        yield Rows(columns, pa.array(keys, pa.string()), keys.__getitem__, bad=bad)

    def _key(self, number: int) -> str:
        return f"{self.name}/{number:05d}"

    def _load(self) -> list[bytes]:
        """Return the rows as they are in the package."""
        raise NotImplementedError

    def _example(self, row: bytes) -> dict[str, Any]:
        """Return the features of a row; raises `ValueError`, which says why it cannot be read."""
        raise NotImplementedError


class Digits(Packaged):
    """Handwritten digits: one CSV row of 64 grey levels from 0 to 16 and a label.

    Has the features `image`, PNG of uint8 [8, 8, 1], grey level v as round(v * 255 / 16), and `label`, 0 to 9.
    """

    name = "digits"

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def features(self) -> Mapping[str, Feature]:
        return {
            "image": Feature("image", "uint8", (SIDE, SIDE, 1), encoding="png"),
            "label": Feature("label", "int64", role="label", classes=tuple(str(digit) for digit in range(CLASSES))),
        }

    def _example(self, row: bytes) -> dict[str, Any]:
        values = numbers_of(row.split(b","), SIDE * SIDE + 1)
        levels, label = values[:-1], values[-1]
        if not ((levels >= 0) & (levels <= LEVELS)).all() or label not in range(CLASSES):
            raise ValueError(f"grey levels outside 0..{LEVELS} or a label outside 0..{CLASSES - 1}")
        pixels = np.rint(levels * (255 / LEVELS)).astype(np.uint8).reshape(SIDE, SIDE)
        payload = io.BytesIO()
        # Not compressed, as the output of deflate differs between builds of zlib.
        Image.fromarray(pixels).save(payload, format="PNG", compress_level=0)
        return {"image": payload.getvalue(), "label": str(int(label))}

    def _load(self) -> list[bytes]:
        return gzip.decompress(self._path.read_bytes()).splitlines()


class DigitsTraits(Digits):
    """The digits with three numbers in place of the label: 1 where the digit has the trait, else 0."""

    TRAITS: Mapping[str, frozenset[int]] = {
        "even": frozenset({0, 2, 4, 6, 8}),
        "at_least_five": frozenset({5, 6, 7, 8, 9}),
        "closed_loop": frozenset({0, 6, 8, 9}),
    }

    @property
    def features(self) -> Mapping[str, Feature]:
        return {"image": super().features["image"], **dict.fromkeys(self.TRAITS, TARGET)}

    def _example(self, row: bytes) -> dict[str, Any]:
        example = super()._example(row)
        label = int(example["label"])
        return {"image": example["image"], **{trait: label in digits for trait, digits in self.TRAITS.items()}}


class Diabetes(Packaged):
    """442 patients (Efron et al., Annals of Statistics 32, 2004): ten numbers, and the target `progression`."""

    name = "diabetes"
    COLUMNS = ("age", "sex", "body_mass", "blood_pressure", "tc", "ldl", "hdl", "tch", "ltg", "glucose")

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def features(self) -> Mapping[str, Feature]:
        return {**dict.fromkeys(self.COLUMNS, Feature("number", "float32")), "progression": TARGET}

    def _example(self, row: bytes) -> dict[str, Any]:
        names = (*self.COLUMNS, "progression")
        return dict(zip(names, numbers_of(row.split(), len(names)).tolist(), strict=True))

    def _load(self) -> list[bytes]:
        files = (self._folder / "diabetes_data_raw.csv.gz", self._folder / "diabetes_target.csv.gz")
        numbers, targets = (gzip.decompress(file.read_bytes()).splitlines() for file in files)
        return [row + b" " + target for row, target in zip(numbers, targets, strict=True)]


def numbers_of(cells: list[bytes], count: int) -> NDArray[np.float64]:
    """Return the numbers of a row; raises `ValueError` where they are not as many or not numbers."""
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"not a row of numbers: {error}") from None
    if values.shape != (count,):
        raise ValueError(f"{len(values)} fields, not {count}")
    return values
