"""Robustness probes: what each changes, by row alone, and what it does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tasks.errors import Failed, Refused
from tasks.evaluation import probes, robustness
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import run_model
from tasks.evaluation.probes import PROBES
from tasks.evaluation.robustness import AlteredInputs, altered, draws_of
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.sources.features import Feature

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 9, 8, 3), np.uint8)
DRAWS = draws_of(0, 0, np.arange(6))


def test_images_are_changed_as_the_settings_say() -> None:
    noisy = PROBES["noise"](scale=0.1).change(np.full((6, 40, 40, 1), 128, np.uint8), DRAWS, {})  # type: ignore[call-arg]
    assert noisy.dtype == np.uint8 and noisy.std() == pytest.approx(25.5, rel=0.05)
    flat = PROBES["contrast"](factor=0.25).change(IMAGES, DRAWS, {})  # type: ignore[call-arg]
    assert flat.std(axis=(1, 2, 3)) == pytest.approx(IMAGES.std(axis=(1, 2, 3)) / 4, rel=0.02)
    assert flat.mean(axis=(1, 2, 3)) == pytest.approx(IMAGES.mean(axis=(1, 2, 3)), abs=0.5)
    dot = np.zeros((1, 9, 9, 1), np.uint8)
    dot[0, 4, 4] = 200
    soft = PROBES["blur"](sigma=1.0).change(dot, DRAWS, {})[0, :, :, 0].astype(float)  # type: ignore[call-arg]
    assert soft[4, 4] == soft.max() < 40 and soft.sum() == pytest.approx(200, abs=12) and (soft == soft.T).all()
    moved = PROBES["shift"](pixels=2).change(IMAGES, draws_of(0, 0, np.arange(6)), {})  # type: ignore[call-arg]
    for image, other in zip(IMAGES, moved, strict=True):
        places = [(down, right) for down in range(-2, 3) for right in range(-2, 3)]
        inner = [(image[2 - down : 7 - down, 2 - right : 6 - right] == other[2:7, 2:6]).all() for down, right in places]
        assert sum(inner) == 1, "the middle is that of the image, moved"


def test_texts_get_errors_in_a_share_of_their_letters() -> None:
    text = "the quick brown fox jumps over the lazy dog, 1234567890! " * 30
    [typed] = PROBES["typos"](share=0.05).change([text], draws_of(0, 0, np.arange(1)), {})  # type: ignore[call-arg]
    assert typed != text and typed.count("1234567890! ") >= 29
    longest = sum(a == b for a, b in zip(text, typed, strict=False))
    assert abs(len(typed) - len(text)) < 30 and longest > 20
    assert PROBES["typos"](share=1.0).change(["", "7!"], draws_of(0, 0, np.arange(2)), {}) == ["", "7!"]  # type: ignore[call-arg]


def test_a_share_of_values_is_lost_as_missing_ones_of_their_kind() -> None:
    config, draws = PROBES["missing_columns"](share=0.3), draws_of(0, 0, np.arange(1000))  # type: ignore[call-arg]
    numbers = config.change(np.ones(1000, np.float32), draws, {"kind": "number"})
    assert np.isnan(numbers).mean() == pytest.approx(0.3, abs=0.05)
    words = config.change(["x"] * 1000, draws_of(0, 0, np.arange(1000)), {"kind": "category"})
    assert [word == "" for word in words] == np.isnan(numbers).tolist(), "by row and column number alone"
    others = config.change(["x"] * 1000, draws_of(0, 1, np.arange(1000)), {"kind": "category"})
    assert 0.03 < np.mean([one == other == "" for one, other in zip(words, others, strict=True)]) < 0.15


def test_an_example_is_changed_alike_in_any_batch(digits: Any) -> None:
    split = SnapshotSplit(digits.snapshot.path, digits.records.path, "test")
    judge = make_judge("classification", split, EvaluateConfig())
    noise = AlteredInputs(1, PROBES["noise"](), split.features, judge.inputs)
    whole = noise[0:50]["image"]
    assert (whole == np.concatenate([noise[at : at + 7]["image"] for at in range(0, 50, 7)])[:50]).all()
    assert (whole != judge.inputs[0:50]["image"]).mean() > 0.3
    again = AlteredInputs(0, PROBES["noise"](), split.features, judge.inputs)[0:50]["image"]
    assert (whole != again).any(), "another place in the list is another draw"


def test_a_probe_measures_the_drop_of_the_metric(digits: Any) -> None:
    from tasks.models.forward import inference_function
    from tasks.models.keras_file import load

    split = SnapshotSplit(digits.snapshot.path, digits.records.path, "test")
    judge, call = make_judge("classification", split, EvaluateConfig()), inference_function(load(digits.model.path))
    config = EvaluateConfig.model_validate({"robustness": ["shift", {"kind": "contrast", "factor": 0.99}]})
    kept = run_model(judge, call).kept
    rows = robustness.measured(config, judge, split, call, kept, "accuracy", 1, lambda *progress: None)
    moved, same = rows
    assert moved["drop"]["low"] > 0.1 and moved["settings"] == {"pixels": 2}
    assert abs(same["drop"]["value"]) < 0.02 and same["drop"]["low"] <= same["drop"]["value"] <= same["drop"]["high"]
    before = judge.metrics["accuracy"](judge.predictions(kept))
    assert moved["value"] == pytest.approx(before - moved["drop"]["value"])


def test_a_probe_that_does_not_fit_is_refused(digits: Any) -> None:
    split = SnapshotSplit(digits.snapshot.path, digits.records.path, "test")
    inputs = make_judge("classification", split, EvaluateConfig()).inputs
    with pytest.raises(Failed, match=r"evaluate.robustness: typos; changes text, and the inputs are image"):
        altered(0, PROBES["typos"](), split, inputs)
    columns = {"image": Feature("image", "uint8", (-1, -1, 3)), "age": Feature("number", "float32")}
    with pytest.raises(Refused, match="evaluate.robustness: typos; changes text"):
        probes.check([PROBES["typos"]()], columns, images=False)
    probes.check([PROBES["blur"](), PROBES["noise"](), PROBES["missing_columns"]()], columns, images=True)


def test_texts_are_changed_as_texts_and_every_input_may_be_lost() -> None:
    features = {
        "note": Feature("text", "string"),
        "words": Feature("words", "string", shape=(-1,)),
        "age": Feature("number", "float32"),
        "kind": Feature("label", "int64", role="label"),
    }
    assert probes.column_kinds(features) == {"note": probes.TEXT, "words": probes.TEXT, "age": probes.ANY}
