"""Numbers and results in words: the same in the terminal, in Prefect and on the page, and each the right way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Artifact, Export, Model, Records, Report, Snapshot, Variant
from tasks.compression.judgement import FrontEntry, Judgement
from tasks.view import change, figure, kilobytes, seconds
from tasks.view.examples import Texts
from tasks.view.report import Part
from tasks.view.variants import lines
from tasks.view.words import describe, interval, score, size_of_float, span, state_message
from tests.support.stand_ins import facts


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (change(0.0116), "loses 0.0116"),
        (change(-0.0058), "gains 0.0058"),
        (change(0.0), "loses 0.0000"),
        (figure(-0.00001), "0.0000"),
        (figure(-0.0001), "-0.0001"),
        (kilobytes(999_949), "999.9 kB"),
        (kilobytes(1_000_000), "1.0 MB"),
        (kilobytes(1), "0.1 kB"),
        (seconds(89.9), "89.9 s"),
        (seconds(90), "1:30 min"),
        (seconds(119.6), "2:00 min"),
    ],
)
def test_numbers(said: str, expected: str) -> None:
    assert said == expected


def test_an_interval_of_one_example_is_none() -> None:
    metrics = {"a": 0.5, "a/low": 0.4, "a/high": 0.6, "b": 1.0, "b/low": 1.0, "b/high": 1.0, "c": 0.1, "c/low": 0.0}
    assert [interval(metrics, name) for name in "abc"] == [(0.4, 0.6), None, None]
    assert [score(metrics, name) for name in "abd"] == ["a 0.5000 [0.4000, 0.6000]", "b 1.0000", "d unknown"]
    assert [span(metrics, name) for name in "abd"] == [("0.5000", "0.4000 to 0.6000"), ("1.0000", ""), None]
    tested = {"test/calibration_error": 0.02, "test/calibration_error/expected": 0.015}
    noise = span({**tested, "test/calibration_error/p_value": 0.2}, "test/calibration_error")
    assert noise == ("0.0200", "0.0150 by noise alone, p = 0.200")


def test_a_size_is_said_after_gzip_where_that_is_much_smaller() -> None:
    assert size_of_float("v", {"v/size_ratio": 0.27, "v/gzip_ratio": 0.26}) == "0.27 of float"
    assert size_of_float("v", {"v/size_ratio": 1.0, "v/gzip_ratio": 0.5}) == "1.00 of float, 0.50 after gzip"
    assert size_of_float("v", {}) == ""


def test_chance_is_what_the_p_value_leaves() -> None:
    assert Part(p_value=0.01, beyond_chance=True).chance == "beyond chance, p = 0.01"
    assert Part(p_value=0.2).chance == "may be chance, p = 0.2"
    assert Part().chance == "no test"


def made(tmp_path: Path, kind: type[Artifact], name: str = "", **manifest: Any) -> Artifact:
    statistics = {"metrics": manifest.pop("metrics", {}), **manifest.pop("statistics", {})}
    values = {"kind": kind.kind, "counts": {}, "files": [], "features": {}, "inputs": {"config": {}}, **manifest}
    folder = tmp_path / f"{kind.kind}-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({**values, "statistics": statistics}))
    return kind("0" * 64, folder, name or kind.kind)


def test_artifacts_say_what_is_lost(tmp_path: Path) -> None:
    files = [{"path": path} for path in ("a-train.tfrecord-0", "a-test.tfrecord-0", "index/a-train.tfrecord-0.npy")]
    counts = {"examples": 1200, "quarantined": 3, "skipped": 0, "duplicates": 1, "near_duplicates": 2}
    handled = {"duplicates": {"handling": "drop"}, "near_duplicates": {"handling": "report"}}
    records = made(tmp_path, Records, counts=counts, files=files, statistics=handled)
    assert describe(records) == "1,200 records in 2 shards, 3 quarantined, 1 copy dropped, 2 near-duplicates found"
    assert state_message(records, cached=True).startswith("from the store: 1,200 records")
    features = {"image": {"shape": [8, 8, 1]}, "label": {"shape": []}}
    snapshot = made(tmp_path, Snapshot, counts={"train": 1000, "test": 200}, features=features)
    assert describe(snapshot) == "1,200 examples, image 8 x 8 x 1"
    split = {"rows": 10, "padding": 22, "cut": 1, "documents": 9}
    tokens = {"tokens": {"shape": [11], "vocabulary": 300}}
    fitted = {"tokenizer": {"bytes": 1000, "of_bytes": 5000}, "splits": {"train": split}}
    text = made(tmp_path, Snapshot, counts={"train": 10}, features=tokens, statistics=fitted)
    rows = "10 rows of 10 tokens, vocabulary 300 fitted on 1.0 kB of 5.0 kB"
    assert describe(text) == f"{rows}, 20.0% padding, 1 of 9 pairs cut"
    assert describe(made(tmp_path, Export, counts={"variants": 3})) == "3 variants checked in a fresh process"
    model = made(tmp_path, Model, "pruned", counts={"parameters": 1234, "steps": 60, "zeros": 600})
    assert describe(model) == "pruned: 1,234 weights, 600 of them 0, after 60 steps"
    metrics = {"test/accuracy": 0.9, "test/accuracy/low": 0.8, "test/accuracy/high": 0.95}
    metrics["test/majority_accuracy"] = 0.1
    assert (
        describe(made(tmp_path, Report, metrics=metrics)) == "test accuracy 0.9000 [0.8000, 0.9500] (majority 0.1000)"
    )
    chosen = {"test/accuracy": 0.9, "test/average_precision": 0.5, "test/constant_average_precision": 0.1}
    assert describe(made(tmp_path, Report, metrics=chosen)) == "test average precision 0.5000 (constant 0.1000)"


def test_the_table_of_variants_says_which_one_lost_and_which_one_gained(tmp_path: Path) -> None:
    def variant(name: str, loss: float, methods: list[str]) -> Artifact:
        metrics = {f"{name}/size_ratio": 0.3, f"{name}/test/accuracy": 0.9, f"{name}/test/accuracy_loss": loss}
        return made(tmp_path, Variant, name, metrics=metrics, statistics={"bytes": 1000, "methods": methods})

    judgement = Judgement(chosen="better", front={"better": FrontEntry("better", 1, 0.0, 0.5)})
    worse, better = variant("worse", 0.02, ["int8_dynamic"]), variant("better", -0.01, ["int8_dynamic"])
    variants = [worse, better, variant("plain", 0.0, [])]
    said = list(lines(facts(variants=variants, judgement=judgement, metric="accuracy")))
    assert "(loses 0.0200)" in said[0] and "(gains 0.0100)" in said[1] and "2.00 x faster than litert" in said[1]
    assert said[1].endswith("on the front, chosen")
    assert "(" not in said[2]


def test_words_are_shown_as_they_are_and_unknown_ones_as_such(tmp_path: Path) -> None:
    """Ids of a tagger's snapshot: 0 is padding, 1 is unknown."""
    (tmp_path / "transform").mkdir()
    layout = {"layout": [{"array": "words", "column": "text"}]}
    described = {**layout, "transforms": {"text": {"kind": "words", "values": ["the", "sea"]}}}
    (tmp_path / "transform/transform.json").write_text(json.dumps(described))
    assert Texts(tmp_path).decoded("words", np.array([2, 3, 1, 2, 0, 0])) == "the sea ? the"
