"""What seeds, keys and contents decide is the same in every version: order, splits, places, augmentations, probes, and
what counts as similar. A change here changes results without an error: it must be meant, and raise the version of what
is made of it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from pydantic import TypeAdapter

from tasks.draws import permutation
from tasks.evaluation.probes import PROBES
from tasks.evaluation.robustness import draws_of
from tasks.feed.augmentations import AugmentConfig
from tasks.feed.augmenter import Augmenter
from tasks.feed.orders import ORDERS, Ordered
from tasks.models.layers import layer_seed
from tasks.records.near import ImageMeasure, TextMeasure
from tasks.snapshots import packing
from tasks.snapshots.transforms.statistics import priorities
from tasks.sources.hashes import digests, places, shard_bounds, split_numbers
from tests.support.golden import pinned

RNG = np.random.default_rng(11)
INPUTS: dict[str, np.ndarray] = {
    "image": RNG.integers(0, 256, (8, 14, 9, 3), np.uint8),
    "grey": RNG.integers(0, 256, (8, 7, 12, 1), np.uint8),
    "sound": RNG.normal(size=(8, 21, 5)).astype(np.float32),
    "text": RNG.integers(0, 40, (8, 33)).astype(np.uint16),
    "words": np.where(np.arange(12) < RNG.integers(1, 12, (8, 1)), RNG.integers(2, 9, (8, 12)), 0).astype(np.uint16),
}
FEATURES: dict[str, dict[str, Any]] = {
    **{name: {"dtype": str(values.dtype), "shape": list(values.shape[1:])} for name, values in INPUTS.items()},
    "label": {"dtype": "int64", "shape": [], "classes": ["a", "b", "c"]},
}
FEATURES["text"] |= {"vocabulary": 40, "padding": 0}
FEATURES["words"] |= {"vocabulary": 9, "padding": 0, "unknown": 1}
LABELS = np.array([0, 1, 2, 1, 0, 2, 2, 0])

AUGMENTED: list[dict[str, Any]] = [
    *({"kind": "flip", "axis": axis, "input": "image"} for axis in ("horizontal", "vertical")),
    {"kind": "flip", "input": "grey"},
    *({"kind": "crop", "fill": fill, "padding": 2, "input": "image"} for fill in ("zero", "edge")),
    *({"kind": "resized_crop", "input": name} for name in ("image", "grey")),
    *({"kind": "colour", "input": name} for name in ("image", "grey")),
    *({"kind": "rand_augment", "operations": 3, "magnitude": 7.0, "input": name} for name in ("image", "grey")),
    {"kind": "cutout", "size": 3, "input": "image"},
    {"kind": "cutout", "size": 4, "input": "grey"},
    *({"kind": "noise", "input": name} for name in ("image", "sound")),
    {"kind": "time_mask", "width": 6, "input": "sound"},
    {"kind": "band_mask", "width": 2, "spans": 1, "input": "sound"},
    *({"kind": "token_dropout", "share": 0.3, "input": name} for name in ("text", "words")),
    *({"kind": "mixup", "alpha": alpha, "input": name} for alpha in (0.2, 3.0) for name in ("image", "sound")),
    {"kind": "cutmix", "input": "image"},
]


def short(*values: Any) -> str:
    """The beginning of a hash; fractions count to four digits, as the last bits of some functions are a machine's."""
    hashed = hashlib.sha256()
    for value in values:
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = np.rint(array.astype(np.float64) * 1e4).astype(np.int64)
        hashed.update(f"{array.dtype.kind} {array.shape}".encode())
        hashed.update(str(array.tolist()).encode())
    return hashed.hexdigest()[:16]


LENGTHS = np.random.default_rng(5).integers(1, 90, 701)
EPOCHS = ((1, 0, 0, "train"), (700, 5, 0, "train"), (701, 5, 3, "train"), (701, 5, 3, "test"))


def orders() -> Iterator[str]:
    for name, make in ORDERS.items():
        order = make(Ordered(batch_size=6, row_bytes=100_000, lengths=lambda: LENGTHS))
        for n, seed, epoch, split in EPOCHS:
            rows = order(np.arange(n), n, seed, epoch, split)
            yield f"order {name}, {n} rows, seed {seed}, epoch {epoch}, {split}: {rows[:6].tolist()} {short(rows)}"
    far = permutation(np.array([0, 1, 2**61]), 2**62, 2**63 - 1, 2**63 - 1)
    yield f"order shuffled of 2^62 rows: {far.tolist()}"


