"""A run in the lists of MLflow and Prefect: what differs from the run before it, its outcome and its score."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.states import State

from flows import running
from tasks.config.compose import Config
from tasks.errors import Stopped
from tasks.runs.differences import Difference
from tasks.runs.home import Home
from tasks.tracking import runs as tracked
from tasks.tracking.shipping import QUALITY, quality
from tasks.training.config import TrainConfig
from tasks.view import headline

CONFIG = {"name": "digits", "train": {"steps": 600, "optimizer": {"kind": "adamw"}}, "resources": {"threads": 2}}


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("train.steps", 300, "steps 300"),
        ("train.optimizer.kind", "sgd", "optimizer sgd"),
        ("source.kind", "csv", "source csv"),
        ("train.checkpoint.every", 50, "checkpoint.every 50"),
        ("seed", 2, "seed 2"),
        ("train.loss", None, "loss none"),
        ("source.path", "/a/very/long/way/to/the/data.csv", "path …long/way/to/the/data.csv"),
    ],
)
def test_a_difference_is_said_by_its_key_and_value(where: str, value: Any, said: str) -> None:
    assert headline.said(Difference(where, "other", value)) == said


def record(home: Home, run_id: str, flow: str = "pipeline", commit: str = "a" * 40, **train: Any) -> dict[str, Any]:
    config = {**CONFIG, "train": {**CONFIG["train"], **train}}  # type: ignore[dict-item]
    made = {"flow": flow, "name": "digits", "config": config, "attempts": [{"git_commit": commit}]}
    (home.runs / run_id).mkdir(parents=True)
    (home.runs / run_id / "run.json").write_text(json.dumps(made))
    return made


def test_a_run_is_compared_with_the_one_before_it_of_its_flow_and_name(tmp_path: Path) -> None:
    home = Home(tmp_path)
    first = record(home, "20260101-000000-digits-aaaa")
    record(home, "20260102-000000-digits-bbbb", flow="training", steps=7)
    record(home, "20260102-000000-other_digits-cccc", steps=8)
    second = record(home, "20260103-000000-digits-dddd", steps=300)
    third = record(home, "20260104-000000-digits-eeee", steps=300, commit="b" * 40)
    many = record(home, "20260105-000000-digits-ffff", steps=1, a=1, b=2, commit="b" * 40)
    made = {"0101": first, "0103": second, "0104": third, "0105": many}
    said = [
        headline.differing(home, made[path.name[4:8]], before=path.name)
        for path in sorted(home.runs.glob("*-digits-*"))
        if path.name[4:8] in made
    ]
    assert said == [headline.FIRST, "steps 300", "code bbbbbbb", "a 1, b 2 and 1 more"]
    again = {"flow": "pipeline", "name": "digits", "config": {**many["config"], "resources": {"threads": 9}}}
    assert headline.differing(home, again) == headline.AGAIN, "the number of threads is no experiment"


def test_paths_of_a_deployment_are_those_of_the_run_before_it(tmp_path: Path, monkeypatch: Any) -> None:
    home = Home(tmp_path / "home")
    (tmp_path / "prefect.yaml").touch()
    source = {"kind": "csv", "path": f"{tmp_path}/data.csv"}
    before = {"flow": "pipeline", "name": "digits", "config": {"name": "digits", "seed": 1, "source": source}}
    (home.runs / "20260101-000000-digits-aaaa").mkdir(parents=True)
    (home.runs / "20260101-000000-digits-aaaa/run.json").write_text(json.dumps(before))
    deployed = {"name": "digits", "seed": 2, "source": {"kind": "csv", "path": "data.csv"}}
    flow_run = SimpleNamespace(tags=[], parameters={"config": deployed}, flow_name="pipeline", id="0123456789")
    monkeypatch.setattr(running, "runtime", SimpleNamespace(flow_run=flow_run))
    monkeypatch.setattr(running, "find_home", lambda: home)
    monkeypatch.setattr(running, "find_project", lambda: tmp_path)
    assert running.run_name() == "digits-pipeline-012345: seed 2"
    assert deployed["source"] == {"kind": "csv", "path": "data.csv"}


@pytest.mark.parametrize(
    ("status", "verdict", "said"),
    [
        ("completed", "champion", "first run · champion · accuracy 0.9876"),
        ("rejected", "candidate", "first run · rejected · accuracy 0.9876"),
        ("awaiting_approval", "candidate", "first run · awaiting approval · accuracy 0.9876"),
    ],
)
def test_a_headline_ends_with_outcome_and_score(
    status: str, verdict: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = {"test/accuracy": 0.98764, "test/accuracy/low": 0.9, "test/accuracy/high": 0.99}
    run: Any = SimpleNamespace(home=Home(tmp_path), record={"flow": "p", "name": "x", "status": status}, run_id="x")
    facts = SimpleNamespace(record=run.record, metrics=metrics, metric="accuracy", verdict=(verdict, "good"))
    monkeypatch.setattr(headline, "Facts", lambda run: facts)
    assert headline.headline(run) == headline.Headline(said, "accuracy 0.9876 [0.9000, 0.9900]")
    facts.metrics = {}
    assert headline.headline(run).score == "" and headline.headline(run).title == said.rpartition(" · ")[0]


def test_what_decides_is_in_a_section_before_all_others() -> None:
    metrics = {"test/accuracy": 0.9, "test/accuracy/low": 0.8, "test/loss": 1.0, "test/learned_baseline/accuracy": 0.7}
    assert quality(metrics, "accuracy") == {
        "Quality/accuracy": 0.9,
        "Quality/accuracy_low": 0.8,
        "Quality/accuracy_of_simple_model": 0.7,
    }
    others = ("convert/read", "int8_dynamic/bytes", "seconds/train", "test/loss", "train/loss", "a/b")
    assert min([QUALITY, *(name.partition("/")[0] for name in others)]) == QUALITY, "by code points"


def test_the_view_of_the_list_has_the_tags_that_a_run_gets() -> None:
    view = json.loads(tracked.view())
    state = json.loads(view["state"])
    assert view.keys() == {"name", "createdAt", "updatedAt", "state"}, "as MLflow 3.17.2 stores a view"
    assert f"tags.`{tracked.SCORE}`" in state["selectedColumns"] and "tags.`millrace.outcome`" in state["columnOrder"]
    assert tracked.list_of("7").endswith("viewStateShareKey=millrace") and tracked.VIEW.endswith(".millrace")


def test_a_flow_run_that_was_stopped_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Stopped(2)
    state = running._ended_by(stop, deployed=False)
    assert isinstance(state, State) and (state.name, state.data) == ("Stopped", stop) and state.is_cancelled()


def test_flow_runs_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    names = []
    for number in "12":
        flow_run = SimpleNamespace(tags=[], parameters={"config": CONFIG}, flow_name="pipeline", id=number * 32)
        monkeypatch.setattr(running, "runtime", SimpleNamespace(flow_run=flow_run))
        names.append(running.run_name())
    assert names == ["digits-pipeline-111111", "digits-pipeline-222222"]
    record(Home(tmp_path), "20260101-000000-digits-aaaa", steps=5)
    assert running.run_name() == "digits-pipeline-222222: steps 600"


def test_the_form_begins_with_what_people_change_first() -> None:
    """Prefect sorts the fields of a form by their position, and describes each in the words of the reference."""
    schema = Config.model_json_schema()

    def shown(properties: dict[str, Any]) -> list[str]:
        assert all(each.get("description") for each in properties.values())
        assert sorted(each["position"] for each in properties.values()) == list(range(len(properties)))
        return sorted(properties, key=lambda name: properties[name]["position"])

    whole, train = shown(schema["properties"]), shown(schema["$defs"]["TrainConfig"]["properties"])
    assert whole[:4] == ["name", "seed", "train", "model"] and set(whole) == set(Config.model_fields)
    assert train[:5] == ["steps", "epochs", "batch_size", "learning_rate", "optimizer"]
    assert set(train) == set(TrainConfig.model_fields)
