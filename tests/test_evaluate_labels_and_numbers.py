"""Multilabel and regression on real data: from the source to the report, the variants and the raw file."""

import json

import numpy as np
import pytest
from PIL import Image
from sklearn import metrics as sklearn_metrics
from sklearn.dummy import DummyRegressor

from tasks.artifacts import Model, Records, Report, Snapshot
from tasks.config.compose import Config
from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build
from tasks.exporting.predict import predict
from tasks.exporting.score import score
from tasks.feed import open_snapshot
from tasks.models.architectures.mlp import MlpModel
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import ImageSnapshot, TableSnapshot
from tasks.sources.kinds.catalogues import SklearnSource
from tasks.training.config import TrainConfig
from tasks.training.fit import fit
from tasks.training.optimizers import AdamW
from tasks.training.schedules import Cosine
from tasks.training.sections import CheckpointConfig
from tests.support.chain import chain
from tests.support.homes import CommandHome
from tests.support.pages import Loads, page_of

SPLITS = {"train": 0.6, "validation": 0.15, "test": 0.25}
TRAIN = TrainConfig(
    steps=300,
    batch_size=32,
    optimizer=AdamW(),
    learning_rate=0.005,
    schedule=Cosine(warmup=10),
    checkpoint=CheckpointConfig(every=300),
    evaluate_every=300,
)
JOBS = {
    "multilabel": ("digits_traits", ImageSnapshot(height=8, width=8, channels=1)),
    "regression": ("diabetes", TableSnapshot(shards=2)),
}


