"""The search of a tuning: what may be searched, and a study that goes on with the trials it would have had."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import psycopg2
import pytest
import yaml
from sqlalchemy import text

from tasks.artifacts import Artifact, Model, Snapshot
from tasks.config.compose import Config, load, searched, validate, with_values
from tasks.config.task import TASKS
from tasks.errors import Failed, Lost, Refused, UserError
from tasks.runner import identities
from tasks.runner.attempt import Attempt
from tasks.runner.signals import Signals
from tasks.runner.trials import TrialAttempt, run_trial
from tasks.runs.home import Home
from tasks.runs.runs import open_trial, trials_of
from tasks.runs.runs import opened as opened_run
from tasks.search import study as studies
from tasks.search.monitor import TrialMonitor
from tasks.search.space import FloatRange
from tasks.search.study import Study
from tasks.search.table import COMPLETE, FAILED, PRUNED, RUNNING, best_of

RATE = {"kind": "float", "low": 1e-4, "high": 0.1, "log": True}
SPACE: dict[str, Any] = {
    "train.learning_rate": RATE,
    "model.filters": {"kind": "choice", "values": [[8, 16], [16, 32]]},
    "train.batch_size": {"kind": "int", "low": 16, "high": 64, "step": 16},
}
BASE: dict[str, Any] = {
    "name": "here",
    "source": {"kind": "sklearn", "dataset": "digits"},
    "snapshot": {"kind": "image", "height": 8, "width": 8, "channels": 1},
    "train": {"steps": 100},
}


def config_of(space: dict[str, Any] | None = None, **tune: Any) -> Config:
    return validate({**BASE, "tune": {"trials": 9, "space": SPACE if space is None else space, **tune}})


def opened(path: Path, config: Config) -> Any:
    assert config.tune is not None
    return studies.opened(path, "here", config.tune, higher_is_better=False, seed=3)


def worth(values: dict[str, Any]) -> float:
    return abs(values["train.learning_rate"] - 0.01) + values["train.batch_size"] / 1000


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({"train.lerning_rate": RATE}, "unknown key of train; did you mean train.learning_rate?"),
        ({"train.learning_rate": {**RATE, "high": 50.0}}, "50.0; input should be less than or equal to 10"),
        ({"train.learning_rate": {**RATE, "hihg": 1.0}}, "did you mean tune.space.train.learning_rate.high?"),
        ({"train.learning_rate": {**RATE, "low": 0.0}}, "0.0; must be above 0 where log is true"),
        ({"train.learning_rate": {**RATE, "low": 0.2}}, "0.1; must be above low = 0.2"),
        (
            {"model.dropout": {"kind": "float", "low": 0.1, "high": 0.5, "step": 0.3}},
            "0.5; is not reached from low = 0.1 by steps of 0.3; use 0.4 or 0.7",
        ),
        (
            {"train.batch_size": {"kind": "int", "low": 16, "high": 60, "step": 16}},
            "60; is not reached from low = 16 by steps of 16; use 48 or 64",
        ),
        ({"train.optimizer.kind": {"kind": "choice", "values": ["adm"]}}, "adm; must be one of 'adam'"),
        ({"snapshot.height": {"kind": "int", "low": 8, "high": 16}}, "only model and train are searched"),
        ({"seed": {"kind": "int", "low": 1, "high": 2}}, "only model and train are searched"),
        ({"model.task": {"kind": "choice", "values": ["regression"]}}, "different tasks cannot be compared"),
        ({"train.log_every": {"kind": "int", "low": 1, "high": 9}}, "changes no model by itself"),
        ({"train.seeds": {"kind": "choice", "values": [1, 3]}}, "a trial is one training, of one seed"),
        (
            {"train.init": {"kind": "choice", "values": [None, {"kind": "champion"}]}},
            "tune.space.train.init: champion; the champion is looked up once, when a run begins",
        ),
        (
            {"train.loss": {"kind": "choice", "values": [None, "own.losses:focal"]}},
            "tune.space.train.loss: own.losses:focal; is looked for in train.folder",
        ),
        ({}, "at least 1 item"),
    ],
)
def test_a_key_that_cannot_be_searched_or_a_value_that_it_does_not_take_is_refused(
    space: dict[str, Any], says: str
) -> None:
    with pytest.raises(Refused) as refused:
        config_of(space)
    assert says in str(refused.value) and str(refused.value).startswith("tune.space")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"trials": None}, "tune.trials: nothing; a search needs an end"),
        ({"direction": "minimize"}, "tune.direction: minimize; accuracy is better where it is higher"),
        ({"sampler": {"kind": "grid"}}, "a grid needs a finite number of values"),
        ({"storage": "postgresql://me:secret@db/studies"}, "an address written out; a secret must be a reference"),
        (
            {"pruner": {"kind": "hyperband", "first": 100, "last": 10}},
            "tune.pruner.first: 100; must be below last = 10",
        ),
        (
            {"pruner": {"kind": "hyperband", "first": 100, "last": 200}},
            "tune.pruner.first: 100; a training ends before",
        ),
        ({"pruner": {"kind": "halving", "first": 1000}}, "tune.pruner.first: 1000; a training ends before it"),
        ({"pruner": {"kind": "median", "warmup": 100}}, "tune.pruner.warmup: 100; a training ends before it"),
    ],
)
def test_a_search_that_does_not_end_or_contradicts_itself_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused) as refused:
        config_of(**settings)
    assert says in str(refused.value) and "secret@" not in str(refused.value)


def test_a_pruner_may_begin_within_the_longest_of_the_trainings() -> None:
    steps = {"train.steps": {"kind": "choice", "values": [50, 400]}}
    config_of(steps, pruner={"kind": "halving", "first": 399})
    with pytest.raises(Refused, match="tune.pruner.first: 400; a training ends before it, after 400 steps"):
        config_of(steps, pruner={"kind": "halving", "first": 400})


def test_a_range_has_its_upper_end() -> None:
    def points(low: float, high: float, step: float) -> list[float] | None:
        return FloatRange(low=low, high=high, step=step).points

    assert points(0.0, 0.3, 0.1) == [0.0, 0.1, 0.2, 0.3]
    assert points(0.1, 0.7, 0.2) == [0.1, 0.3, 0.5, 0.7]
    assert points(1e-7, 5e-7, 2e-7) == [1e-7, 3e-7, 5e-7]


@pytest.mark.parametrize(("sampler", "left_out"), [("tpe", ()), ("grid", ("train.learning_rate",))])
def test_the_order_of_keys_changes_nothing(sampler: str, left_out: tuple[str, ...], tmp_path: Path) -> None:
    """Neither in the space nor in a value; a study goes on under another order."""
    scaling = [{"kind": "linear", "batch_size": 8}, {"kind": "sqrt", "batch_size": 9}]

    def config(turned: bool) -> Config:
        values = [dict(reversed(each.items())) if turned else each for each in scaling]
        space = {**SPACE, "train.rate_scaling": {"kind": "choice", "values": values}}
        kept = [(key, each) for key, each in space.items() if key not in left_out]
        return config_of(dict(reversed(kept) if turned else kept), sampler={"kind": sampler})

    def asked(path: Path, turned: bool) -> dict[str, Any]:
        with opened(path, config(turned)) as study:
            trial = study.ask()
            study.complete(trial.number, 1.0)
        return trial.values

    one, other = tmp_path / "one.db", tmp_path / "other.db"
    assert [asked(one, turned) for turned in (False, True)] == [asked(other, True) for _ in range(2)]


def test_a_study_is_that_of_the_model_that_its_trainings_begin_with(tiny: Snapshot) -> None:
    config = config_of()

    def study(**models: Artifact) -> dict[str, Any]:
        assert config.tune is not None
        return identities.study(tiny, config.model, config.train, 3, config.tune, **models)

    one, other = (Model(letter * 64, tiny.path, "model") for letter in "12")
    studies_of = [study(), study(start=one), study(start=other), study(base=one)]
    assert all(studies_of.count(each) == 1 for each in studies_of)


def test_a_study_is_that_of_the_files_that_its_choices_name(tiny: Snapshot, tmp_path: Path) -> None:
    starts = [{"kind": "file", "path": str(tmp_path / "a.keras")}, None]
    config = config_of({"train.init": {"kind": "choice", "values": starts}})

    def study(content: bytes) -> dict[str, Any]:
        assert config.tune is not None
        (tmp_path / "a.keras").write_bytes(content)
        trials = [(trial.model, trial.train) for trial in searched(config)]
        return identities.study(tiny, config.model, config.train, 3, config.tune, searched=trials)

    assert study(b"one") == study(b"one") != study(b"two")


def test_files_and_models_to_begin_with_are_searched_and_paths_are_those_of_the_preset(tmp_path: Path) -> None:
    starts = [
        None,
        {"kind": "file", "path": "a.keras"},
        {"kind": "file", "path": "b.keras"},
        {"kind": "model", "model": "a1"},
    ]
    preset = tmp_path / "own/preset.yaml"
    preset.parent.mkdir()
    space = {"train.init": {"kind": "choice", "values": starts}}
    preset.write_text(yaml.safe_dump({**BASE, "tune": {"trials": 2, "space": space}}))
    tune = load(preset).tune
    assert tune is not None
    values = tune.space["train.init"].examples
    assert [value and value.get("path") for value in values] == [
        None,
        str(preset.parent / "a.keras"),
        str(preset.parent / "b.keras"),
        None,
    ]
    mine = {"kind": "choice", "values": [{"kind": "convnet"}, {"kind": "import", "target": "nets:mine"}]}
    preset.write_text(yaml.safe_dump({**BASE, "tune": {"trials": 2, "space": {"model": mine}}}))
    tune = load(preset).tune
    assert tune is not None and tune.space["model"].examples[1]["folder"] == str(preset.parent)
    for key, pair in {"path": ("a.keras", "b.keras"), "model": ("a1", "b2")}.items():
        init = {"kind": "file" if key == "path" else "model", key: pair[0]}
        train = {"steps": 100, "init": init}
        config = {
            **BASE,
            "train": train,
            "tune": {"trials": 2, "space": {f"train.init.{key}": {"kind": "choice", "values": pair}}},
        }
        assert validate(config).tune is not None


def test_a_trial_with_a_loss_of_millrace_has_no_folder_of_own_losses() -> None:
    losses = {"kind": "choice", "values": ["cross_entropy", "own.losses:focal"]}
    train = {"steps": 100, "loss": "own.losses:focal", "folder": "/losses"}
    config = validate({**BASE, "train": train, "tune": {"trials": 2, "space": {"train.loss": losses}}})
    trials = [with_values(config, {"train.loss": loss}).train for loss in losses["values"]]
    assert {trial.loss: trial.folder for trial in trials} == {"cross_entropy": None, "own.losses:focal": "/losses"}


def test_flags_reach_into_the_space() -> None:
    config = config_of({"train.learning_rate": RATE, "train": {"learning_rate": {"high": 0.5}, "ema": RATE}})
    assert config.tune is not None
    assert {key: values.high for key, values in config.tune.space.items()} == {  # type: ignore[union-attr]
        "train.learning_rate": 0.5,
        "train.ema": 0.1,
    }


def test_a_trial_is_a_config_with_its_values_and_without_a_search() -> None:
    config = config_of()
    values = {"train.optimizer.kind": "sgd", "model.filters": [4], "train.learning_rate": 0.5}
    trial = with_values(config, values)
    assert (trial.train.optimizer.kind, trial.model.filters, trial.train.learning_rate) == ("sgd", (4,), 0.5)  # type: ignore[union-attr]
    assert trial.tune is None and trial.train.model_copy(update={"optimizer": None, "learning_rate": 0}) == (
        config.train.model_copy(update={"optimizer": None, "learning_rate": 0})
    )


def test_what_stands_for_a_primary_metric_is_what_the_objectives_score() -> None:
    from tasks.training.engines.objectives import OBJECTIVES

    assert OBJECTIVES.keys() == TASKS.keys()
    for task, objective in OBJECTIVES.items():
        assert set(TASKS[task].scores.values()) <= {"loss", *objective.metrics}, task
        assert set(TASKS[task].scores) <= set(TASKS[task].metrics), task


@pytest.mark.parametrize(
    "sampler", [{"kind": "tpe", "startup": 3}, {"kind": "tpe", "startup": 3, "multivariate": True}]
)
def test_a_study_that_is_interrupted_after_every_step_has_the_trials_of_an_unbroken_one(
    tmp_path: Path, sampler: dict[str, Any]
) -> None:
    config = config_of(sampler=sampler)
    with opened(tmp_path / "whole.db", config) as study:
        for number in range(6):
            study.complete(number, worth(study.ask().values))
        whole = study.trials()
    assert len({str(trial.values) for trial in whole}) == 6
    for _ in range(6):
        with opened(tmp_path / "broken.db", config) as study:
            study.ask()
        with opened(tmp_path / "broken.db", config) as study:
            [waiting] = [trial for trial in study.trials() if trial.state == RUNNING]
            study.complete(waiting.number, worth(waiting.values))
    with opened(tmp_path / "broken.db", config) as study:
        assert study.trials() == whole


def test_a_grid_has_every_combination_once_and_then_ends(tmp_path: Path) -> None:
    space = {"train.batch_size": SPACE["train.batch_size"], "model.filters": SPACE["model.filters"]}
    config = config_of(space, trials=None, sampler={"kind": "grid"})
    assert config.tune is not None and config.tune.most == 8
    for number in range(8):
        with opened(tmp_path / "grid.db", config) as study:
            study.complete(number, study.ask().values["train.batch_size"])
    with opened(tmp_path / "grid.db", config) as study:
        assert len({str(trial.values) for trial in study.trials()}) == 8
        best = best_of(study.trials(), higher_is_better=False)
        assert best is not None and best.value == 16
        assert sorted(study.importances()) == sorted(space)


def test_states_reasons_and_scores_are_stored_with_the_trial(tmp_path: Path) -> None:
    with opened(tmp_path / "study.db", config_of()) as study:
        for _ in range(3):
            study.ask()
        study.fail(0, reason="train.learning_rate: not finite")
        study.report(1, 10, 0.5)
        study.prune(1, seconds=2.0)
        study.complete(2, 0.25, model="abc", cached=True)
    with opened(tmp_path / "study.db", config_of()) as study:
        failed, pruned, complete = study.trials()
    assert (failed.state, failed.value, failed.reason) == (FAILED, None, "train.learning_rate: not finite")
    assert (pruned.state, pruned.value, pruned.steps, pruned.seconds) == (PRUNED, 0.5, 10, 2.0)
    assert (complete.state, complete.value, complete.model, complete.cached) == (COMPLETE, 0.25, "abc", True)


class Curve:
    """A journal with an evaluation every ten steps."""

    def __init__(self, path: Path, losses: list[float]) -> None:
        self.path = path
        lines = [
            f'{{"step": {10 * (k + 1)}, "time": 0, "metrics": {{"validation/loss": {loss}}}}}\n'
            for k, loss in enumerate(losses)
        ]
        path.write_text("".join(lines))


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[tuple[Study, Config]]:
    """A study with a trial of losses 1, 1, 1 at steps 10, 20, 30, and a pruner that begins after step 10."""
    config = config_of(metric="loss", pruner={"kind": "median", "startup": 1, "warmup": 15})
    with opened(tmp_path / "study.db", config) as study:
        study.ask()
        judge = TrialMonitor(study, 0, "loss", config.train, 30)
        assert not judge.take(Curve(tmp_path / "first", [1.0, 1.0, 1.0]).path)
        study.complete(0, 1.0)
        yield study, config


@pytest.mark.parametrize("interrupted", [False, True])
def test_where_a_trial_is_pruned_does_not_depend_on_when_its_evaluations_are_looked_at(
    judged: tuple[Study, Config], tmp_path: Path, interrupted: bool
) -> None:
    study, config = judged
    study.ask()
    losses = [2.0, 2.0, 0.1]
    if interrupted:  # after the evaluation that decides was stored, before the trial was ended
        TrialMonitor(study, 1, "loss", config.train, 30).take(Curve(tmp_path / "second", losses[:1]).path)
        study.report(1, 20, 2.0)
    judge = TrialMonitor(study, 1, "loss", config.train, 30)
    assert not judge.pruned and judge.take(Curve(tmp_path / "second", losses).path)
    assert judge.step == 20
    study.prune(1)
    assert (study.trial(1).steps, study.trial(1).value) == (20, 2.0)


def test_the_last_evaluation_ends_no_trial_early(judged: tuple[Study, Config]) -> None:
    study, config = judged
    study.ask()
    judge = TrialMonitor(study, 1, "loss", config.train, 30)
    judge.add(30, 9.0, 9.0)
    assert (judge.step, judge.score, judge.pruned) == (30, 9.0, False)
    assert study.prunes(1, 30), "it would have at an earlier step"


@pytest.mark.parametrize(("select", "score"), [("best", 0.25), ("last", 0.75)])
def test_the_score_of_a_trial_is_that_of_the_weights_it_selects(tmp_path: Path, select: str, score: float) -> None:
    config = validate({**BASE, "train": {"steps": 30, "select": select}, "tune": {"trials": 1, "space": SPACE}})
    with opened(tmp_path / "study.db", config) as study:
        study.ask()
        judge = TrialMonitor(study, 0, "loss", config.train, 30)
        judge.take(Curve(tmp_path / "curve", [0.5, 0.25, 0.75]).path)
    assert judge.score == score


def test_an_error_of_its_values_ends_a_trial_and_any_other_one_the_run(tmp_path: Path, tiny: Snapshot) -> None:
    config = config_of(metric="loss")
    with (
        opened_run(Home(tmp_path), "tuning", config, new=True, prefect_id=None, waiting=print) as run,
        opened(tmp_path / "study.db", config) as study,
    ):
        parent = Attempt(run, lambda export: None, Signals(), 1, None)

        def open_attempt(trial: Config, judge: TrialMonitor) -> TrialAttempt:
            return TrialAttempt(parent, open_trial(run, judge.number, trial), judge, threading.Event(), print)

        def close_attempt(attempt: TrialAttempt, state: str) -> None:
            attempt.end(state)
            attempt.shipper.close(60)

        def search(error: UserError) -> None:
            def train(*arguments: Any) -> Any:
                raise error

            trial = study.ask()
            values = with_values(config, trial.values)
            run_trial(study, trial.number, values, open_attempt, close_attempt, train, tiny)

        search(Failed("train.learning_rate", "not finite at step 3", "must be finite", "lower it"))
        with pytest.raises(Lost):
            search(Lost("train", "killed", "", ""))
        with pytest.raises(Failed, match="/disk"):
            search(Failed("/disk", "full", "", ""))
        parent.shipper.close(60)
        failed, *left = study.trials()
        ends = [(trial.record["status"], trial.exit_code) for trial in trials_of(run)]
    assert (failed.state, failed.value) == (FAILED, None)
    assert failed.reason == "train.learning_rate: not finite at step 3; must be finite; lower it"
    assert [trial.state for trial in left] == [RUNNING, RUNNING]
    assert ends == [("failed", 1), ("stopped", 75), ("stopped", 75)]


def test_values_that_together_make_no_config_end_their_trial_with_the_reason(tmp_path: Path) -> None:
    space = {
        "train.steps": {"kind": "choice", "values": [30, 60]},
        "train.schedule.warmup": {"kind": "choice", "values": [20, 50]},
    }
    config = config_of(space, trials=None, sampler={"kind": "grid"})
    with pytest.raises(Refused, match=r"train.schedule.warmup: 50; must not pass the 30 steps"):
        with_values(config, {"train.steps": 30, "train.schedule.warmup": 50})


def test_a_study_whose_creation_was_killed_is_created_anew(tmp_path: Path) -> None:
    (tmp_path / ".study.db.draft").write_bytes(b"torn")
    with opened(tmp_path / "study.db", config_of()) as study:
        assert study.count == 0


def test_a_database_that_does_not_answer_is_named_by_its_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIES", "postgresql://me:T0PS3CRET@127.0.0.1:1/studies")
    with pytest.raises(Failed) as failed, opened(tmp_path / "study.db", config_of(storage="env:STUDIES")):
        pass
    assert str(failed.value).startswith("tune.storage: env:STUDIES: ") and "T0PS3CRET" not in str(failed.value)
    with pytest.raises(Failed, match="env:NOTHING: empty or not set"):
        opened(tmp_path / "study.db", config_of(storage="env:NOTHING")).__enter__()


def test_a_database_that_is_lost_or_full_during_the_search_is_an_error_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with pytest.raises(Failed, match=rf"^tune.storage: {path}: OperationalError; "), opened(path, config_of()) as study:
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE trials")
        study.ask()
    path = tmp_path / "full.db"
    with pytest.raises(OSError, match="No space left on device"), opened(path, config_of()) as study:
        with study._storage.engine.connect() as connection:
            size = connection.scalar(text("PRAGMA page_count"))
            connection.execute(text(f"PRAGMA max_page_count = {size}"))
        for number in range(500):
            study.complete(study.ask().number, 1.0, reason="x" * 1000 + str(number))


@pytest.mark.slow
def test_a_study_is_stored_in_postgresql(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(storage="env:STUDIES")
    connection = psycopg2.connect(postgres)
    connection.autocommit = True
    for statement in ("CREATE DATABASE foreign_tables", "CREATE DATABASE studies"):
        connection.cursor().execute(statement)
    connection.close()
    server = postgres.rpartition("/")[0]
    monkeypatch.setenv("STUDIES", f"{server}/foreign_tables")
    with psycopg2.connect(f"{server}/foreign_tables") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        cursor.execute("INSERT INTO alembic_version VALUES ('of MLflow')")
    with pytest.raises(Failed, match="tables of another program, such as MLflow, .* a database for studies alone"):
        opened(tmp_path / "study.db", config).__enter__()
    monkeypatch.setenv("STUDIES", f"{server}/studies")
    for number in range(2):
        with opened(tmp_path / "study.db", config) as study:
            assert study.ask().number == number
            study.complete(number, 1.0)
            with pytest.raises(Failed, match="the study here is in use; one home at a time works on a study"):
                opened(tmp_path / "other.db", config).__enter__()
    assert not (tmp_path / "study.db").exists()
    assert optuna.study.get_all_study_names(f"{server}/studies") == ["here"]
