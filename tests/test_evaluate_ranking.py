"""Ranking by query, from the source to the report and the export; its metrics by reference implementations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import ndcg_score

from tasks.artifacts import Export, Model, Records, Report, Snapshot, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.forms import Form
from tasks.compression.variants import build as compress
from tasks.config.base import Conflict
from tasks.config.compose import Config
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build
from tasks.evaluation.tasks.ranking import METRICS, Predictions
from tasks.exporting.config import ExportConfig
from tasks.exporting.export import build as export
from tasks.exporting.predict import predict
from tasks.exporting.score import score
from tasks.feed import open_snapshot
from tasks.models.architectures.mlp import MlpModel
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TableSnapshot
from tasks.sources import Piece, Rows, Source
from tasks.sources.features import Feature
from tasks.training.config import TrainConfig
from tasks.training.fit import fit
from tasks.training.sections import CheckpointConfig
from tests.support.pages import page_of

QUERIES, DOCUMENTS = 240, 8
TRAIN = TrainConfig(
    steps=150, batch_size=64, learning_rate=0.01, checkpoint=CheckpointConfig(every=150), evaluate_every=150
)
EVALUATE = EvaluateConfig.model_validate(
    {
        "resamples": 200,
        "at": 3,
        "robustness": ["noise"],
        "slices": ["country", "age > -1"],
        "find_slices": 3,
        "groups": "country",
    }
)
COUNTRIES = ("de", "fr", "it")


class Searches(Source):
    """Documents that were found for queries; of some queries none is relevant, and of some there is one alone."""

    def __init__(self, role: str = "group") -> None:
        self.role = role

    @property
    def features(self) -> Mapping[str, Feature]:
        numbers = {name: Feature("number", "float32") for name in ("match", "age")}
        query = Feature("category", "string", role=self.role)  # type: ignore[arg-type]
        country = Feature("category", "string", role="time")  # no input, and the same in each query
        return {**numbers, "query": query, "country": country, "relevant": Feature("number", "float32", role="target")}

    def fingerprint(self) -> list[tuple[str, str]]:
        return [(f"{number:05d}", f"{number:064d}") for number in range(QUERIES * DOCUMENTS)]

    def pieces(self) -> list[Piece]:
        return [Piece("all", QUERIES * DOCUMENTS, ())]

    def read(self, piece: Piece) -> Iterator[Rows]:
        random, keys = np.random.default_rng(4), [key for key, _ in self.fingerprint()]
        match = random.normal(0, 1, len(keys))
        query = np.repeat(np.arange(QUERIES), DOCUMENTS)
        query[query == 7] = np.arange(QUERIES, QUERIES + DOCUMENTS)  # each alone
        signal = np.where(query % 3 == 2, -match, match)  # in the third country the model ranks the wrong way round
        relevant = random.random(len(keys)) < 1 / (1 + np.exp(2.5 - 2 * signal))
        columns = {
            "match": pa.array(match.astype(np.float32)),
            "age": pa.array(random.normal(0, 1, len(keys)).astype(np.float32)),
            "query": pa.array([f"q{number}" for number in query]),
            "country": pa.array([COUNTRIES[number % 3] for number in query.tolist()]),
            "relevant": pa.array(relevant.astype(np.float32)),
        }
        yield Rows(columns, pa.array(keys), keys.__getitem__)


def reference(logits: np.ndarray, truth: np.ndarray, query: np.ndarray, at: int) -> dict[str, float]:
    """NDCG by scikit-learn, and the others by sorting, over the queries with a relevant document and another one."""
    values: dict[str, list[float]] = {"ndcg": [], "mrr": [], "recall": []}
    for name in sorted(set(query.tolist())):
        own = query == name
        if own.sum() < 2 or not truth[own].any():
            continue
        order = np.argsort(-logits[own])
        hits = truth[own][order]
        values["ndcg"].append(ndcg_score([truth[own]], [logits[own]], k=at))
        values["mrr"].append(1 / (1 + int(hits.argmax())))
        values["recall"].append(hits[:at].sum() / hits.sum())
    return {name: float(np.mean(each)) for name, each in values.items()} | {"queries": len(values["mrr"])}


def made_of(root: Path, source: Source, workbench_at: Any, publish: Any) -> tuple[Records, Snapshot, Model]:
    bench = workbench_at(root / "records")
    splits = RecordsConfig(splits={"train": 0.5, "validation": 0.2, "test": 0.3})
    made = publish(Records, bench, conversion.convert(bench, "searches", source, splits))
    bench = workbench_at(root / "snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, TableSnapshot()))
    bench = workbench_at(root / "model")
    config = MlpModel(task="ranking", units=(16,))
    return made, snapshot, publish(Model, bench, fit(bench, snapshot, config, TRAIN, seed=1))


def test_from_the_source_to_the_export(tf: Any, tmp_path: Path, workbench_at: Any, publish: Any) -> None:
    made, snapshot, model = made_of(tmp_path, Searches(), workbench_at, publish)
    bench = workbench_at(tmp_path / "report")
    report = publish(Report, bench, build(bench, model, snapshot, made, EVALUATE))

    truth = np.asarray(open_snapshot(snapshot.path).arrays("test")["target"][:])[:, 0] > 0.5
    logits = np.load(report.path / "predictions" / "test.npy")[:, 0].astype(np.float64)
    query = np.array([bytes(row["query"][0]).decode() for row in RecordsReader(made.path).iterate("test")])
    expected, metrics = reference(logits, truth, query, at=3), report.metrics
    test = json.loads((report.path / "report.json").read_bytes())["splits"]["test"]
    assert test["examples"] == expected.pop("queries") < len(set(query.tolist()))
    assert test["queries_left_out"] == len(set(query.tolist())) - test["examples"]
    for name, value in expected.items():
        assert metrics[f"test/{name}"] == pytest.approx(value), name
        assert metrics[f"test/{name}/low"] < value < metrics[f"test/{name}/high"]
    assert metrics["test/ndcg"] > metrics["test/random_ndcg"] + 0.1
    assert test["robustness"][0]["drop"]["low"] <= test["robustness"][0]["drop"]["value"]
    check_slices(
        test, truth, logits, query, np.array([row["age"][0] for row in RecordsReader(made.path).iterate("test")])
    )
    whole = Config(name="s", snapshot=TableSnapshot(), model=MlpModel(task="ranking"), train=TRAIN, evaluate=EVALUATE)
    page = page_of(tmp_path / "home", whole, convert=made, snapshot=snapshot, evaluate=report)
    assert f"and {test['examples']} test queries" in page and "of a random order" in page
    assert "more in part)" in page and "without age, match, which differ within an example" in page

    bench = workbench_at(tmp_path / "variant")
    common = (model, snapshot, made)
    outcome = compress(bench, Form("saved_model"), *common, report, None, None, CompressConfig(), EVALUATE)
    variant = replace(publish(Variant, bench, outcome), name="saved_model")
    assert outcome.statistics["metrics"]["saved_model/test/ndcg_loss"] == pytest.approx(0, abs=1e-6)
    bench = workbench_at(tmp_path / "export")
    exported = publish(Export, bench, export(bench, *common, [variant], ExportConfig()))
    scores = score(workbench_at(tmp_path / "score"), exported.path, made.path, "test", EVALUATE)
    assert scores["ndcg"] == pytest.approx(metrics["test/ndcg"], rel=1e-5) and scores["examples"] == test["examples"]
    rows = "".join(json.dumps({"match": match, "age": 0.0}) + "\n" for match in (-1.0, 2.0))
    (tmp_path / "rows.jsonl").write_text(rows)
    low, high = predict(exported.path, [str(tmp_path / "rows.jsonl")])
    assert low["labels"]["relevant"] < 0.2 < high["labels"]["relevant"] and "predicted" not in low
    assert "by which the documents of a query are ordered" in (exported.path / "README.md").read_text()


def check_slices(
    test: dict[str, Any], truth: np.ndarray, logits: np.ndarray, query: np.ndarray, age: np.ndarray
) -> None:
    """Those of queries all of whose documents match, and the worst one, of the country that differs."""
    names = [name for name in sorted(set(query.tolist())) if (query == name).sum() > 1 and truth[query == name].any()]
    slices = {row["slice"]: row for row in test["slices"]}
    older = {name for name in names if (age[query == name] > -1).all()}
    some = {name for name in names if (age[query == name] > -1).any()} - older
    sets = {"age > -1": older} | {
        f"country = {country}": {name for name in names if int(name[1:]) % 3 == number}
        for number, country in enumerate(COUNTRIES)
    }
    assert len(older) >= 5 and slices["age > -1"]["divided"] == len(some) and "divided" not in slices["country = it"]
    for name, queries in sets.items():
        inside = np.isin(query, sorted(queries))
        assert slices[name]["examples"] == len(queries)
        expected = reference(logits[inside], truth[inside], query[inside], at=3)["ndcg"]
        assert slices[name]["value"] == pytest.approx(expected), name
        assert slices[name]["low"] < slices[name]["value"] < slices[name]["high"]
    [worst, *_] = test["worst_slices"]["slices"]
    assert worst["slice"] == "country = it" and worst["beyond_chance"]
    assert worst["examples"] == len(sets["country = it"])
    assert set(test["worst_slices"]["columns_left_out"]) == {"age", "match"}
    compared = {row["group"]: row for row in test["groups"]["rows"]}
    assert (
        compared["country = it"]["value"] == pytest.approx(worst["value"]) and compared["country = it"]["beyond_chance"]
    )


def test_equal_scores_are_no_luck() -> None:
    truth = np.array([[False], [True], [False], [True]])
    predictions = Predictions(np.zeros((4, 1)), truth, np.zeros(4, int), at=2)
    values = {name: metric(predictions) for name, metric in METRICS.items()}
    assert values["mrr"] == pytest.approx(1 / 3), "two irrelevant ones come first"
    assert values["recall"] == 0.0, "and fill the first two ranks"
    assert values["ndcg"] == pytest.approx(0.5), "the mean of all orders"
    assert values["loss"] == pytest.approx(np.log(2))


def test_of_equal_scores_the_worst_order_counts_and_nothing_below_it() -> None:
    random = np.random.default_rng(4)
    for _ in range(60):
        count, at = int(random.integers(2, 7)), int(random.integers(1, 5))
        scores, truth = random.integers(0, 3, count).astype(float), random.random(count) < 0.5
        truth[0] = True
        orders = [order for order in permutations(range(count)) if (np.diff(scores[list(order)]) <= 0).all()]
        relevant = [truth[list(order)] for order in orders]
        predictions = Predictions(scores[:, None], truth[:, None], np.zeros(count, int), at=at)
        assert METRICS["mrr"](predictions) == pytest.approx(min(1 / (each.argmax() + 1) for each in relevant))
        assert METRICS["recall"](predictions) == pytest.approx(min(each[:at].sum() / each.sum() for each in relevant))


@pytest.mark.parametrize("digits", [6, 0], ids=["scores", "scores with ties"])
def test_the_gain_is_that_of_scikit_learn(digits: int) -> None:
    random = np.random.default_rng(2)
    query = random.integers(-1, 40, 400)
    query[query >= 0] = np.unique(query[query >= 0], return_inverse=True)[1]
    logits, truth = np.round(random.normal(0, 1, (400, 1)), digits), random.random((400, 1)) < 0.4
    values = METRICS["ndcg"].contributions(Predictions(logits, truth, query, at=4))[:, 0]
    for number, value in enumerate(values):
        own = query == number
        assert value == pytest.approx(ndcg_score([truth[own, 0]], [logits[own, 0]], k=4)), number
    assert len(values) == query.max() + 1 > 30


def test_records_without_queries_and_settings_without_use_are_refused(
    tf: Any, tmp_path: Path, workbench_at: Any, publish: Any
) -> None:
    made, snapshot, model = made_of(tmp_path, Searches(role="input"), workbench_at, publish)
    with pytest.raises(Failed, match=r"model.task: columns .*query.*; set source.group"):
        build(workbench_at(tmp_path / "report"), model, snapshot, made, EVALUATE)
    for name, value in (("threshold", {"maximize": "f1"}), ("calibrate", "temperature")):
        with pytest.raises(Conflict, match=f"evaluate.{name}"):
            EvaluateConfig.model_validate({name: value}).fit("ranking")
    with pytest.raises(Conflict, match="evaluate.at"):
        EvaluateConfig(at=5).fit("regression")
