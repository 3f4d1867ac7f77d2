"""`millrace new`: what it writes for data of each kind, and what it refuses."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from flows.commands.new import CONSTRAINTS, files_of, with_own_code, write_table
from flows.deploying import read_preset
from tasks.config.compose import load, portable
from tasks.guess import Choices, guess_source
from tests.support.homes import ROOT, CommandHome

FILES = {".gitignore", "README.md", "constraints.txt", "model.py", "prefect.yaml", "test_model.py"}


def test_a_project_has_a_preset_a_model_a_test_deployments_and_the_commands_of_a_day(tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    answer = home("new", str(tmp_path / "own"), "--json")
    assert answer.code == 0, answer.stderr
    assert set(answer.json["files"]) == {*FILES, "tumours.yaml", "data/tumours.csv"}
    own = tmp_path / "own"
    config = load(own / "tumours.yaml")
    assert config.model.kind == "import" and config.evaluate.own_metrics == {"wrong": "model:wrong"}
    assert config.source.path == str(own / "data/tumours.csv")
    deployments = yaml.safe_load((own / "prefect.yaml").read_text())["deployments"]
    assert [each["name"] for each in deployments] == ["tumours", "nightly"]
    assert not any(schedule["active"] for each in deployments for schedule in each["schedules"])
    readme = (own / "README.md").read_text()
    assert "millrace run tumours.yaml" in readme and "{" not in readme.replace("${", "")
    again = home("new", str(own))
    assert again.code == 2 and f"DIR: {own}: not empty; new overwrites nothing" in again.stderr
    missing = home("new", str(tmp_path / "other"), "--from", str(tmp_path / "no.csv"))
    assert missing.code == 2 and "no such file" in missing.stderr and not (tmp_path / "other").exists()


def test_of_other_data_the_model_is_a_built_in_one_and_the_readme_says_how_to_train_ones_own(tmp_path: Path) -> None:
    rows = [f"{i},{i * 7 % 13},{i * 3.5 + 1}" for i in range(300)]
    (tmp_path / "houses.csv").write_text("\n".join(["rooms,age,price", *rows, ""]))
    guess = guess_source(tmp_path / "houses.csv", Choices(label="price"))
    files = files_of(guess, "houses.csv", own_model=False)
    preset = yaml.safe_load(files["houses.yaml"])
    assert preset["model"]["kind"] == "mlp" and preset["evaluate"]["own_metrics"] == {
        "relative_error": "model:relative_error"
    }
    assert "--model '{kind: import, task: regression, target: \"model:make\"}'" in files["README.md"]


def test_texts_have_no_model_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for number in range(20):
        (tmp_path / "notes" / f"{number}.txt").write_text(f"note {number}: " + "some words of it " * 200)
    files = files_of(guess_source(tmp_path / "notes", Choices()), "notes", own_model=False)
    assert set(files) == {"notes.yaml", "prefect.yaml", "README.md", ".gitignore"}
    assert "pytest" not in files["README.md"] and "model.py" not in files["README.md"]


def test_the_metric_joins_those_that_the_preset_has() -> None:
    preset = "model:\n  kind: mlp\ntrain:\n  steps: 1\nevaluate:\n  primary: f1\n"
    own = yaml.safe_load(with_own_code(preset, "classification", own_model=True))
    assert own["model"] == {"kind": "import", "task": "classification", "target": "model:make"}
    assert own["evaluate"] == {"own_metrics": {"wrong": "model:wrong"}, "primary": "f1"}
    assert with_own_code(preset, "ranking", own_model=False) == preset


def test_the_shipped_table_is_whole(tmp_path: Path) -> None:
    write_table(tmp_path / "data/tumours.csv")
    guess = guess_source(tmp_path / "data/tumours.csv", Choices())
    assert (guess.counts, guess.examples) == ({"benign": 357, "malignant": 212}, 569)


@pytest.mark.parametrize(
    "features",
    [
        {"image": {"dtype": "uint8", "shape": [8, 8, 3]}},
        {"text": {"dtype": "uint16", "shape": [5], "vocabulary": 9, "padding": 0}},
        {
            "numbers": {"dtype": "float32", "shape": [2], "mean": [1.0, 2.0], "variance": [1.0, 4.0]},
            "categories": {"dtype": "int32", "shape": [2], "sizes": [3, 4]},
        },
    ],
    ids=["image", "text", "table"],
)
def test_the_model_reads_every_kind_of_input(features: dict[str, Any]) -> None:
    made = runpy.run_path(str(ROOT / "flows/project/model.py"))
    model = made["make"](features, outputs=3)
    zeros = {
        name: np.zeros((2, *feature["shape"]), feature["dtype"].replace("uint16", "int32"))
        for name, feature in features.items()
    }
    assert model(zeros if len(zeros) > 1 else next(iter(zeros.values()))).shape == (2, 3)


def test_its_own_tests_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "flows/project"))
    tests = runpy.run_path(str(ROOT / "flows/project/test_model.py"))
    for name, test in tests.items():
        if name.startswith("test_"):
            test()
    sys.modules.pop("model", None)


def test_constraints_are_those_of_the_lock() -> None:
    locked = [
        line.split(" ")[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if line[:1].isalnum()
    ]
    assert [line.split(" ")[0] for line in CONSTRAINTS.read_text().splitlines()] == locked


def test_a_deployment_has_paths_relative_to_the_project_and_each_machine_finds_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        project = tmp_path / name
        (project / "data").mkdir(parents=True)
        Image.new("L", (8, 8)).save(project / "data/a.png")
        (project / "prefect.yaml").write_text("name: own\n")
        (project / "nets.py").write_text("")
        (project / "own.yaml").write_text(
            "name: own\nsource: {kind: csv, name: own, path: data/x.csv, columns: {a: number, b: category}, label: b}\n"
            "snapshot: {kind: table}\nmodel: {kind: import, target: 'nets:make'}\n"
            "train: {steps: 1, init: {kind: file, path: /models/a.keras}}\n"
        )
    monkeypatch.chdir(tmp_path / "here")
    deployed = read_preset("own.yaml")["config"]
    assert deployed["source"]["path"] == "data/x.csv" and deployed["model"]["folder"] == "."
    assert deployed["train"]["init"]["path"] == "/models/a.keras", "outside of the project: the same everywhere"
    from tasks.config.compose import in_folder, validate

    there = in_folder(validate(deployed), tmp_path / "there")
    assert there == load(tmp_path / "there/own.yaml")
    assert portable(there, tmp_path / "there") == deployed
