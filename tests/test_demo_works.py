"""What the header of the digits preset says, by a run of the preset."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import DIGITS, CommandHome

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[CommandHome, dict[str, Any]]:
    """What `make demo` runs, and what it answered."""
    home = CommandHome(tmp_path_factory.mktemp("demo"), own_processes=True)
    answer = home("run", "pipeline", DIGITS, "--json")
    assert answer.code == 0, answer.stderr
    return home, answer.json


def champion(home: CommandHome) -> Any:
    from tasks.tracking.runs import connect

    return connect(f"sqlite:///{home.root}/mlflow.db").get_model_version_by_alias("digits", "champion")


def test_the_score_is_reached_by_every_variant(demo: tuple[CommandHome, dict[str, Any]]) -> None:
    _, reply = demo
    metrics = reply["metrics"]
    assert metrics["test/accuracy"] >= 0.98
    assert metrics["test/accuracy/low"] >= 0.96
    for name in ("saved_model", "litert", "int8_dynamic"):
        assert metrics[f"{name}/test/accuracy"] >= 0.98, name
    assert metrics["int8_dynamic/size_ratio"] <= 0.35
    assert metrics["int8_dynamic/test/accuracy_loss/high"] <= 0.02


def test_the_champion_is_that_export_and_a_worse_one_does_not_take_its_place(
    demo: tuple[CommandHome, dict[str, Any]],
) -> None:
    home, reply = demo
    [export] = reply["artifacts"]["export"]
    first = champion(home)
    assert first.tags["millrace.export"] == export["digest"]
    assert float(first.tags["millrace.score"]) == reply["metrics"]["test/accuracy"]

    worse = replace(home, own_processes=False)("run", "pipeline", DIGITS, "--train.steps", "40", "--json")
    assert worse.code == 3, worse.stderr
    assert worse.json["metrics"]["test/accuracy"] < reply["metrics"]["test/accuracy"]
    [release] = worse.json["artifacts"]["promote"]
    assert json.loads(Path(release["path"]).read_bytes())["alias"] == "candidate"
    assert champion(home).version == first.version