def splits() -> Iterator[str]:
    hashes = digests([f"example {number}".encode() for number in range(1000)])
    yield f"digests: {short(hashes)}"
    shares = {"train": 0.8, "validation": 0.1, "test": 0.1}
    for seed in (0, 7, 2**63 - 1):
        numbers = split_numbers(hashes[:, 0], shares, seed)
        yield f"splits, seed {seed}: {np.bincount(numbers).tolist()} {short(numbers)}"
        yield f"places, seed {seed}: {short(places(hashes[:, 1], seed))}"
    yield f"shards: {shard_bounds(3)}"
    yield f"priorities of a sample: {short(priorities(np.arange(100)))}"
    yield f"seeds of layers: {[layer_seed(seed, name) for seed in (0, 5) for name in ('dense', 'logits')]}"


def augmented() -> Iterator[str]:
    rows = np.array([3, 0, 7, 5, 1])
    for values in AUGMENTED:
        name = values["input"]
        config = TypeAdapter(AugmentConfig).validate_python(values)
        arrays = {name: INPUTS[name], "label": LABELS}
        augmenter = Augmenter([config], {each: FEATURES[each] for each in arrays}, arrays, 9)
        batch = {name: INPUTS[name][rows][None], "label": LABELS[rows][None], "row": rows[None]}
        made = augmenter(batch, np.array([[0, 1, 0, 1, 2]], np.uint64))
        said = " ".join(f"{key} {value}" for key, value in values.items())
        yield f"augment {said}: {short(*(made[each] for each in sorted(made)))}"


def probed() -> Iterator[str]:
    probes: tuple[tuple[str, dict[str, Any], Any, dict[str, Any]], ...] = (
        *(("noise", {"scale": 0.3}, INPUTS[each], {}) for each in ("image", "sound")),
        ("noise", {"scale": 0.3}, INPUTS["sound"][:, 0], {"variance": [1.0, 4.0, 9.0, 0.25, 0.0]}),
        *(("blur", {"sigma": 0.7}, INPUTS[each], {}) for each in ("image", "grey")),
        *(("contrast", {"factor": 0.4}, INPUTS[each], {}) for each in ("image", "grey")),
        *(("shift", {"pixels": 3}, INPUTS[each], {}) for each in ("image", "grey")),
        ("typos", {"share": 0.3}, [f"The quick, brown föx {number}" for number in range(8)], {"kind": "text"}),
        ("typos", {"share": 0.5}, [["Two", "words", "42"]] * 8, {"kind": "words"}),
        ("missing_columns", {"share": 0.4}, np.arange(8, dtype=np.float32), {"kind": "number"}),
        ("missing_columns", {"share": 0.4}, np.arange(8), {"kind": "time"}),
        ("missing_columns", {"share": 0.4}, [*"abcdefgh"], {"kind": "category"}),
        ("missing_columns", {"share": 0.4}, [["a", "b", "c"]] * 8, {"kind": "words"}),
    )
    for name, config, values, feature in probes:
        made = PROBES[name](**config).change(values, draws_of(2, 1, np.arange(8)), feature)
        kind = feature.get("kind", f"{np.asarray(values).dtype} {np.shape(values)[1:]}")
        said = short(np.nan_to_num(made, nan=-1.0)) if isinstance(made, np.ndarray) else made
        yield f"probe {name} of {kind}: {said}"


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def similar() -> Iterator[str]:
    texts = ["The quick brown fox jumps over the lazy dog", "the  QUICK brown fox\njumps over the lazy cat", "abc", ""]
    for similarity in (0.5, 0.8, 0.95):
        signatures, bands = TextMeasure().signed(pa.array(texts, pa.large_string()), similarity)
        yield f"similar texts at {similarity}: {bands.shape[1]} bands {short(bands)} {short(signatures)}"
    alike = TextMeasure().similarity(0.0, lambda: texts[0], lambda: texts[1])
    yield f"similarity of two texts: {alike:.6f}"
    big = np.random.default_rng(2).integers(0, 256, (8, 9), np.uint8).repeat(10, axis=0).repeat(10, axis=1)
    faint = np.full((20, 20), 100, np.uint8)
    faint[:, 10:] = 115
    for level in (0.8, 0.9, 1.0):
        payloads = pa.array([png(big), png(faint), png(faint + (faint > 100)), b""], pa.large_binary())
        signatures, bands = ImageMeasure().signed(payloads, level)
        given = (bands != 0).any(axis=1).tolist()
        yield f"similar images at {level}: {bands.shape[1]} bands of {given} {short(bands)} {short(signatures)}"


def packed() -> Iterator[str]:
    lengths = np.random.default_rng(3).integers(1, 40, 60)
    for name, made in (
        ("stream", packing.stream(lengths, 16)),
        ("best fit", packing.best_fit(lengths, 16)),
        ("best fit, cut", packing.best_fit(lengths, 16, cut=True)),
    ):
        yield f"packing {name}: {len(made.origin)} rows {short(made.pieces, made.origin)}"


def test_what_is_decided_by_seeds_and_hashes() -> None:
    pinned("draws.txt", [*orders(), *splits(), *augmented(), *probed(), *similar(), *packed()])
