"""Metrics of the user's: value and interval as of others, their source in the digest, errors in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Model, Report, Snapshot
from tasks.config.base import Conflict
from tasks.config.compose import load
from tasks.errors import Failed, Refused
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import interval_of
from tasks.evaluation.metrics import Means, mean
from tasks.evaluation.own_metrics import own_metrics
from tasks.evaluation.tasks.classification import METRICS, Predictions
from tasks.runner import identities

METRICS_OF_MINE = """
import numpy as np

def right(targets, outputs):
    return outputs.argmax(-1) == targets

def mean(targets, outputs):
    return right(targets, outputs).mean()

def wrong(targets, outputs):
    return outputs.no_such_method()

def endless(targets, outputs):
    return np.where(targets == 1, np.inf, 0.0)

def careless(targets, outputs):
    targets[:] = 0
    return right(targets, outputs)
"""
LABELS = np.arange(40) % 2
LOGITS = np.random.default_rng(1).normal(size=(40, 2)).astype(np.float32) + np.eye(2, dtype=np.float32)[LABELS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(METRICS_OF_MINE)
    return tmp_path


def config(folder: Path, **named: str) -> EvaluateConfig:
    own = {name: f"mine:{function}" for name, function in named.items()}
    return EvaluateConfig(own_metrics=own, folder=str(folder), resamples=200)


def test_value_and_interval_are_those_of_the_same_metric_of_ours(folder: Path) -> None:
    got = own_metrics(config(folder, share="right"), LABELS, LOGITS, None)["share"]
    right = METRICS["accuracy"].contributions(Predictions.of(LOGITS, LABELS))
    ours = interval_of(Means(lambda values: values, mean, lowest=-np.inf), right)
    assert (got.value, got.low, got.high) == (ours.value, ours.low, ours.high)
    assert 0.5 < got.low < got.value < got.high < 1


def test_a_report_has_them(folder: Path, digits: Any, benches: Any, publish: Any) -> None:
    from tasks.evaluation.report import build

    bench = benches("report")
    made = build(bench, digits.model, digits.snapshot, digits.records, config(folder, share="right", lost="careless"))
    metrics = publish(Report, bench, made).manifest["statistics"]["metrics"]
    assert metrics["test/share"] == metrics["test/accuracy"] and metrics["test/share/low"] < metrics["test/share"]
    assert metrics["test/lost"] < 0.5, "and what a function does to its arguments stays with it"


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("mean", r"evaluate.own_metrics.m: mine:mean returned shape \[\] for 40 examples; .*take no mean"),
        ("wrong", "evaluate.own_metrics.m: mine.py line 11: AttributeError: .*no_such_method"),
        ("endless", "evaluate.own_metrics.m: mine:endless returned inf for example 1"),
        ("absent", "evaluate.own_metrics.m: mine:absent: AttributeError"),
    ],
)
def test_an_error_in_one_names_it(function: str, says: str, folder: Path) -> None:
    with pytest.raises(Failed, match=says):
        own_metrics(config(folder, m=function), LABELS, LOGITS, None)


def test_its_source_is_part_of_the_digest(folder: Path) -> None:
    def sources() -> Any:
        model, snapshot = Model("m", folder, "model"), Snapshot("s", folder, "snapshot")
        return identities.report(model, snapshot, config(folder, m="right")).inputs(Report)["sources"]

    before = sources()
    (folder / "mine.py").write_text(METRICS_OF_MINE + "\n")
    assert sources() != before
    (folder / "mine.py").unlink()
    with pytest.raises(Refused, match=r"evaluate.own_metrics: no module mine in .*correct it, or evaluate.folder"):
        sources()


def test_names_and_tasks_that_cannot_be_are_refused() -> None:
    with pytest.raises(Conflict, match="accuracy.* is a metric of classification already"):
        EvaluateConfig(own_metrics={"accuracy": "mine:right"}).fit("classification")
    with pytest.raises(Conflict, match="is not there for language_model"):
        EvaluateConfig(own_metrics={"m": "mine:right"}).fit("language_model")


def test_they_are_found_beside_the_preset(tmp_path: Path) -> None:
    text = "{name: own, train: {steps: 3}, evaluate: {own_metrics: {m: 'mine:right'}}}"
    (tmp_path / "preset.yaml").write_text(text)
    assert load(tmp_path / "preset.yaml").evaluate.folder == str(tmp_path)
