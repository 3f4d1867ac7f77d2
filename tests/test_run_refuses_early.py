"""Impossible configs are refused before anything is written, or at the latest before a process computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.config.train import TrainConfig
from tasks.data.needs import check_snapshot, check_task
from tasks.errors import Refused
from tests.homes import DIGITS, CommandHome
from tests.test_init_presets import texts

MLP = ["--model.kind", "mlp"]


@pytest.mark.parametrize(
    ("flags", "field", "says"),
    [
        ([*MLP, "--model.task", "regression"], "model.task", "use model.task classification"),
        (["--source.dataset", "digits_traits"], "model.task", "use model.task multilabel or regression"),
        (["--source.dataset", "diabetes"], "snapshot.kind", "use snapshot.kind table"),
        (["--snapshot.kind", "table", *MLP], "snapshot.kind", "use snapshot.kind image"),
        (["--train.class_weights", "{'0': 2.0}"], "train.class_weights", "must name every class: 0, 1, 2"),
        (["--model.filters", "[4, 4, 4, 4]"], "model.filters", "have room for 3"),
    ],
)
def test_an_impossible_combination_is_refused_before_anything_is_written(
    flags: list[str], field: str, says: str, tmp_path: Path
) -> None:
    answer = CommandHome(tmp_path / "home")("run", "pipeline", DIGITS, *flags, "--json")
    assert answer.code == 2, answer.stderr
    assert answer.json["error"]["field"] == field
    assert says in answer.stderr.splitlines()[-1]
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(("address", "saw"), [("foo://bar", "foo://…"), ("/tmp/mlruns", "a path")])
def test_an_address_that_mlflow_does_not_know_is_refused_before_anything_is_written(
    address: str, saw: str, tmp_path: Path
) -> None:
    home = CommandHome(tmp_path / "home", given={"MLFLOW_TRACKING_URI": address})
    answer = home("run", "dataset", DIGITS, "--json")
    assert answer.code == 2, answer.stderr
    assert (answer.json["error"]["field"], answer.json["error"]["saw"]) == ("MLFLOW_TRACKING_URI", saw)
    assert not home.root.exists()


def test_a_model_is_released_for_the_task_that_it_was_trained_for(finished: CommandHome, tmp_path: Path) -> None:
    home = finished.copied_to(tmp_path / "home")
    [model] = (home.root / "store/model").iterdir()
    answer = home("run", "release", DIGITS, "--release.model", model.name, *MLP, "--model.task", "regression", "--json")
    assert answer.code == 2, answer.stderr
    assert "was trained for classification" in answer.json["error"]["rule"]


def test_text_is_no_source_of_images(tmp_path: Path) -> None:
    folder = texts(tmp_path / "book", 3)
    preset = tmp_path / "bad.yaml"
    preset.write_text(
        f"name: bad\nsource: {{kind: text_files, path: {folder}, glob: '**/*.md'}}\ntrain: {{steps: 3}}\n"
    )
    answer = CommandHome(tmp_path / "home")("run", "dataset", preset, "--json")
    assert answer.code == 2, answer.stderr
    assert "use snapshot.kind tokens" in answer.json["error"]["remedy"]


def test_the_verbs_check_artifacts_of_the_store_alike() -> None:
    """Where Prefect starts the flow, no command has looked at the source."""
    text = {"key": {"kind": "bytes"}, "text": {"kind": "bytes"}}
    check_snapshot(text, "tokens")
    with pytest.raises(Refused, match="is made of a feature image"):
        check_snapshot(text, "image")
    train = TrainConfig(steps=1, class_weights={"cat": 1.0})
    check_task({"image": {}, "label": {"classes": ["cat"]}}, "classification", train)
    with pytest.raises(Refused, match="must name every class: cat, dog"):
        check_task({"image": {}, "label": {"classes": ["cat", "dog"]}}, "classification", train)
    with pytest.raises(Refused, match="choose a source that has one"):
        check_task({"image": {}}, "regression", TrainConfig(steps=1))
