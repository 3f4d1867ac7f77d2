"""The presets that `millrace init` writes for real data train above the baseline of their task, in a few steps."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn import datasets

from flows.preset_text import preset_of
from tasks.artifacts import Model, Records, Report, Snapshot
from tasks.config.compose import load
from tasks.evaluation.measured import asked
from tasks.evaluation.report import build
from tasks.guess import guess_source
from tasks.records import conversion
from tasks.snapshots import work as snapshots
from tasks.training.fit import fit

WINES = ("barolo", "grignolino", "barbera")


def wines(folder: Path) -> Path:
    """178 wines of three grapes."""
    data = datasets.load_wine()
    rows = [[*numbers, WINES[kind]] for numbers, kind in zip(data.data.tolist(), data.target, strict=True)]
    return table(folder / "wines.csv", [*data.feature_names, "class"], rows)


def diabetes(folder: Path) -> Path:
    """442 patients, and how far the disease had gone a year later."""
    data = datasets.load_diabetes(scaled=False)
    rows = [[*numbers, target] for numbers, target in zip(data.data.tolist(), data.target, strict=True)]
    return table(folder / "diabetes.csv", [*data.feature_names, "target"], rows)


def digits(folder: Path) -> Path:
    """600 handwritten digits as PNG files, in a folder for each."""
    data = datasets.load_digits()
    for number, (pixels, digit) in enumerate(zip(data.images[:600], data.target, strict=False)):
        path = folder / f"digits/{digit}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype(np.uint8)).save(path)
    return folder / "digits"


def churn(folder: Path) -> Path:
    """2,000 customers, of whom a tenth leaves, for reasons of which a part is seen."""
    random = np.random.default_rng(1)
    seen, plan = random.normal(size=(2000, 5)), random.integers(0, 3, 2000)
    reasons = seen[:, 0] - 0.8 * seen[:, 1] + 0.6 * seen[:, 2] * seen[:, 3] + 0.7 * (plan == 2)
    score = reasons + random.normal(0, 1.4, 2000)
    left = score > np.quantile(score, 0.9)
    rows = [
        [*each, "abc"[of], ("stays", "leaves")[gone]]
        for each, of, gone in zip(seen.tolist(), plan, left * 1, strict=True)
    ]
    return table(folder / "churn.csv", ["a", "b", "c", "d", "e", "plan", "churn"], rows)


def table(path: Path, names: list[str], rows: list[list[Any]]) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


FEW = {"train.steps": "80", "train.evaluate_every": "20", "train.checkpoint.every": "80", "evaluate.resamples": "100"}


@pytest.mark.parametrize(
    ("write", "task", "metric"),
    [
        (wines, "classification", "accuracy"),
        pytest.param(churn, "classification", "average_precision", marks=pytest.mark.slow),
        pytest.param(diabetes, "regression", "rmse", marks=pytest.mark.slow),
        pytest.param(digits, "classification", "accuracy", marks=pytest.mark.slow),
    ],
)
def test_a_preset_of_init_beats_the_baseline(
    write: Callable[[Path], Path], task: str, metric: str, tmp_path: Path, benches: Callable, publish: Callable, tf: Any
) -> None:
    preset = tmp_path / "preset.yaml"
    preset.write_text(preset_of(guess_source(write(tmp_path)), preset))
    config = load(preset, [*FEW.items(), ("train.schedule.warmup", "8")])
    assert config.model.task == task
    bench = benches("records")
    made = publish(Records, bench, conversion.build(bench, config.source, config.records))
    bench = benches("snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, config.snapshot))
    bench = benches("model")
    model = publish(Model, bench, fit(bench, snapshot, config.model, config.train, config.seed))
    bench = benches("report")
    report = publish(Report, bench, build(bench, model, snapshot, made, config.evaluate))
    name, higher_is_better = config.evaluate.primary_of(task)
    test = json.loads((report.path / "report.json").read_text())["splits"]["test"]
    [baseline] = asked(test, config.promote.baseline, task)
    assert name == metric and baseline.better(higher_is_better), "so that it becomes the first champion"
    assert np.isfinite(baseline.value) and baseline.value > 0
