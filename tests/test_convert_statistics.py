"""Statistics of records do not depend on the shards, and equal numpy's over all records."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tasks.records.column_types import Typed, column_type, merged, states_of, summary
from tasks.records.column_types.media import pixel_sums
from tasks.sources.features import KEY, KEY_FEATURE, Feature

CLASSES = ("cat", "dog", "owl")
FEATURES = {
    KEY: KEY_FEATURE,
    "image": Feature("image", "uint8", (-1, -1, -1)),
    "label": Feature("label", "int64", role="label", classes=CLASSES),
    "weight": Feature("number", "float32"),
    "scores": Feature("number", "float32", (3,)),
    "city": Feature("category", "string"),
    "when": Feature("time", "int64"),
}
Columns = dict[str, list[Any]]


def examples(count: int) -> Columns:
    random = np.random.default_rng(count)
    columns: Columns = {name: [] for name in FEATURES}
    for number in range(count):
        payload = io.BytesIO()
        shape = (int(random.integers(1, 5)), 3, 3) if number % 2 else (4, 4)
        Image.fromarray(random.integers(0, 256, shape, np.uint8)).save(payload, format="PNG")
        columns[KEY].append("k" * (number + 1))
        columns["image"].append(payload.getvalue())
        columns["label"].append(CLASSES[number % 2])
        columns["weight"].append(None if number == 3 else float(number))
        columns["scores"].append((1e6 + random.normal(size=3)).tolist())
        columns["city"].append(["Rome", "Oslo", None][number % 3])
        columns["when"].append(f"2024-01-{number % 28 + 1:02d}T00:00:00+01:00")
    return columns


def typed(columns: Columns) -> dict[str, Typed]:
    return {name: column_type(feature).typed(pa.array(columns[name]), 10**6) for name, feature in FEATURES.items()}


def state_of(columns: Columns, begin: int = 0, end: int = 20) -> dict[str, Any]:
    cast = typed({name: values[begin:end] for name, values in columns.items()})
    assert not any(column.bad for column in cast.values())
    values = {name: column.values for name, column in cast.items()}
    states = states_of(FEATURES, values, {name: column.measured for name, column in cast.items()})
    state: dict[str, Any] = json.loads(json.dumps(states, allow_nan=False))
    return state


def test_a_summary_is_numpys() -> None:
    some = examples(20)
    summarised = summary(FEATURES, state_of(some))
    grey = np.concatenate([np.asarray(Image.open(io.BytesIO(image))).ravel() for image in some["image"][::2]])
    assert summarised["image"]["pixels"]["1"]["mean"] == pytest.approx([grey.mean()])
    assert summarised["image"]["pixels"]["1"]["std"] == pytest.approx([grey.std()])
    assert len(summarised["image"]["pixels"]["3"]["mean"]) == 3
    assert sum(summarised["image"]["shapes"].values()) == 20
    assert summarised["label"]["classes"] == {"cat": 10, "dog": 10, "owl": 0}
    assert summarised[KEY]["bytes"] == {"min": 1, "max": 20, "mean": 10.5}
    scores = np.array(some["scores"], np.float32).astype(np.float64)
    assert summarised["scores"]["count"] == 60
    assert summarised["scores"]["std"] == pytest.approx(scores.std())
    weights = [weight for weight in some["weight"] if weight is not None]
    assert summarised["weight"]["mean"] == pytest.approx(np.mean(weights))
    assert [summarised["weight"][name] for name in ("min", "max", "count", "missing")] == [0, 19, 19, 1]
    assert summarised["city"] == {
        "kind": "category",
        "count": 20,
        "missing": 6,
        "distinct": 2,
        "top": [["Oslo", 7], ["Rome", 7]],
    }
    assert summarised["when"]["min"] == "2023-12-31T23:00:00+00:00"


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_sums_of_pixels_are_numpys(mode: str) -> None:
    random = np.random.default_rng(1)
    if mode == "I;16":
        image = Image.fromarray(random.integers(0, 2**16, (700, 1600), np.uint16))
    else:
        image = Image.fromarray(random.integers(0, 256, (70, 90, 4), np.uint8)).convert("RGB").convert(mode)
        if mode in ("LA", "RGBA"):
            image.putalpha(Image.fromarray(random.integers(0, 256, (70, 90), np.uint8)))
    payload = io.BytesIO()
    image.save(payload, format="TIFF" if mode == "CMYK" else "PNG")
    decoded = np.asarray(image.convert("RGB") if mode in ("1", "P", "CMYK") else image).astype(object)
    expected = decoded.reshape(-1, decoded.shape[2] if decoded.ndim == 3 else 1)
    result = pixel_sums(payload.getvalue(), 10**9)
    assert result.shape == (image.height, image.width, expected.shape[1])
    assert (result.sums, result.squares) == (expected.sum(axis=0).tolist(), (expected**2).sum(axis=0).tolist())


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 20), max_size=4))
def test_any_cut_into_shards_gives_the_same(cuts: list[int]) -> None:
    some = examples(20)
    ends = [0, *sorted(cuts), 20]
    parts = [state_of(some, begin, end) for begin, end in pairwise(ends)]
    summarised, whole = summary(FEATURES, merged(FEATURES, parts)), summary(FEATURES, state_of(some))
    for name in FEATURES:
        if name in ("weight", "scores"):
            assert summarised[name] == {
                key: pytest.approx(value) if key in ("mean", "std") else value for key, value in whole[name].items()
            }
        else:
            assert summarised[name] == whole[name]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("image", b"no image", "not an image"),
        ("image", 3, "int64 is not an image"),
        ("label", "bird", "'bird' is none of source.classes"),
        ("label", None, "missing"),
        ("weight", "3,5", "'3,5' is not a number"),
        ("weight", "inf", "'inf' is not a number"),
        ("weight", "1_000", "'1_000' is not a number"),
        ("weight", 1e300, "is not a finite float32"),
        ("scores", [1.0, 2.0], "2 values, not 3"),
        ("city", "x" * 2000, "more than 1024 bytes"),
        ("when", "yesterday", "'yesterday' is not a time in ISO 8601"),
        ("when", 7, "int64 is not a time"),
        (KEY, b"\xff", "byte 0 (0xff) is not UTF-8"),
    ],
)
def test_a_value_that_does_not_fit_its_feature_is_bad(name: str, value: Any, says: str) -> None:
    feature = FEATURES[name]
    cast = column_type(feature).typed(pa.array([value]), 10**6)
    assert says in cast.bad[0]


@given(st.lists(st.floats(allow_nan=False, width=32) | st.none(), min_size=1))
def test_texts_of_numbers_are_pythons(numbers: list[float | None]) -> None:
    texts = [None if number is None else f" {number!r}" for number in numbers]
    feature = Feature("number", "float32")
    cast = column_type(feature).typed(pa.array(texts, pa.string()), 0)
    for row, number in enumerate(numbers):
        if number is None:
            assert np.isnan(cast.values[row].as_py())
        elif np.isinf(number):
            assert row in cast.bad
        else:
            assert cast.values[row].as_py() == np.float32(number)
