"""Impossible configs are refused before anything is written, or at the latest before a process computes."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from flows.preflight import check_brought, check_formats, check_source, check_strategy
from tasks.config.compose import load
from tasks.errors import Refused
from tasks.feed.needs import check_positive, check_snapshot, check_task
from tasks.runs.home import Home
from tasks.snapshots.config import ImageSnapshot, TableSnapshot, TokensSnapshot
from tasks.snapshots.transforms.categories import Hash
from tasks.snapshots.transforms.numbers import Quantile
from tasks.sources.features import DTYPES, Feature
from tests.support.homes import DIGITS, CommandHome
from tests.support.raw_data import texts

MLP = ["--model.kind", "mlp"]
TRANSFORMER = ["--model", "{kind: transformer}"]


@pytest.mark.parametrize(
    ("flags", "field", "says"),
    [
        ([*MLP, "--model.task", "regression"], "model.task", "use model.task classification"),
        (["--source.dataset", "digits_traits"], "model.task", "use model.task multilabel or anomaly"),
        (["--source.dataset", "diabetes"], "snapshot.kind", "use snapshot.kind table"),
        (["--snapshot.kind", "tokens", *TRANSFORMER], "snapshot.kind", "use snapshot.kind image or table"),
        (["--train.class_weights", "{'0': 2.0}"], "train.class_weights", "must name every class: 0, 1, 2"),
        (["--model.filters", "[4, 4, 4, 4]"], "model.filters", "have room for 3"),
    ],
)
def test_an_impossible_combination_is_refused_before_anything_is_written(
    flags: list[str], field: str, says: str, tmp_path: Path
) -> None:
    answer = CommandHome(tmp_path / "home").here("run", "pipeline", DIGITS, *flags, "--json")
    assert answer.code == 2, answer.stderr
    assert answer.json["error"]["field"] == field
    assert says in answer.stderr.splitlines()[-1]
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(("address", "saw"), [("foo://bar", "foo://…"), ("/tmp/mlruns", "a path")])
def test_an_address_that_mlflow_does_not_know_is_refused_before_anything_is_written(
    address: str, saw: str, tmp_path: Path
) -> None:
    home = CommandHome(tmp_path / "home", given={"MLFLOW_TRACKING_URI": address})
    answer = home.here("run", "dataset", DIGITS, "--json")
    assert answer.code == 2, answer.stderr
    assert (answer.json["error"]["field"], answer.json["error"]["saw"]) == ("MLFLOW_TRACKING_URI", saw)
    assert not home.root.exists()


def test_a_model_is_released_for_the_task_that_it_was_trained_for(finished: CommandHome, tmp_path: Path) -> None:
    home = finished.copied_to(tmp_path / "home")
    [model] = (home.root / "store/model").iterdir()
    answer = home.here(
        "run", "release", DIGITS, "--release.model", model.name, *MLP, "--model.task", "regression", "--json"
    )
    assert answer.code == 2, answer.stderr
    assert "was trained for classification" in answer.json["error"]["rule"]


def test_text_is_no_source_of_images(tmp_path: Path) -> None:
    folder = texts(tmp_path / "book", 3)
    preset = tmp_path / "bad.yaml"
    preset.write_text(
        f"name: bad\nsource: {{kind: text_files, path: {folder}, glob: '**/*.md'}}\ntrain: {{steps: 3}}\n"
    )
    answer = CommandHome(tmp_path / "home").here("run", "dataset", preset, "--json")
    assert answer.code == 2, answer.stderr
    assert "use snapshot.kind tokens" in answer.json["error"]["remedy"]


def feature(kind: Any, **more: Any) -> dict[str, Any]:
    """A feature of a source, as of `Feature.as_json`."""
    return Feature(kind, DTYPES[kind], **more).as_json()


def test_the_verbs_check_artifacts_of_the_store_alike() -> None:
    """Where Prefect starts the flow, no command has looked at the source."""
    key, label = feature("key", role="key"), feature("label", role="label", classes=("cat", "dog"))
    photo, price, town = feature("image"), feature("number"), feature("category")
    check_snapshot({"key": key, "prose": feature("text")}, TokensSnapshot())
    check_snapshot({"key": key, "photo": photo, "label": label}, ImageSnapshot())
    transforms = {"price": Quantile(), "town": Hash()}
    check_snapshot({"key": key, "price": price, "town": town}, TableSnapshot(transforms=transforms))
    with pytest.raises(Refused, match=r"of type image, and the source has prose \(text\); use .* tokens or table"):
        check_snapshot({"key": key, "prose": feature("text")}, ImageSnapshot())
    with pytest.raises(Refused, match=r"one input, of type image, .* photo \(image\), price \(number\); use .* table"):
        check_snapshot({"photo": photo, "price": price}, ImageSnapshot())
    with pytest.raises(Refused, match="the source has only key, label"):
        check_snapshot({"key": key, "label": label}, TableSnapshot())
    with pytest.raises(Refused, match="hash; takes a column of type category, and this one is of type number"):
        check_snapshot({"price": price}, TableSnapshot(transforms={"price": Hash()}))
    with pytest.raises(Refused, match="source.columns: row; an array of a snapshot has this name"):
        check_snapshot({"row": feature("text")}, TableSnapshot())
    with pytest.raises(Refused, match="label is the label; only inputs of the model are transformed"):
        check_snapshot({"price": price, "label": label}, TableSnapshot(transforms={"label": Hash()}))


def test_a_task_is_checked_by_roles() -> None:
    """Those of a source and of records; a snapshot's features are named for them."""
    weights = {"cat": 1.0}
    check_task({"species": feature("label", role="label", classes=("cat",))}, "classification", weights)
    check_task({"image": {}, "label": {"classes": ["cat"]}}, "classification", weights)
    check_task({"species": feature("label", role="label")}, "classification", weights)
    check_task({"price": feature("number", role="target")}, "regression", None)
    of_two = {"image": {}, "label": {"classes": ["cat", "dog"]}}
    for named in ({"dog": 2.0, "cat": 1.0}, "balanced", None):
        check_task(of_two, "classification", named)
    for named in (weights, {"cat": 1.0, "dog": 1.0, "cow": 1.0}):
        with pytest.raises(Refused, match=r"train.class_weights: (dog|cow); must name every class: cat, dog"):
            check_task(of_two, "classification", named)
    with pytest.raises(Refused, match="choose a source that has one"):
        check_task({"image": {}}, "regression", None)
    with pytest.raises(Refused, match="learns a label, and there are label, price; use model.task multilabel or"):
        features = {"label": feature("category"), "price": feature("number", role="target")}
        check_task(features, "classification", None)


