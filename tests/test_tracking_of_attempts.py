"""All attempts of a run are one MLflow run, with the curves of an uninterrupted run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tasks.store.journal import read
from tasks.tracking.runs import find_or_begin
from tests.support.homes import DIGITS, CommandHome
from tests.support.registries import RegistryHome

FLAGS = ["--train.steps", "1500", "--train.log_every", "20", "--train.evaluate_every", "300"]
FLAGS += ["--train.checkpoint.every", "300"]


def told_past(home: CommandHome, step: int) -> Callable[[], bool]:
    """Whether MLflow has acknowledged a point of a later step."""

    def due() -> bool:
        sent = sum(json.loads(path.read_bytes())["offset"] for path in home.root.glob("runs/*/shipped.json"))
        points = (point for path in home.root.glob("runs/*/metrics.jsonl") for point in read(path))
        return any(point.step > step and point.end <= sent for point in points)

    return due


def test_an_attempt_that_ends_before_its_parameters_are_sent_leaves_them_to_the_next(
    registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, client = registry_home.run(1), registry_home.client

    def killed(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(client, "log_batch", killed)
        find_or_begin(client, run)
    begun = client.get_run(find_or_begin(client, run))
    assert begun.data.params["train.batch_size"] == str(run.config.train.batch_size)
    assert begun.data.params["seed"] == "1"


@pytest.mark.slow
def test_killed_and_run_again_it_is_one_mlflow_run_with_each_point_once(prepared: Callable[[str], CommandHome]) -> None:
    home = prepared("home")
    ids = []
    for step in (400, 700):  # what comes after the checkpoint before them is trained, and sent, twice
        assert home.kill_when(told_past(home, step), "run", "training", DIGITS, *FLAGS)
        ids.append(home.newest_run()["mlflow_run_id"])
    shipped = home.root / "runs" / home.newest_run("training")["run_id"] / "shipped.json"
    shipped.unlink()  # as if the kill had come after the sending and before its note
    answer = home.here("run", "training", DIGITS, *FLAGS, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["attempt"] == 3
    assert {*ids} == {answer.json["mlflow_run_id"]}

    client = MlflowClient(f"sqlite:///{home.root / 'mlflow.db'}")
    found = client.search_runs([experiments.experiment_id for experiments in client.search_experiments()])
    [run] = [each for each in found if each.data.tags["millrace.flow"] == "training"]
    assert run.info.run_id == ids[0] and run.data.tags["millrace.attempts"] == "3"
    steps = {name: [p.step for p in client.get_metric_history(ids[0], name)] for name in run.data.metrics}
    assert steps["train/loss"] == list(range(20, 1_501, 20))
    assert steps["validation/loss"] == list(range(300, 1_501, 300))
    assert all(experiments == sorted({*experiments}) for experiments in steps.values()), steps
