"""The report of a model trained on digits."""

import io
import json

import matplotlib
import numpy as np
from PIL import Image
from sklearn.dummy import DummyClassifier

from tasks.artifacts import Report
from tasks.evaluation import pictures
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build
from tasks.feed import open_snapshot


def test_report_says_how_good_how_sure_and_where_wrong(digits, benches, publish):
    bench = benches("report")
    outcome = build(bench, digits.model, digits.snapshot, digits.records, EvaluateConfig(resamples=200))
    report = publish(Report, bench, outcome)
    report_json = json.loads((report.path / "report.json").read_bytes())
    snapshot = open_snapshot(digits.snapshot.path)
    for split in ("validation", "test"):
        labels = np.asarray(snapshot.arrays(split)["label"])
        logits = np.load(report.path / "predictions" / f"{split}.npy")
        right = logits.argmax(-1) == labels
        assert logits.dtype == np.float32
        assert report.metrics[f"{split}/accuracy"] == right.mean() > 0.9
        assert report.metrics[f"{split}/majority_accuracy"] == DummyClassifier().fit(labels, labels).score(
            labels, labels
        )
        assert (
            report.metrics[f"{split}/loss/low"] < report.metrics[f"{split}/loss"] < report.metrics[f"{split}/loss/high"]
        )
        slices = {row["slice"]: row for row in report_json["splits"][split]["slices"]}
        for number in range(10):
            own = slices[f"label {number}"]
            assert own["value"] == right[labels == number].mean()
            assert own["examples"] == (labels == number).sum()
            assert own["low"] <= own["value"] <= own["high"] and own["low"] < own["high"]
        classes = report_json["splits"][split]["classes"]
        assert [row["support"] for row in classes] == np.bincount(labels, minlength=10).tolist()
        for row in report_json["splits"][split]["most_wrong"]:
            assert not right[row["row"]]
            assert row["label"] == str(labels[row["row"]])
            assert [row["key"]] == snapshot.keys(split, [row["row"]], digits.records.path)
        sure = [row["confidence"] for row in report_json["splits"][split]["most_wrong"]]
        assert sure == sorted(sure, reverse=True)
    for name in ("confusion", "reliability", "curves", "most_wrong"):
        with Image.open(report.path / "pictures" / f"{name}.png") as image:
            assert min(image.size) > 300


def test_report_repeats_its_bytes(digits, benches):
    folders = []
    for name in ("one", "two"):
        bench = benches(name)
        build(bench, digits.model, digits.snapshot, digits.records, EvaluateConfig(resamples=100, metrics=("loss",)))
        folders.append(bench.staging.root)
    names = [path.relative_to(folders[0]) for path in sorted(folders[0].rglob("*")) if path.is_file()]
    assert len(names) >= 7
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_a_plot_is_drawn_as_matplotlib_saves_it():
    """It is drawn in one pass, with its layout computed before."""
    random = np.random.default_rng(0)
    confidence, correct = random.random(200), random.random(200) < 0.5
    drawn = pictures.reliability(confidence, correct, 15, "title")
    buffer = io.BytesIO()
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **pictures.STYLE}):
        figure = pictures.reliability.__wrapped__(confidence, correct, 15, "title")
        figure.savefig(buffer, format="png", metadata={"Software": None})
    assert drawn == buffer.getvalue()
