"""`millrace forget`: what a failed experiment leaves behind, what stays, and what is refused."""

from __future__ import annotations

import pytest

from tasks.runs.home import Home
from tasks.runs.runs import find_runs
from tasks.store.lock import locked
from tasks.tracking.runs import connect
from tests.support.homes import DIGITS, CommandHome, finished_home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> CommandHome:
    """A home with a champion, and an experiment: records and a snapshot of another split."""
    root = tmp_path_factory.mktemp("forget") / "home"
    finished_home().copied_to(root)
    made = CommandHome(root)
    answer = made("run", "dataset", DIGITS, "--records.split_seed", "77", "--json")
    assert answer.code == 0, answer.stderr
    return made


def names(home: CommandHome) -> set[str]:
    return {f"{path.parent.parent.name}/{path.parent.name}" for path in (home.root / "store").glob("*/*/manifest.json")}


def tracked(home: CommandHome) -> set[str]:
    client = connect(Home(home.root).mlflow_uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return {run.data.tags["millrace.run"] for run in client.search_runs(experiments)}


def runs(home: CommandHome) -> list[str]:
    return [run.run_id for run in find_runs(Home(home.root))]


def test_the_run_of_a_champion_is_refused_also_by_its_model_and_where_it_is_no_longer_one(home: CommandHome) -> None:
    released, _ = find_runs(Home(home.root))
    [model] = released.record["stages"]["train"]
    client = connect(Home(home.root).mlflow_uri)
    before = names(home)
    for what in (released.run_id, model["digest"][:12], "digits@1"):
        answer = home("forget", what)
        assert answer.code == 2 and "digits@1: is champion; a version with an alias is kept" in answer.stderr
    client.delete_registered_model_alias("digits", "champion")
    answer = home("forget", released.run_id)
    assert answer.code == 2 and "digits@1: was champion; a version that was champion is kept" in answer.stderr
    client.set_registered_model_alias("digits", "champion", "1")
    assert names(home) == before and set(runs(home)) == tracked(home)


@pytest.mark.parametrize(
    ("what", "error"),
    [("nothing-like-it", "nothing-like-it"), ("digits@9", "digits@9: no such version"), ("dataset", "dataset")],
)
def test_what_is_no_run_or_model_is_refused(home: CommandHome, what: str, error: str) -> None:
    answer = home("forget", what)
    assert answer.code == 2 and error in answer.stderr


def test_a_run_that_a_process_works_on_is_refused(home: CommandHome) -> None:
    _, experiment = find_runs(Home(home.root))
    with locked(experiment.folder / "lock"):
        answer = home("forget", experiment.run_id)
    assert answer.code == 2 and "it is running" in answer.stderr


def test_an_experiment_leaves_runs_store_and_tracking_and_what_others_use_stays(home: CommandHome) -> None:
    released, experiment = find_runs(Home(home.root))
    client = connect(Home(home.root).mlflow_uri)
    version = client.create_model_version(
        "digits", "file:///nowhere", tags={"millrace.run": experiment.run_id}, run_id=experiment.record["mlflow_run_id"]
    )
    made = {f"{row['kind']}/{row['digest']}" for rows in experiment.record["stages"].values() for row in rows}
    before = names(home)
    [model] = released.record["stages"]["train"]
    with open(experiment.folder / "uses", "a") as uses:
        uses.write(f"model/{model['digest']}\n")
    rehearsed = home("forget", experiment.run_id, "--dry-run", "--json").json
    assert {row["what"] for row in rehearsed["dropped"]} == {
        *made,
        f"version digits@{version.version}",
        f"MLflow run of {experiment.run_id}",
        f"run {experiment.run_id}",
    }
    assert names(home) == before and experiment.folder.exists() and experiment.run_id in tracked(home)
    answer = home("forget", experiment.run_id, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["dropped"] == rehearsed["dropped"]
    assert names(home) == before - made, "a model that the released run uses too stays"
    assert runs(home) == [released.run_id] and tracked(home) == {released.run_id}
    assert [str(each.version) for each in client.search_model_versions("name = 'digits'")] == ["1"]
    assert home("verify", "--all").code == 0 and home("show", "digits@champion").code == 0
