"""A tuning, real and tiny: its trials, its winner, and that kills, repeats and parallel trials lose and double none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tests.homes import ROOT, CommandHome

pytestmark = pytest.mark.slow

PRESET = ROOT / "flows/presets/digits_tuning.yaml"
TINY = [
    *("--train.steps", "40", "--train.schedule.warmup", "4", "--train.evaluate_every", "10"),
    *("--train.checkpoint.every", "5", "--tune.trials", "5", "--model.filters", "[4]"),
    *("--tune.sampler", "{kind: tpe, startup: 2}", "--tune.pruner", "{kind: median, startup: 1}"),
]
TUNING = ("run", "tuning", PRESET, *TINY)


def table(home: CommandHome) -> dict[str, Any]:
    """The trials of the last run, without what the clock decides; empty where there are none yet."""
    path = home.root / "runs" / home.newest_run().get("run_id", "none") / "trials.json"
    if not path.exists():
        return {"trials": []}
    content: dict[str, Any] = json.loads(path.read_bytes())
    for trial in content["trials"]:
        del trial["seconds"], trial["cached"]
    return content


def models(home: CommandHome) -> dict[str, str]:
    return {path: sha for path, sha in home.artifacts().items() if path.startswith("model/")}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    """A home with a tuning that ran once and was not disturbed."""
    home = CommandHome(tmp_path_factory.mktemp("tuned") / "home")
    answer = home(*TUNING, "--json")
    assert answer.code in (0, 3), answer.stderr
    return home


def test_a_tuning_releases_the_best_of_its_trials(tuned: CommandHome) -> None:
    trials, run = table(tuned)["trials"], tuned.newest_run()
    assert [trial["number"] for trial in trials] == list(range(5))
    states = {trial["state"] for trial in trials}
    assert states == {"complete", "pruned"}, "some of each: the test is of both"
    best = min((trial["value"], trial["model"]) for trial in trials if trial["state"] == "complete")
    [model] = run["stages"]["train"]
    assert (model["digest"], model["cached"]) == (best[1], True)
    assert run["stages"]["promote"] and run["stages"]["export"]
    assert not list((tuned.root / "store/.staging/model").iterdir()), "a pruned trial leaves no checkpoints"
    assert len({path.split("/")[1] for path in models(tuned)}) == len([t for t in trials if t["state"] == "complete"])


def test_each_trial_is_a_run_of_mlflow_below_that_of_the_tuning(tuned: CommandHome) -> None:
    client = MlflowClient(f"sqlite:///{tuned.root / 'mlflow.db'}")
    run = tuned.newest_run()
    experiment = client.get_experiment_by_name("digits_tuning")
    assert experiment is not None
    nested = client.search_runs(
        [experiment.experiment_id], f"tags.`mlflow.parentRunId` = '{run['mlflow_run_id']}'", order_by=["start_time"]
    )
    assert [each.info.run_name for each in nested] == [f"trial {number}" for number in range(5)]
    for each, trial in zip(nested, table(tuned)["trials"], strict=True):
        assert each.info.status == {"complete": "FINISHED", "pruned": "KILLED"}[trial["state"]]
        assert float(each.data.params["train.learning_rate"]) == trial["values"]["train.learning_rate"]
        history = client.get_metric_history(each.info.run_id, "validation/loss")
        assert (trial["steps"], trial["value"]) in [(point.step, point.value) for point in history]


def killed(home: CommandHome, due: Callable[[], bool]) -> None:
    assert home.kill_when(due, *TUNING)


def test_a_tuning_that_is_killed_has_the_trials_the_winner_and_the_bytes_of_an_unbroken_one(
    tuned: CommandHome, tmp_path: Path
) -> None:
    home = CommandHome(tmp_path / "home")
    killed(home, lambda: any((home.root / "store/.staging/model").glob("*/.pieces/checkpoints/*.json")))
    killed(home, lambda: len(models(home)) >= 2)
    killed(home, lambda: len(table(home)["trials"]) >= 3)
    killed(home, lambda: "train" in home.newest_run()["stages"])
    assert len(home.newest_run()["attempts"]) == 4
    assert table(home) == table(tuned)
    assert models(home) == models(tuned)
    assert len(list((home.root / "runs" / home.newest_run()["run_id"] / "trials").iterdir())) == 5
