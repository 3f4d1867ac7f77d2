"""Statistics of records do not depend on the shards, and equal numpy's over all records."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tasks.data.features import KEY, KEY_FEATURE, Example, Feature
from tasks.data.pixels import sums
from tasks.data.sources import Unreadable
from tasks.data.statistics import ShardStatistics, merged, summary

FEATURES = {
    KEY: KEY_FEATURE,
    "image": Feature("image", "uint8", (-1, -1, -1)),
    "label": Feature("label", "int64", classes=("cat", "dog", "owl")),
    "weight": Feature("number", "float32"),
    "scores": Feature("number", "float32", (3,)),
}


def examples(count: int) -> list[Example]:
    random = np.random.default_rng(count)
    collected: list[Example] = []
    for number in range(count):
        payload = io.BytesIO()
        shape = (int(random.integers(1, 5)), 3, 3) if number % 2 else (4, 4)
        Image.fromarray(random.integers(0, 256, shape, np.uint8)).save(payload, format="PNG")
        image, scores = payload.getvalue(), 1e6 + random.normal(size=3)
        collected.append(
            {KEY: b"k" * (number + 1), "image": image, "label": number % 2, "weight": float(number), "scores": scores}
        )
    return collected


def state_of(some: list[Example]) -> dict[str, Any]:
    statistics = ShardStatistics(FEATURES)
    for example in some:
        statistics.add(example)
    state: dict[str, Any] = json.loads(json.dumps(statistics.state, allow_nan=False))
    return state


def test_a_summary_is_numpys() -> None:
    some = examples(20)
    summarised = summary(FEATURES, state_of(some))
    grey = np.concatenate([np.asarray(Image.open(io.BytesIO(each["image"]))).ravel() for each in some[::2]])
    assert summarised["image"]["pixels"]["1"]["mean"] == pytest.approx([grey.mean()])
    assert summarised["image"]["pixels"]["1"]["std"] == pytest.approx([grey.std()])
    assert len(summarised["image"]["pixels"]["3"]["mean"]) == 3
    assert sum(summarised["image"]["shapes"].values()) == 20
    assert summarised["label"]["classes"] == {"cat": 10, "dog": 10, "owl": 0}
    assert summarised[KEY]["bytes"] == {"min": 1, "max": 20, "mean": 10.5}
    scores = np.stack([each["scores"] for each in some])
    assert summarised["scores"]["count"] == 60
    assert summarised["scores"]["std"] == pytest.approx(scores.std())
    assert summarised["weight"]["mean"] == pytest.approx(9.5)
    assert (summarised["weight"]["min"], summarised["weight"]["max"]) == (0, 19)


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
    result = sums("image", payload.getvalue(), None)
    assert result.shape == (image.height, image.width, expected.shape[1])
    assert (result.sums, result.squares) == (expected.sum(axis=0).tolist(), (expected**2).sum(axis=0).tolist())


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 20), max_size=4))
def test_any_cut_into_shards_gives_the_same(cuts: list[int]) -> None:
    some = examples(20)
    ends = [0, *sorted(cuts), 20]
    parts = [state_of(some[begin:end]) for begin, end in pairwise(ends)]
    summarised, whole = summary(FEATURES, merged(parts)), summary(FEATURES, state_of(some))
    for name in (KEY, "image", "label"):
        assert summarised[name] == whole[name]
    for name in ("weight", "scores"):
        assert summarised[name] == {key: pytest.approx(value) for key, value in whole[name].items()}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("image", b"no image"),
        ("image", 3),
        ("label", 3),
        ("label", -1),
        ("label", b"cat"),
        ("weight", np.nan),
        (KEY, 7),
    ],
)
def test_a_value_that_is_not_its_feature_is_unreadable_and_uncounted(name: str, value: Any) -> None:
    statistics = ShardStatistics(FEATURES)
    statistics.add(examples(1)[0])
    before = json.dumps(statistics.state)
    with pytest.raises(Unreadable, match=name):
        statistics.add(examples(1)[0] | {name: value})
    assert json.dumps(statistics.state) == before