def test_a_positive_class_is_one_of_the_classes() -> None:
    """Where only the data names the classes they are not known yet."""
    named = {"left": feature("label", role="label", classes=("no", "yes")), "age": feature("number")}
    for features, positive in ((named, "yes"), (named, None), ({"left": feature("label", role="label")}, "maybe")):
        check_positive(features, positive)
    with pytest.raises(Refused, match="evaluate.positive: maybe; the classes are no, yes; name one of them"):
        check_positive(named, "maybe")


BEFORE_ALL: dict[str, tuple[list[tuple[str, str]], str, set[str]]] = {
    "strategy": ([("train.strategy", "{kind: horovod, workers: 2}")], "train.strategy.kind", {"dataset", "release"}),
    "format": ([("export.formats", "[saved_model, onnx]")], "export.formats", {"dataset", "training"}),
    "metric": ([("evaluate.own_metrics", "{mine: nowhere.py:mine}")], "evaluate.own_metrics", {"dataset"}),
    "teacher": (
        [("compress.methods", "[{kind: distill, student: {kind: mlp}, teacher: abc, fine_tune: {steps: 9}}]")],
        "compress.methods",
        {"dataset", "training"},
    ),
    "weights": ([("train.init", "{kind: file, path: /nowhere.keras}")], "train.init.path", {"dataset", "release"}),
    "loss": ([("train.loss", "nowhere.py:mine")], "train.loss", {"dataset", "release"}),
    "model": ([("model", "{kind: import, target: 'nowhere.py:mine'}")], "model.target", {"dataset", "release"}),
    "stored": ([("train.init", "{kind: model, model: abc}")], "train.init.model", {"dataset", "release"}),
    "source": ([("source", "{kind: image_folder, path: /nowhere}")], "source.path", {"release"}),
}
"""Flags that nothing can be made of, the field that is refused, and the flows that have no use for it."""


@pytest.mark.parametrize("name", BEFORE_ALL)
def test_each_flow_refuses_what_it_would_use_and_no_more(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(package: str) -> str:
        if package in ("horovod", "onnx"):
            raise PackageNotFoundError(package)
        return "1"

    monkeypatch.setattr("tasks.training.strategies.version", version)
    monkeypatch.setattr("tasks.exporting.version", version)
    flags, field, unused = BEFORE_ALL[name]
    flags = [(key, value.replace("/nowhere", str(tmp_path / "nowhere"))) for key, value in flags]
    config = load(DIGITS, flags)
    home = Home(tmp_path)
    for flow in ("dataset", "training", "tuning", "pipeline", "release"):
        checks = (check_strategy, check_formats, lambda flow, config: check_brought(flow, config, home), check_source)
        refused = []
        for check in checks:
            try:
                check(flow, config)
            except Refused as error:
                refused.append(error.field)
        assert refused == ([] if flow in unused else [field]), flow


@pytest.mark.parametrize("place", ["", "store", "runs"])
def test_a_home_of_which_a_folder_cannot_be_written_is_refused_at_once(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also its own, where databases and locks are; whoever runs the tests may be permitted to write everywhere."""
    home, denied = Home(tmp_path).make(), tmp_path / place
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != denied or not mode & os.W_OK)
    assert home.readable() is home
    with pytest.raises(Refused, match=f"{re.escape(str(denied))}: not writable; the home must be a folder"):
        home.make()
