"""Anomaly detection from the source to the report and the export; its metrics are those of scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit
from sklearn import metrics as sklearn_metrics

from tasks.artifacts import Export, Model, Records, Report, Snapshot, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.forms import Form
from tasks.compression.variants import build as compress
from tasks.config.base import Conflict
from tasks.config.compose import Config
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig, ThresholdConfig
from tasks.evaluation.report import build
from tasks.evaluation.tasks import make_judge
from tasks.evaluation.tasks.multilabel import ANOMALY_METRICS as METRICS
from tasks.evaluation.tasks.multilabel import Predictions
from tasks.exporting.config import ExportConfig
from tasks.exporting.export import build as export
from tasks.exporting.predict import predict
from tasks.exporting.score import RawSplit
from tasks.feed import open_snapshot
from tasks.models.architectures.mlp import MlpModel
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TableSnapshot
from tasks.sources import Piece, Rows, Source
from tasks.sources.features import Feature
from tasks.training.config import TrainConfig
from tasks.training.fit import fit
from tasks.training.sections import CheckpointConfig
from tests.support.pages import page_of

ROWS = 2000
SCORES = {"average_precision": sklearn_metrics.average_precision_score, "roc_auc": sklearn_metrics.roc_auc_score}
TRAIN = TrainConfig(
    steps=150, batch_size=64, learning_rate=0.01, checkpoint=CheckpointConfig(every=150), evaluate_every=150
)
EVALUATE = EvaluateConfig.model_validate(
    {
        "resamples": 200,
        "threshold": {"recall_at_false_positive_rate": 0.05},
        "groups": "machine",
        "robustness": ["noise"],
    }
)


def drawn(count: int, digits: int | None = None) -> Predictions:
    random = np.random.default_rng(count)
    truth = random.random((count, 1)) < 0.15
    logits = random.normal(0, 1, (count, 1)) + 1.2 * truth
    return Predictions(logits if digits is None else np.round(logits, digits), truth)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("digits", [None, 0], ids=["scores", "scores with ties"])
def test_metrics_and_influences_are_those_of_scikit_learn(name: str, digits: int | None) -> None:
    predictions = drawn(150, digits)
    truth, scores = predictions.truth[:, 0], predictions.logits[:, 0]
    metric = METRICS[name]
    contributions = metric.contributions(predictions)
    value = SCORES[name](truth, scores)
    assert metric.of(contributions) == pytest.approx(value, rel=1e-12)
    pseudo = metric.pseudo(contributions, None)
    assert pseudo.mean() == pytest.approx(value, rel=1e-12)
    step = 1e-6
    for row in range(0, 150, 7):  # the derivative by the weight of one example
        weights = np.ones(150)
        weights[row] += step * 150
        change = (SCORES[name](truth, scores, sample_weight=weights) - value) / step
        assert pseudo[row] - value == pytest.approx(change, rel=1e-3, abs=1e-4)


class Machines(Source):
    """Readings of machines; one of ten is broken, where two readings disagree."""

    @property
    def features(self) -> Mapping[str, Feature]:
        numbers = {name: Feature("number", "float32") for name in ("heat", "noise")}
        broken = Feature("number", "float32", role="target")
        return {**numbers, "machine": Feature("category", "string"), "broken": broken}

    def fingerprint(self) -> list[tuple[str, str]]:
        return [(f"{number:05d}", f"{number:064d}") for number in range(ROWS)]

    def pieces(self) -> list[Piece]:
        return [Piece("all", ROWS, ())]

    def read(self, piece: Piece) -> Iterator[Rows]:
        random, keys = np.random.default_rng(4), [key for key, _ in self.fingerprint()]
        broken = random.random(ROWS) < 0.1
        heat = random.normal(0, 1, ROWS)
        columns = {
            "heat": pa.array(heat.astype(np.float32)),
            "noise": pa.array((heat + random.normal(0, 0.5, ROWS) + 2.2 * broken).astype(np.float32)),
            "machine": pa.array(random.choice(["a", "b"], ROWS).tolist()),
            "broken": pa.array(broken.astype(np.float32)),
        }
        yield Rows(columns, pa.array(keys), keys.__getitem__)


def test_from_the_source_to_the_export(tf: Any, tmp_path: Path, workbench_at: Any, publish: Any) -> None:
    bench = workbench_at(tmp_path / "records")
    splits = RecordsConfig(splits={"train": 0.5, "validation": 0.25, "test": 0.25})
    made = publish(Records, bench, conversion.convert(bench, "machines", Machines(), splits))
    bench = workbench_at(tmp_path / "snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, TableSnapshot()))
    bench = workbench_at(tmp_path / "model")
    config = MlpModel(task="anomaly", units=(16,))
    model = publish(Model, bench, fit(bench, snapshot, config, TRAIN, seed=1))
    bench = workbench_at(tmp_path / "report")
    report = publish(Report, bench, build(bench, model, snapshot, made, EVALUATE))

    truth = np.asarray(open_snapshot(snapshot.path).arrays("test")["target"][:])[:, 0] > 0.5
    logits = np.load(report.path / "predictions" / "test.npy")[:, 0].astype(np.float64)
    metrics = report.metrics
    for name, score in SCORES.items():
        assert metrics[f"test/{name}"] == pytest.approx(score(truth, logits))
        assert metrics[f"test/{name}/low"] < metrics[f"test/{name}"] < metrics[f"test/{name}/high"]
    assert metrics["test/roc_auc"] > 0.9 and metrics["test/average_precision"] > 5 * truth.mean()
    assert metrics["test/random_average_precision"] == truth.mean()
    content = json.loads((report.path / "report.json").read_bytes())
    threshold = content["decision"]["thresholds"]["broken"]
    assert metrics["test/threshold/recall"] == (expit(logits) > threshold)[truth].mean() > 0.5
    assert content["splits"]["test"]["robustness"][0]["drop"]["value"] < 0.3
    assert {row["measure"] for row in content["splits"]["test"]["groups"]["rows"]} >= {"true_positive_rate"}
    whole = Config(name="machines", snapshot=TableSnapshot(), model=config, train=TRAIN, evaluate=EVALUATE)
    page = page_of(tmp_path / "home", whole, convert=made, snapshot=snapshot, evaluate=report)
    assert "average precision" in page and "of a random order: the share of anomalies" in page and "roc auc" in page

    bench = workbench_at(tmp_path / "variant")
    common = (model, snapshot, made)
    outcome = compress(bench, Form("saved_model"), *common, report, None, None, CompressConfig(), EVALUATE)
    variant = replace(publish(Variant, bench, outcome), name="saved_model")
    assert outcome.statistics["metrics"]["saved_model/test/average_precision_loss"] == pytest.approx(0, abs=1e-6)
    bench = workbench_at(tmp_path / "export")
    exported = publish(Export, bench, export(bench, *common, [variant], ExportConfig(), report))
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"heat": 0.1, "noise": noise, "machine": "a"}) + "\n" for noise in (0.2, 3.5))
    )
    usual, odd = predict(exported.path, [str(tmp_path / "rows.jsonl")])
    assert usual["predicted"] == [] and odd["predicted"] == ["broken"]
    assert usual["labels"]["broken"] < threshold < odd["labels"]["broken"]
    assert "its sigmoid is the probability of an anomaly" in (exported.path / "README.md").read_text()


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    def judge(targets: np.ndarray) -> Any:
        names = [f"t{number}" for number in range(targets.shape[1])]
        features = {
            "numbers": {"dtype": "float32", "shape": [1]},
            "target": {"dtype": "float32", "shape": [len(names)], "names": names},
        }
        arrays = {"numbers": np.zeros((len(targets), 1), np.float32), "target": targets}
        return make_judge("anomaly", RawSplit("test", features, arrays, tmp_path), EvaluateConfig())

    with pytest.raises(Failed, match="split test: none of 9 examples are anomalies"):
        judge(np.zeros((9, 1), np.float32))
    with pytest.raises(Failed, match="targets t0, t1; anomaly has one target"):
        judge(np.eye(9, 2, dtype=np.float32))
    with pytest.raises(Conflict, match="evaluate.slices"):
        EvaluateConfig(slices=("machine",)).fit("anomaly")
    EvaluateConfig(threshold=ThresholdConfig(maximize="f1")).fit("anomaly")