@pytest.fixture(scope="module", params=list(JOBS))
def job(request, tf, tmp_path_factory, workbench_at, publish):
    """(task, records, snapshot, model, report) of a real training of seconds."""
    task = request.param
    dataset, layout = JOBS[task]
    root = tmp_path_factory.mktemp(task)
    bench = workbench_at(root / "records")
    made = publish(
        Records, bench, conversion.build(bench, SklearnSource(dataset=dataset), RecordsConfig(splits=SPLITS))
    )
    bench = workbench_at(root / "snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, layout))
    bench = workbench_at(root / "model")
    train = TRAIN.model_copy(update={"loss": TASKS[task].losses[-1]})  # of a regression not the default
    model = publish(Model, bench, fit(bench, snapshot, MlpModel(task=task, units=(32,)), train, seed=1))
    bench = workbench_at(root / "report")
    report = publish(Report, bench, build(bench, model, snapshot, made, EvaluateConfig(resamples=200)))
    return task, made, snapshot, model, report


def test_report_has_the_tasks_metrics_as_scikit_learn_counts_them(job):
    task, _, snapshot, _, report = job
    truth = np.asarray(open_snapshot(snapshot.path).arrays("test")["target"][:])
    answers = np.load(report.path / "predictions" / "test.npy")
    metrics = report.metrics
    if task == "multilabel":
        for average in ("macro", "micro"):
            expected = sklearn_metrics.f1_score(truth > 0.5, answers > 0, average=average)
            assert metrics[f"test/{average}_f1"] == pytest.approx(expected)
        assert metrics["test/label_accuracy"] == pytest.approx(((answers > 0) == (truth > 0.5)).mean())
        assert metrics["test/macro_f1"] > 0.9
        every = sklearn_metrics.f1_score(truth > 0.5, truth == truth, average="macro")
        assert metrics["test/all_labels_macro_f1"] == pytest.approx(every)
        labels = json.loads((report.path / "report.json").read_bytes())["splits"]["test"]["classes"]
        assert [row["class"] for row in labels] == ["at_least_five", "closed_loop", "even"]
    else:
        assert metrics["test/rmse"] == pytest.approx(sklearn_metrics.root_mean_squared_error(truth, answers))
        assert metrics["test/mae"] == pytest.approx(sklearn_metrics.mean_absolute_error(truth, answers))
        assert metrics["test/r2"] == pytest.approx(sklearn_metrics.r2_score(truth, answers))
        assert metrics["test/r2"] > 0.25
        mean = DummyRegressor().fit(truth, truth).predict(truth).reshape(truth.shape)
        assert metrics["test/mean_rmse"] == pytest.approx(sklearn_metrics.root_mean_squared_error(truth, mean))
        assert metrics["test/loss"] == metrics["test/mae"], "what was minimised: absolute_error"
        assert metrics["test/loss/high"] == metrics["test/mae/high"] != metrics["test/rmse/high"]
    metric, _ = EvaluateConfig().primary_of(task)
    assert metrics[f"test/{metric}/low"] < metrics[f"test/{metric}"] < metrics[f"test/{metric}/high"]
    (picture,) = (report.path / "pictures").glob("*.png")
    with Image.open(picture) as image:
        assert min(image.size) > 250


def test_the_page_shows_each_label_and_the_numbers_it_was_furthest_from(job, tmp_path):
    task, made, snapshot, _, report = job
    dataset, layout = JOBS[task]
    model = MlpModel(task=task, units=(32,))
    config = Config(name=task, source=SklearnSource(dataset=dataset), snapshot=layout, model=model, train=TRAIN)
    page = page_of(tmp_path, config, convert=made, snapshot=snapshot, evaluate=report)
    shown = Loads(page).text
    test_split = json.loads((report.path / "report.json").read_bytes())["splits"]["test"]
    assert f"and {test_split['examples']} test examples; of " in shown
    if task == "multilabel":
        assert "Precision, recall and F1 of each class, on the test split" in shown and "macro f1" in shown
        for row in test_split["classes"]:
            assert row["class"] in shown and f"{row['f1']:.4f}" in shown
    else:
        assert "progression" in shown and "predicted" in shown and "lower is better" in shown
        for row in test_split["furthest"]:
            assert row["key"] in shown and f"{row['predicted'][0]:.5g}" in shown
        first = np.asarray(open_snapshot(snapshot.path).arrays("test")["numbers"][test_split["furthest"][0]["row"]])
        assert "<th>age</th>" in page and f">{first[0]:.4g}</td>" in page
        assert len(test_split["slices"]) == 4 and "rmse by slice" in shown
        assert sum(row["examples"] for row in test_split["slices"]) == test_split["examples"]
        assert all(row["slice"] in shown for row in test_split["slices"])


@pytest.mark.slow
def test_chain_exports_what_answers_raw_files_alike(job, bench, tmp_path):
    task, made, snapshot, model, report = job
    chain(tmp_path / "1", model, snapshot, made)
    export = tmp_path / "1" / "export"
    metric, _ = EvaluateConfig().primary_of(task)
    scores = score(bench, export, made.path, "test", EvaluateConfig())
    for name in (metric, "loss"):
        assert scores[name] == pytest.approx(report.metrics[f"test/{name}"], rel=1e-4)
    arrays = open_snapshot(snapshot.path).arrays("test")
    expected = np.load(report.path / "predictions" / "test.npy")[0]
    if task == "multilabel":
        Image.fromarray(np.asarray(arrays["image"][0])[..., 0]).save(tmp_path / "digit.png")
        (row,) = predict(export, [str(tmp_path / "digit.png")])
        assert list(row["labels"].values()) == pytest.approx((1 / (1 + np.exp(-expected))).tolist(), abs=1e-4)
        return
    values = ",".join(str(value) for value in arrays["numbers"][0])
    columns = json.loads((export / "transform" / "transform.json").read_bytes())["columns"]
    names = ",".join(column["name"] for column in columns)
    (tmp_path / "rows.csv").write_text(f"{names}\n{values}\n{values}\n")
    first, second = predict(export, [str(tmp_path / "rows.csv")])
    assert first["values"] == second["values"] == {"progression": pytest.approx(float(expected[0]), rel=1e-4)}
    (tmp_path / "bad.csv").write_text(f"{names}\n{values.replace(values.partition(',')[0], 'many', 1)}\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    bad, no_text, *good = predict(export, [str(tmp_path / name) for name in ("bad.csv", "bytes.csv", "rows.csv")])
    assert str(Failed(**bad["error"])).startswith(f"{tmp_path}/bad.csv:1: column age: 'many'; must be a decimal")
    assert "must be text in utf-8" in no_text["error"]["rule"]
    assert [row["values"] for row in good] == [first["values"], second["values"]]


def test_a_task_without_its_targets_is_refused():
    features = {"image": {"shape": [4, 4, 1], "dtype": "uint8"}, "label": {"classes": ["a", "b"]}}
    with pytest.raises(Failed, match="multilabel and regression need a feature target"):
        MlpModel(task="regression").build(features, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("task", list(JOBS))
def test_command_runs_each_task(task, tmp_path):
    dataset, layout = JOBS[task]
    words = [
        "--name",
        task,
        "--source.kind",
        "sklearn",
        "--source.dataset",
        dataset,
        "--snapshot.kind",
        layout.kind,
        "--model.kind",
        "mlp",
    ]
    words += ["--model.task", task, "--train.steps", "120", "--train.batch_size", "32"]
    answer = CommandHome(tmp_path / "home")("run", "training", *words, "--json")
    assert answer.code == 0, answer.stderr
    assert f"test/{EvaluateConfig().primary_of(task)[0]}" in answer.json["metrics"]
