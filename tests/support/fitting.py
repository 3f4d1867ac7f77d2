"""Fits each kind of transform to the same values and prints a hash of all that it has learned, in a fresh process."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.snapshots import text
from tasks.snapshots.fitting import TransformConfig, fit
from tasks.snapshots.transforms import Fitted
from tasks.snapshots.transforms.categories import Vocabulary
from tasks.snapshots.transforms.numbers import Bucketize, Quantile, Standardise
from tasks.snapshots.transforms.texts import Tokens, Words
from tasks.sources.features import Feature

RANDOM = random.Random(7)
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßéàфыж漢字"
WORDS = ["".join(RANDOM.choices(LETTERS, k=RANDOM.randint(1, 9))) for _ in range(400)]
TEXTS = [" ".join(RANDOM.choices(WORDS, k=9)) for _ in range(300)]
WIDE = ["".join(chr(RANDOM.randint(0x400, 0x800)) for _ in range(6)) for _ in range(500)]
NUMBERS = np.random.default_rng(7).normal(size=5000).round(3).tolist()

TYPES = {"number": pa.float32(), "category": pa.string(), "text": pa.large_string(), "words": pa.list_(pa.string())}
KINDS: dict[str, tuple[str, list[Any], TransformConfig]] = {
    "standardise": ("number", NUMBERS, Standardise()),
    "quantile": ("number", NUMBERS, Quantile()),
    "bucketize": ("number", NUMBERS, Bucketize(buckets=9)),
    "vocabulary": ("category", WORDS, Vocabulary()),
    "words": ("words", [each.split() for each in TEXTS], Words(length=5, vocabulary=99)),
    "bpe": ("text", TEXTS, Tokens(method="bpe", length=9, vocabulary=500)),
    "wordpiece": ("text", TEXTS, Tokens(method="wordpiece", length=9, vocabulary=500)),
    "wordpiece of three sentences": ("text", TEXTS[:3], Tokens(method="wordpiece", length=9, vocabulary=300)),
    "wordpiece with a part of the characters": ("text", WIDE, Tokens(method="wordpiece", length=9, vocabulary=258)),
}


def learned(kind: str, values: list[Any], transform: TransformConfig) -> Fitted:
    """Return a fitted transform."""
    dtype, shape = ("float32" if kind == "number" else "string"), ((-1,) if kind == "words" else ())
    described, table = Feature(kind, dtype, shape), pa.table({"x": pa.array(values, TYPES[kind])})  # type: ignore[arg-type]
    return fit({"x": transform}, {"x": described}, lambda names: [table] if names else [])["x"]


def digest(*content: Any) -> str:
    """Return a hash of JSON, arrays and bytes."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else value.hex()

    return hashlib.sha256(json.dumps(content, sort_keys=True, default=plain).encode()).hexdigest()


def main() -> None:
    """Print the hashes by name, as JSON."""
    made = {name: learned(*given) for name, given in KINDS.items()}
    found = {name: digest(each.state, each.feature, each.files) for name, each in made.items()}
    print(json.dumps({**found, "tokens of a snapshot": digest(text.fit(TEXTS, 400))}))


if __name__ == "__main__":
    main()
