"""A tuning, real and tiny: its trials, its winner, and that kills, repeats and parallel trials lose and double none."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from flows import preflight
from tasks.config.compose import load
from tasks.errors import Refused
from tasks.runs.collection import collect
from tasks.runs.home import Home
from tasks.runs.runs import opened
from tests.support.homes import DIGITS, ONE_FORM, ROOT, CommandHome
from tests.support.kills import stop

pytestmark = pytest.mark.slow

PRESET = ROOT / "flows/presets/digits_tuning.yaml"
TINY = [
    *("--train.steps", "40", "--train.schedule.warmup", "4", "--train.evaluate_every", "10"),
    *("--train.checkpoint.every", "5", "--tune.trials", "4", "--model.filters", "[4]"),
    *("--tune.sampler", "{kind: tpe, startup: 2}"),
    *ONE_FORM,
]
PRUNED = ("--tune.pruner", "{kind: median, startup: 1}")
TUNING = ("run", "tuning", PRESET, *TINY, *PRUNED)


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
    assert [trial["number"] for trial in trials] == list(range(4))
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
    assert [each.info.run_name for each in nested] == [f"trial {number}" for number in range(4)]
    for each, trial in zip(nested, table(tuned)["trials"], strict=True):
        assert each.info.status == {"complete": "FINISHED", "pruned": "KILLED"}[trial["state"]]
        assert float(each.data.params["train.learning_rate"]) == trial["values"]["train.learning_rate"]
        history = client.get_metric_history(each.info.run_id, "validation/loss")
        assert (trial["steps"], trial["value"]) in [(point.step, point.value) for point in history]


def killed(home: CommandHome, due: Callable[[], bool]) -> None:
    assert home.kill_when(due, *TUNING)


def test_a_tuning_that_is_killed_has_the_trials_the_winner_and_the_bytes_of_an_unbroken_one(
    tuned: CommandHome, prepared: Callable[[str], CommandHome]
) -> None:
    home = prepared("home")
    killed(home, lambda: any((home.root / "store/.staging/model").glob("*/.pieces/checkpoints/*.json")))
    killed(home, lambda: len(models(home)) >= 2)
    killed(home, lambda: "train" in home.newest_run()["stages"])
    assert len(home.newest_run()["attempts"]) == 3
    assert table(home) == table(tuned)
    assert models(home) == models(tuned)
    records = [json.loads(path.read_bytes()) for path in sorted(home.root.glob("runs/*/trials/*/run.json"))]
    ends = {"complete": "completed", "pruned": "pruned"}
    assert [record["status"] for record in records] == [ends[trial["state"]] for trial in table(home)["trials"]]


def test_trials_at_the_same_time_go_on_after_a_stop_and_none_is_lost_or_done_twice(
    tuned: CommandHome, prepared: Callable[[str], CommandHome]
) -> None:
    home = prepared("home")
    words = ("run", "tuning", PRESET, *TINY, "--tune.parallel", "2", "--tune.pruner", "{kind: none}")

    def two_are_under_way() -> bool:
        """One of them has a checkpoint: that both have one at the same moment is luck where the machine is busy."""
        models = home.root / "store/.staging/model"
        return len(list(models.glob("*/"))) > 1 and any(models.glob("*/.pieces/checkpoints/*"))

    stderr = stop(home, two_are_under_way, signal.SIGTERM, *words, "--json")
    assert re.search(r"stopped by SIGTERM; trial \d at step \d+.* is saved", stderr)
    assert home.kill_when(lambda: "train" in home.newest_run()["stages"], *words)
    trials = table(home)["trials"]
    assert [(trial["number"], trial["state"]) for trial in trials] == [(number, "complete") for number in range(4)]
    assert sorted({path.split("/")[1] for path in models(home)}) == sorted({trial["model"] for trial in trials})
    whole = {str(trial["values"]): trial["model"] for trial in table(tuned)["trials"] if trial["model"]}
    same = [trial for trial in trials if str(trial["values"]) in whole]
    assert len(same) >= 1, "the first trials are random, so that the order in which they end does not decide them"
    assert all(trial["model"] == whole[str(trial["values"])] for trial in same), "a model is that of its values"


def test_commands_know_the_trials_of_a_tuning(tuned: CommandHome) -> None:
    run = tuned.newest_run()
    shown = tuned("show", run["run_id"], "--json").json["tuning"]
    assert [trial["number"] for trial in shown["trials"]] == list(range(4)) and shown["importances"] is not None
    answers = tuned("why", "export", PRESET, *TINY, *PRUNED, "--json").json["answers"]
    assert [(row["artifact"], row["in_store"]) for row in answers] == [
        (f"export/{run['stages']['export'][0]['digest']}", True)
    ]
    more = tuned("why", "export", PRESET, *TINY, "--tune.pruner", "{kind: none}")
    assert more.code == 2 and "it has not ended" in more.stderr


def test_a_search_is_for_the_flow_tuning_alone_and_that_flow_needs_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="tune: a search; the flow pipeline does not use it; run the flow tuning"):
        preflight.check("pipeline", load(PRESET), Home(tmp_path))
    with pytest.raises(Refused, match="tune: nothing; the flow tuning needs to know what to search"):
        preflight.check("tuning", load(DIGITS), Home(tmp_path))


def test_the_page_has_the_trials_and_loads_nothing(tuned: CommandHome) -> None:
    run = tuned.newest_run()
    page = (tuned.root / "runs" / run["run_id"] / "page.html").read_text()
    assert "best so far, by trial" in page and 'aria-label="parallel coordinates of the trials"' in page
    assert page.count(">pruned") == sum(trial["state"] == "pruned" for trial in table(tuned)["trials"])
    assert "<script" not in page and "http://" not in page.replace("http://www.w3.org", "")
    assert f"these are the curves of {run['run_id']}/trials/" in page


def test_the_models_of_trials_stay_with_the_run_and_that_of_the_champion_with_its_release(
    tuned: CommandHome, tmp_path: Path
) -> None:
    home = Home(tuned.copied_to(tmp_path / "home").root)
    assert collect(home, 1, dry_run=True) == []
    [winner] = tuned.newest_run()["stages"]["train"]
    with opened(home, "dataset", load(DIGITS), new=True, prefect_id=None, waiting=print) as run:
        run.end(0, "completed", None)
    made = {f"model/{trial['model']}" for trial in table(tuned)["trials"] if trial["model"]}
    dropped = {each.what for each in collect(home, 1, dry_run=False)}
    assert dropped == made - {f"model/{winner['digest']}"} != set()
    [release] = home.runs.glob("*/release.json")
    release.unlink()
    [study] = home.studies.glob("*.db")
    dropped = {each.what for each in collect(home, 1, dry_run=False)}
    assert {f"study/{study.stem}", f"model/{winner['digest']}"} <= dropped and not study.exists()


def test_a_restored_home_goes_on_with_its_studies(tuned: CommandHome, tmp_path: Path) -> None:
    answer = tuned("backup", tmp_path / "backups", "--json")
    assert answer.code == 0, answer.stderr
    home = CommandHome(tmp_path / "home")
    assert home("restore", answer.json["backup"]).code == 0
    [study] = Home(home.root).studies.glob("*.db")
    assert study.stem == table(tuned)["study"]
    assert all(str(tuned.root) not in path.read_text() for path in home.root.glob("runs/**/*.json"))
