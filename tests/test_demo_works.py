"""The tutorial, whose first command is that of `make demo`: what it and the header of the digits preset say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.runs.home import Home
from tasks.runs.runs import Run
from tasks.view.summary import metrics_of
from tests.support.documents import blocks, run_script
from tests.support.homes import DIGITS, ONE_FORM, ROOT, CommandHome

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    """The home of the tutorial, block by block in a checkout's folder; code 3 of step 3 is a right end."""
    folder = tmp_path_factory.mktemp("tutorial")
    for block in blocks("docs/tutorial.md"):
        script = block.replace("three.png", f"{folder}/three.png")
        completed = run_script(script, ROOT, MILLRACE_HOME=folder / "home")
        allowed = {0, 3} if "--model.dense" in block else {0}
        assert completed.returncode in allowed, f"{block}\n{completed.stdout}\n{completed.stderr}"
        assert "Traceback" not in completed.stderr
    return CommandHome(folder / "home")


@pytest.fixture(scope="module")
def client(home: CommandHome) -> Any:
    from tasks.tracking.runs import connect

    return connect(f"sqlite:///{home.root}/mlflow.db")


@pytest.fixture(scope="module")
def first(home: CommandHome) -> dict[str, Any]:
    """The record of the first run: `millrace run pipeline flows/presets/digits.yaml`."""
    record: dict[str, Any] = json.loads(min(home.root.glob("runs/*/run.json")).read_bytes())
    assert record["exit_code"] == 0
    return record


def test_the_score_is_reached_by_every_variant(home: CommandHome, first: dict[str, Any]) -> None:
    metrics = metrics_of(Run(Home(home.root), home.root / "runs" / first["run_id"]))
    assert metrics["test/accuracy"] >= 0.98
    assert metrics["test/accuracy/low"] >= 0.96
    for name in ("saved_model", "litert", "int8_dynamic"):
        assert metrics[f"{name}/test/accuracy"] >= 0.98, name
    assert metrics["int8_dynamic/size_ratio"] <= 0.35
    assert metrics["int8_dynamic/test/accuracy_loss/high"] <= 0.02


def test_the_first_export_was_made_champion_and_a_worse_one_does_not_become_it(
    home: CommandHome, first: dict[str, Any], client: Any
) -> None:
    [export] = first["stages"]["export"]
    version = client.get_model_version("digits", "1")
    accuracy = client.get_run(first["mlflow_run_id"]).data.metrics["test/accuracy"]
    assert version.tags["millrace.export"] == export["digest"]
    assert float(version.tags["millrace.score"]) == accuracy
    assert json.loads((home.root / "runs" / first["run_id"] / "release.json").read_bytes())["alias"] == "champion"

    before = client.get_model_version_by_alias("digits", "champion").version
    worse = home("run", "pipeline", DIGITS, "--train.steps", "40", *ONE_FORM, "--json")
    assert worse.code == 3, worse.stderr
    assert worse.json["metrics"]["test/accuracy"] < accuracy
    [release] = worse.json["artifacts"]["promote"]
    assert json.loads(Path(release["path"]).read_bytes())["alias"] == "candidate"
    assert client.get_model_version_by_alias("digits", "champion").version == before
