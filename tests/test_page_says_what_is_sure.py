"""How a page shows uncertain numbers: few examples, imbalanced classes, groups without a score."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import Report, Variant
from tasks.compression.judgement import FrontEntry, Judgement
from tasks.config.compose import Config
from tasks.evaluation.gates import UNDECIDED, Verdict
from tasks.store.files import pretty
from tasks.view import run_page
from tasks.view.facts import Facts
from tests.support.homes import ROOT
from tests.support.pages import Loads, run_of

CONFIG = Config.model_validate({"name": "few", "train": {"steps": 1}})


def artifact(kind: type, folder: Path, metrics: dict[str, float], **statistics: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {
        "format": 1,
        "kind": kind.kind,
        "digest": "0" * 64,
        "created": "2026-11-22T00:00:00+00:00",
        "files": [],
        "counts": {},
        "features": {},
        "statistics": {"metrics": metrics, **statistics},
    }
    (folder / "manifest.json").write_bytes(pretty(manifest))
    return kind("0" * 64, folder, kind.kind)


def report(folder: Path, supports: list[int], slices: tuple[dict[str, Any], ...] = ()) -> Report:
    count = sum(supports)
    rows = [
        {"class": f"c{number}", "precision": 0.5, "recall": 0.5, "f1": 0.5, "support": support}
        for number, support in enumerate(supports)
    ]
    figures, baselines = {"macro_f1": 0.6125}, {"majority_accuracy": max(supports) / count}
    split = {
        "examples": count,
        "metrics": {},
        "figures": figures,
        "baselines": baselines,
        "classes": rows,
        "slices": list(slices),
    }
    document = {"task": "classification", "loss": "cross_entropy", "splits": {"validation": split, "test": split}}
    document["interval"] = {"level": 0.95, "method": "BCa bootstrap", "resamples": 100}
    metrics = {"test/accuracy": 0.9, "test/accuracy/low": 0.8, "test/accuracy/high": 0.95}
    metrics |= {"test/calibration_error": 0.05, "test/calibration_error/expected": 0.04}
    metrics |= {
        "test/calibration_error/p_value": 0.312,
        **{f"test/{name}": value for name, value in {**figures, **baselines}.items()},
    }
    made: Report = artifact(Report, folder, metrics)
    (folder / "report.json").write_text(json.dumps(document))
    return made


def facts_and_page(root: Path, **made: Any) -> tuple[Facts, str]:
    run = run_of(root, CONFIG, [("key", "sha256")], **made)
    return Facts(run), " ".join(Loads((run.folder / "page.html").read_text(encoding="utf-8")).text.split())


def test_few_examples_are_said_instead_of_a_bare_interval(tmp_path: Path) -> None:
    facts, page = facts_and_page(tmp_path / "home", evaluate=report(tmp_path / "report", [2, 2]))
    assert (
        facts.score
        == "test accuracy 0.9000 [0.8000, 0.9500] (4 examples: too few for a 95 % interval, majority 0.5000)"
    )
    assert "4 examples: too few for a 95 % interval on validation. 4 examples: too few" in page
    facts, page = facts_and_page(tmp_path / "other", evaluate=report(tmp_path / "enough", [10, 10]))
    assert facts.score == "test accuracy 0.9000 [0.8000, 0.9500] (majority 0.5000)" and "too few" not in page


@pytest.mark.parametrize(
    ("supports", "imbalanced"), [([50, 50], False), ([90, 10], True), ([20] * 9 + [1], True), ([19, 23, 18], False)]
)
def test_imbalanced_classes_stand_in_the_headline(supports: list[int], imbalanced: bool, tmp_path: Path) -> None:
    facts, page = facts_and_page(tmp_path / "home", evaluate=report(tmp_path / "report", supports))
    majority = f"majority {max(supports) / sum(supports):.4f}"
    assert str(facts.score).endswith(f" (macro F1 0.6125, {majority})" if imbalanced else f"0.9500] ({majority})")
    assert "macro f1mean of the classes' F1" in page
    assert "majority accuracyof always predicting the most frequent class" in page


def test_the_calibration_error_has_a_test_and_no_interval(tmp_path: Path) -> None:
    _, page = facts_and_page(tmp_path / "home", evaluate=report(tmp_path / "report", [50, 50]))
    assert "calibration errorlower is better 0.05000.0400 by noise alone, p = 0.312" in page


def test_no_group_is_left_out_in_silence(tmp_path: Path) -> None:
    slices = (
        {"slice": "label a", "examples": 60, "value": 0.9, "low": 0.8, "high": 1.0, "units": 60},
        {"slice": "label b", "examples": 3, "value": None, "low": None, "high": None, "why": "fewer than 5"},
        {"slice": "label c", "examples": 0, "value": None, "low": None, "high": None, "why": "fewer than 5"},
    )
    _, page = facts_and_page(tmp_path / "home", evaluate=report(tmp_path / "report", [60, 40], slices))
    assert "Slices without a score: label b (3, fewer than 5), label c (0, fewer than 5)." in page


def test_a_variant_without_a_verdict_is_marked_as_such(tmp_path: Path) -> None:
    text = "loses 0.0000 of 25 test examples; the limit is 0.02; about 124 more would decide"
    gate = Verdict("quality", 0.0, 0.02, UNDECIDED, text).as_json()
    statistics: dict[str, Any] = {"bytes": 1000, "gzip_bytes": 900, "methods": [{"kind": "int8_dynamic"}]}
    variant = artifact(Variant, tmp_path / "variant", {"variant/test/accuracy": 0.9}, **statistics)
    entry = asdict(FrontEntry("variant", 1000, 0.0, None))
    judgement = {
        "verdicts": {"variant": [gate]},
        "standing": {"variant": "undecided"},
        "front": {"variant": entry},
        "chosen": None,
    }
    run = run_of(tmp_path / "home", CONFIG, [("key", "sha256")], compress=variant)
    (run.folder / "judgement.json").write_bytes(pretty(judgement))
    facts = Facts(run)
    page = " ".join(Loads(run_page.render(facts)).text.split())
    assert "undecided, too few test examples" in page and f"? quality {text}" in page and "rejected" not in page
    assert facts.judgement.words("variant").startswith("undecided") and Judgement().words("variant") == ""
    assert Judgement(standing={"other": "accepted"}).words("variant") == "not judged"
    assert "on the front" in page and "(undecided, too few test examples)" in facts.summary


def test_every_metric_is_in_the_reference_page() -> None:
    from tasks.config.task import TASKS

    page = (ROOT / "docs/metrics.md").read_text()
    for task in TASKS.values():
        for name in (*task.metrics, *task.figures, *task.baselines):
            assert f"`…/{name}`" in page, name
    code = (ROOT / "tasks/training/actions.py").read_text()
    for name in ("loss", "learning_rate", "gradient_norm", "step_ms", "examples_per_second", "input_share"):
        assert f"`train/{name}`" in page and name in code
