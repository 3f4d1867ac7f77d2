"""Temperature, thresholds, slices, groups and robustness of one report, its page, and the export that uses it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import log_softmax, softmax
from sklearn import metrics as sklearn_metrics

from tasks.artifacts import Export, Report, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.specs import VariantSpec
from tasks.compression.variants import build as compress
from tasks.config.compose import Config
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build
from tasks.exporting.config import ExportConfig
from tasks.exporting.export import build as export
from tasks.exporting.predict import predict
from tasks.feed import open_snapshot
from tasks.models.architectures.mlp import MlpModel
from tasks.records.reading import RecordsReader
from tasks.registry import registry
from tasks.snapshots.config import TableSnapshot
from tasks.view import report as reports
from tests.support.loans import Made, make
from tests.support.pages import page_of
from tests.support.registries import RegistryHome

ROWS = 400
"""Rows that the export predicts."""
CONFIG = EvaluateConfig.model_validate(
    {
        "resamples": 300,
        "calibrate": "temperature",
        "threshold": {"precision_at_recall": 0.93},
        "slices": ["country", "age", "age > 65 and country == 'FR'"],
        "find_slices": 3,
        "groups": "country",
        "robustness": ["noise", "typos", {"kind": "missing_columns", "share": 0.5}],
    }
)


@dataclass(frozen=True)
class Evaluated:
    made: Made
    report: Report
    json: dict[str, Any]

    @property
    def test(self) -> dict[str, Any]:
        return self.json["splits"]["test"]

    def logits(self, split: str) -> np.ndarray:
        return np.load(self.report.path / "predictions" / f"{split}.npy").astype(np.float64)

    def labels(self, split: str) -> np.ndarray:
        return np.asarray(open_snapshot(self.made.snapshot.path).arrays(split)["label"])

    def columns(self) -> dict[str, np.ndarray]:
        reader = RecordsReader(self.made.records.path)
        rows = list(reader.iterate("test"))
        country = np.array([bytes(row["country"][0]).decode() for row in rows])
        return {"country": country, "age": np.array([float(row["age"][0]) for row in rows])}


@pytest.fixture(scope="module")
def evaluated(tf: Any, tmp_path_factory: Any, workbench_at: Any, publish: Any) -> Evaluated:
    root = tmp_path_factory.mktemp("loans")
    made = make(root, workbench_at, publish)
    bench = workbench_at(root / "report")
    report = publish(Report, bench, build(bench, made.model, made.snapshot, made.records, CONFIG))
    return Evaluated(made, report, json.loads((report.path / "report.json").read_bytes()))


def test_the_temperature_is_that_of_the_lowest_loss_on_validation(evaluated: Evaluated) -> None:
    temperature = evaluated.json["decision"]["temperature"]

    def loss(split: str, at: float) -> float:
        logits, labels = evaluated.logits(split), evaluated.labels(split)
        return float(-log_softmax(logits / at, axis=-1)[np.arange(len(labels)), labels].mean())

    assert temperature > 1.3, "the model is too sure"
    assert loss("validation", temperature) < min(loss("validation", temperature * by) for by in (0.99, 1.01))
    row = evaluated.test["calibration"]
    assert row["before"]["loss"]["value"] == pytest.approx(loss("test", 1.0))
    assert row["after"]["loss"]["value"] == pytest.approx(loss("test", temperature))
    assert row["loss_change"]["high"] < 0, "better on test too, beyond noise"
    assert row["after"]["calibration_error"]["value"] < row["before"]["calibration_error"]["value"]
    assert evaluated.report.metrics["test/calibrated/loss"] == row["after"]["loss"]["value"]


def test_the_threshold_is_the_best_on_validation_and_is_reported_on_test(evaluated: Evaluated) -> None:
    decision = evaluated.json["decision"]
    [(positive, threshold)] = decision["thresholds"].items()
    assert positive == "yes"

    def scores(split: str, at: float) -> tuple[float, float]:
        """Precision and recall."""
        chances = softmax(evaluated.logits(split) / decision["temperature"], axis=-1)[:, 1]
        truth = evaluated.labels(split) == 1
        return sklearn_metrics.precision_score(truth, chances > at), sklearn_metrics.recall_score(truth, chances > at)

    every = [scores("validation", at) for at in np.linspace(0.001, 0.99, 500)]
    precision, recall = scores("validation", threshold)
    assert recall >= 0.93 > scores("validation", 0.5)[1]
    assert precision >= max(precision for precision, recall in every if recall >= 0.93)
    [row] = evaluated.test["thresholds"]
    at, half = row["at_threshold"], row["at_half"]
    assert (at["precision"]["value"], at["recall"]["value"]) == pytest.approx(scores("test", threshold))
    assert (half["precision"], half["recall"]) == pytest.approx(scores("test", 0.5))
    assert at["recall"]["low"] < at["recall"]["value"] < at["recall"]["high"]
    assert json.loads((evaluated.report.path / "decision.json").read_bytes()) == decision


def test_slices_are_those_of_the_columns_of_the_records(evaluated: Evaluated) -> None:
    correct = evaluated.logits("test").argmax(-1) == evaluated.labels("test")
    columns, rows = evaluated.columns(), {row["slice"]: row for row in evaluated.test["slices"]}
    for country in ("DE", "FR", "IT"):
        group = columns["country"] == country
        assert rows[f"country = {country}"]["value"] == correct[group].mean()
    condition = (columns["age"] > 65) & (columns["country"] == "FR")
    assert rows["age > 65 and country == 'FR'"]["examples"] == condition.sum()
    assert rows["age > 65 and country == 'FR'"]["value"] == correct[condition].mean()
    assert rows["age missing"]["examples"] == np.isnan(columns["age"]).sum() > 0
    quartiles = [row["examples"] for name, row in rows.items() if name.startswith("age ") and " to " in name]
    assert len(quartiles) == 4 and sum(quartiles) == (~np.isnan(columns["age"])).sum()


def test_the_worst_slice_is_the_one_whose_labels_are_random(evaluated: Evaluated) -> None:
    found = evaluated.test["worst_slices"]
    worst = found["slices"][0]
    assert worst["beyond_chance"] and "country = FR" in worst["slice"] and "age 6" in worst["slice"], worst
    assert worst["value"] < 0.7 < 0.8 < worst["rest"]
    assert found["looked_at"] > 40 and len(found["slices"]) == 3
    assert worst["p_value"] == 1 / (1 + CONFIG.resamples), "no draw of chance is as far off"


def test_groups_are_compared_by_their_rates(evaluated: Evaluated) -> None:
    decision = evaluated.json["decision"]
    chances = softmax(evaluated.logits("test") / decision["temperature"], axis=-1)[:, 1]
    yes, truth = chances > decision["thresholds"]["yes"], evaluated.labels("test") == 1
    group = evaluated.columns()["country"] == "FR"
    rows = {(row["group"], row["measure"]): row for row in evaluated.test["groups"]["rows"]}
    assert len(rows) == 12 == evaluated.test["groups"]["compared"]
    true_positives = rows["country = FR", "true_positive_rate"]
    assert true_positives["value"] == pytest.approx(yes[group & truth].mean())
    assert true_positives["rest"] == pytest.approx(yes[~group & truth].mean())
    difference = true_positives["difference"]
    assert difference["value"] == pytest.approx(true_positives["value"] - true_positives["rest"])
    assert difference["low"] < difference["value"] < difference["high"]
    table = [[(yes & part & truth).sum(), (~yes & part & truth).sum()] for part in (group, ~group)]
    assert true_positives["p_value"] >= stats.fisher_exact(table).pvalue, "adjusted"
    accuracy = rows["country = FR", "accuracy"]
    assert accuracy["difference"]["high"] < 0 and accuracy["beyond_chance"], "where labels are random"
    selected = [rows[f"country = {country}", "selection_rate"]["value"] for country in ("DE", "FR", "IT")]
    largest = evaluated.test["groups"]["largest_differences"]["selection_rate"]
    assert largest == pytest.approx(max(selected) - min(selected))


def test_robustness_is_the_drop_on_changed_examples(evaluated: Evaluated) -> None:
    rows = {row["probe"]: row for row in evaluated.test["robustness"]}
    accuracy = evaluated.test["metrics"]["accuracy"]["value"]
    for row in rows.values():
        assert row["drop"]["value"] == pytest.approx(accuracy - row["value"])
        assert row["drop"]["low"] <= row["drop"]["value"] <= row["drop"]["high"]
    assert rows["missing_columns"]["drop"]["low"] > 0.02, "without half of the incomes"
    assert rows["missing_columns"]["drop"]["value"] > rows["noise"]["drop"]["value"]


def test_the_page_and_show_have_them(evaluated: Evaluated, tmp_path: Path) -> None:
    content = reports.read(evaluated.json)
    shown = "\n".join(f"{word} {text}" for word, text in reports.lines(content))
    made = evaluated.made
    config = Config(name="loans", model=MlpModel(), snapshot=TableSnapshot(), train={"steps": 1}, evaluate=CONFIG)  # type: ignore[arg-type]
    page = page_of(tmp_path, config, convert=made.records, snapshot=made.snapshot, evaluate=evaluated.report)
    found = evaluated.test["worst_slices"]
    assert all(row["slice"] in shown and row["slice"] in page for row in found["slices"])
    for text in (
        "The worst slices that were found",
        f"{found['looked_at']:,} slices of at least 20 examples were looked at",
        "Groups by country",
        "true positive rate",
        "missing columns",
        f"<b>Baseline:</b> {content.beside_simple_model}",
        "It does not see 1 text column.",
        f"temperature {evaluated.json['decision']['temperature']:.4g}",
    ):
        assert text in page, text
    for text in (
        "baseline a simple model (gradient boosting) is",
        "threshold yes above",
        "probes noise: accuracy",
        "groups by country",
        "beyond chance",
    ):
        assert text in shown, text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*AnyType:UserWarning")
def test_the_export_and_the_registered_version_predict_with_temperature_and_threshold(
    evaluated: Evaluated, tmp_path: Path, workbench_at: Any, publish: Any, registry_home: RegistryHome
) -> None:
    made, report = evaluated.made, evaluated.report
    bench = workbench_at(tmp_path / "variant")
    common = (made.model, made.snapshot, made.records)
    outcome = compress(bench, VariantSpec("saved_model"), *common, report, None, None, CompressConfig(), CONFIG)
    variant = replace(publish(Variant, bench, outcome), name="saved_model")
    bench = workbench_at(tmp_path / "export")
    done = publish(Export, bench, export(bench, *common, [variant], ExportConfig(), report))
    decision = evaluated.json["decision"]
    rows = list(RecordsReader(made.records.path).iterate("test"))[:ROWS]
    names = ("age", "income", "country", "note")
    cells = [[row[name][0] for name in names] for row in rows]
    texts = [[cell.decode() if isinstance(cell, bytes) else f"{cell:.9g}" for cell in row] for row in cells]
    table = "\n".join(",".join("" if text == "nan" else text for text in row) for row in [list(names), *texts])
    (tmp_path / "rows.csv").write_text(table)
    answers = predict(done.path, [str(tmp_path / "rows.csv")])
    chances = softmax(evaluated.logits("test")[:ROWS] / decision["temperature"], axis=-1)
    expected = np.where(chances[:, 1] > decision["thresholds"]["yes"], 1, 0)
    assert [answer["class"] for answer in answers] == [("no", "yes")[number] for number in expected]
    assert (expected != chances.argmax(-1)).any(), "or the threshold shows nothing"
    confidences = [answer["confidence"] for answer in answers]
    assert confidences == pytest.approx(chances[np.arange(ROWS), expected].tolist(), abs=1e-4)
    readme = (done.path / "README.md").read_text()
    assert f"outputs / {decision['temperature']!r}" in readme
    assert f"yes is predicted where its probability is above {decision['thresholds']['yes']:.6g}" in readme

    logged = registry_home.client.create_run("0")
    registry.register(registry_home.home.mlflow_uri, logged.info.run_id, "loans", done.path, {})
    model = mlflow.pyfunc.load_model("models:/loans/1")
    raw = pd.read_csv(tmp_path / "rows.csv")
    registered = model.predict(raw)
    assert [row["class"] for row in registered] == [row["class"] for row in answers]
    assert [row["confidence"] for row in registered] == pytest.approx([row["confidence"] for row in answers], abs=1e-6)
    whole = model.predict(raw, params={"raw": True})
    assert np.allclose(whole, evaluated.logits("test")[:ROWS], atol=1e-3)
