"""The parts of a tuning: seeds of trials, settings that reach the library, what is stored once, when it is over."""

from __future__ import annotations

import contextlib
import errno
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from tasks.compression.config import SearchConfig
from tasks.config.compose import load
from tasks.config.kinds import any_of
from tasks.errors import Failed, Lost, Stopped
from tasks.processes.workbench import Work
from tasks.runner import starting_models, tuning
from tasks.runner.attempt import Attempt, current
from tasks.runner.compressing import search
from tasks.runner.stages import _may_retry
from tasks.runner.trials import TrialAttempt
from tasks.search import study as studies
from tasks.search.choosing import GridSampler, MedianPruner, Pruner, RandomSampler, Sampler, derived
from tasks.search.config import TuneConfig
from tasks.search.space import Choice, FloatRange, IntRange, decoded, distributions
from tasks.search.study import Study, opened
from tasks.search.table import COMPLETE, FAILED, PRUNED, RUNNING, Table, Trial, read
from tasks.store.store import digest_of
from tests.support.homes import ROOT

TUNING = ROOT / "flows/presets/digits_tuning.yaml"
SPACE: dict[str, Any] = {
    "rate": FloatRange(low=1e-4, high=1.0, log=True),
    "steps": IntRange(low=1, high=64, log=True),
    "kind": Choice(values=("a", {"b": 1}, None)),
}
TRIAL = Trial(0, COMPLETE, {}, 0.5, 10, 1.0, None, False, None)


def test_a_seed_is_that_of_the_run_and_of_what_it_is_for() -> None:
    seeds = {derived(seed, name) for seed in (1, 2) for name in ("trial/0", "trial/1", "grid")}
    assert len(seeds) == 6 and all(0 <= seed < 2**31 for seed in seeds)
    assert derived(1, "grid") in seeds


def test_random_values_are_others_in_each_trial_and_the_same_again() -> None:
    def drawn(seed: int, number: int) -> float:
        sampler: Any = RandomSampler().sampler(SPACE, seed, number)
        return float(sampler._rng.rng.rand())

    assert len({drawn(1, 0), drawn(1, 1), drawn(2, 0)}) == 3 and drawn(1, 1) == drawn(1, 1)


def test_a_study_draws_by_the_seed_of_its_run(tmp_path: Path) -> None:
    def values(name: str, seed: int) -> list[Any]:
        config = TuneConfig(space={"rate": SPACE["rate"]}, sampler=RandomSampler(), trials=3)
        with opened(tmp_path / name, "study", config, higher_is_better=True, seed=seed) as study:
            return [study.ask().values["rate"] for _ in range(3)]

    assert values("one", 1) == values("again", 1) != values("other", 2)


def test_a_grid_is_in_one_order_for_all_trials_of_a_seed() -> None:
    space: Any = {"steps": IntRange(low=1, high=9), "kind": SPACE["kind"]}
    grids: list[Any] = [GridSampler().sampler(space, seed, number) for seed, number in ((1, 0), (1, 7), (2, 0))]
    assert grids[0]._all_grids == grids[1]._all_grids != grids[2]._all_grids
    assert sorted(map(str, grids[0]._all_grids)) == sorted(map(str, grids[2]._all_grids))


OF_OPTUNA: dict[str, dict[str, str]] = {
    "none": {},
    "median": {"startup": "_n_startup_trials", "warmup": "_n_warmup_steps"},
    "halving": {"first": "_min_resource", "factor": "_reduction_factor"},
    "hyperband": {"first": "_min_resource", "last": "_max_resource", "factor": "_reduction_factor"},
    "tpe": {"startup": "_n_startup_trials", "multivariate": "_multivariate"},
    "random": {},
    "grid": {},
}
"""The settings of each pruner and sampler, and Optuna's names of them."""
VALUES: list[dict[str, Any]] = [
    {"startup": 8, "warmup": 30, "first": 7, "last": 189, "factor": 6, "multivariate": True},
    {"startup": 2, "warmup": 40, "first": 5, "last": 100, "factor": 2, "multivariate": False},
]
"""Numbers that are no default, neither ours nor Optuna's, which stands where a setting does not reach it."""


@pytest.mark.parametrize("given", VALUES, ids=["some", "others"])
@pytest.mark.parametrize("kind", [*Pruner.kinds(), *Sampler.kinds()])
def test_each_pruner_and_each_sampler_gets_all_of_its_settings(kind: str, given: dict[str, Any]) -> None:
    names = OF_OPTUNA[kind]
    config: Any = TypeAdapter(any_of((Pruner if kind in Pruner.kinds() else Sampler).kinds().values())).validate_python(
        {"kind": kind, **{name: given[name] for name in names}}
    )
    assert {"kind", *names} == set(type(config).model_fields), "a setting that this table lacks"
    made = config.pruner() if kind in Pruner.kinds() else config.sampler({"kind": SPACE["kind"]}, 1, 0)
    assert {name: getattr(made, of_optuna) for name, of_optuna in names.items()} == {
        name: given[name] for name in names
    }
    expected = {"none": "NopPruner", "halving": "SuccessiveHalvingPruner"}.get(kind, kind)
    assert type(made).__name__.lower().startswith(expected.lower())


def test_ranges_keep_their_scale_their_steps_and_the_order_of_their_keys() -> None:
    made: Any = distributions(
        {**SPACE, "even": IntRange(low=2, high=8, step=2), "a": FloatRange(low=0, high=1, step=0.5)}
    )
    assert list(made) == ["a", "even", "kind", "rate", "steps"]
    assert made["rate"].log and made["steps"].log and not made["even"].log
    assert (made["even"].step, made["a"].step, made["rate"].high) == (2, 0.5, 1.0)
    chosen = decoded(SPACE, {"kind": made["kind"].choices[1], "rate": 0.5})
    assert chosen == {"kind": {"b": 1}, "rate": 0.5} and made["kind"].choices[2] == "null"


def test_a_search_is_over_when_all_trials_have_ended_or_its_minutes_have_shown_one() -> None:
    def table(*states: str) -> Table:
        return Table("s", "loss", False, [replace(TRIAL, number=n, state=state) for n, state in enumerate(states)])

    def asks(trials: int | None, minutes: float | None) -> Any:
        return SimpleNamespace(most=trials if trials is not None else 1000, minutes=minutes)

    assert table(COMPLETE, PRUNED, FAILED).covers(asks(3, None))
    assert not table(COMPLETE, PRUNED, RUNNING).covers(asks(3, None)), "one is under way"
    assert table(COMPLETE).covers(asks(None, 5)) and not table(RUNNING).covers(asks(None, 5))
    assert not table().covers(asks(None, 5)) and not table(COMPLETE).covers(asks(2, None))


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    made = Table("s", "accuracy", True, [TRIAL, replace(TRIAL, number=1, value=0.75)], {"a": 0.25, "b": 0.75})
    made.save(tmp_path)
    again = read(tmp_path)
    assert again == made and again.best == made.trials[1]
    assert [key for key, _ in again.shares] == ["b", "a"], "the largest first"


def study_of(path: Path, higher: bool = True, **more: Any) -> contextlib.AbstractContextManager[Study]:
    config = TuneConfig(space={"rate": SPACE["rate"]}, trials=9, **more)
    return opened(path, "study", config, higher_is_better=higher, seed=1)


@pytest.mark.parametrize("higher", [True, False])
def test_a_study_looks_for_what_is_better(tmp_path: Path, higher: bool) -> None:
    with study_of(tmp_path / "s.db", higher) as study:
        for value in (0.2, 0.9, 0.5):
            study.complete(study.ask().number, value)
        assert study._study.best_value == (0.9 if higher else 0.2)
        assert study.importances() == {}, "of fewer than four"
        study.complete(study.ask().number, 0.1)
        assert study.importances() == study.importances() == {"rate": 1.0}


def test_importances_of_keys_are_the_same_each_time_and_most_for_what_decides(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    config = TuneConfig(space={"rate": SPACE["rate"], "other": SPACE["rate"]}, trials=20)
    with opened(tmp_path / "s.db", "study", config, higher_is_better=True, seed=1) as study:
        for _ in range(20):
            trial = study.ask()
            study.complete(trial.number, float(np.log(trial.values["rate"]) + 0.2 * random.random()))
        found = study.importances()
        assert found["rate"] > found["other"] > 0 and sum(found.values()) == pytest.approx(1)
        assert all(study.importances() == found for _ in range(3))


def test_trials_that_are_under_way_are_known_to_the_next(tmp_path: Path) -> None:
    """As of a tuning with several trials at a time: none of them has ended."""
    choice = Choice(values=("a", "b", "c", "d"))
    config = TuneConfig(space={"kind": choice}, sampler=GridSampler())
    with opened(tmp_path / "s.db", "study", config, higher_is_better=True, seed=1) as study:
        assert sorted(study.ask().values["kind"] for _ in range(4)) == ["a", "b", "c", "d"]


def test_the_first_score_of_a_step_stays_and_only_the_last_one_prunes(tmp_path: Path) -> None:
    """A journal that is read again after a resume repeats evaluations."""
    with study_of(tmp_path / "s.db", pruner=MedianPruner(startup=1, warmup=0)) as study:
        first = study.ask().number
        for step in (10, 20):
            study.report(first, step, 0.9)
        study.complete(first, 0.9)
        second = study.ask().number
        study.report(second, 10, 0.1)
        study.report(second, 10, 0.95)
        assert study._frozen()[second].intermediate_values == {10: 0.1}
        assert study.prunes(second, 10) and study.prunes(second, 10)
        study.report(second, 20, 0.2)
        assert not study.prunes(second, 10), "it went on"
        assert study.prunes(second, 20)


def test_a_study_whose_draft_is_left_begins_anew_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    for name in (".s.db.draft", ".s.db.draft-journal"):
        (tmp_path / name).write_bytes(b"torn")
    with study_of(path) as study:
        assert study.count == 0
    assert [each.name for each in tmp_path.iterdir()] == ["s.db"]
    assert sqlite3.connect(path).execute("SELECT count(*) FROM studies").fetchone() == (1,)


@pytest.mark.parametrize("address", ["mysql://host/name", "https://host", "/a/path"])
def test_a_study_is_kept_in_postgresql_alone(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUDY", address)
    with pytest.raises(Failed, match="begins with postgresql://") as refused:
        studies.open_database("env:STUDY", "study", "minimize")
    assert address not in str(refused.value)


def test_only_a_lost_process_or_server_is_tried_again() -> None:
    def may_retry(error: Exception) -> bool:
        stage: Any = SimpleNamespace(name="train")
        return _may_retry(stage, None, SimpleNamespace(data=error))  # type: ignore[arg-type]

    assert may_retry(Lost("train", "killed", "it must live", "run again"))
    assert not may_retry(Failed("train", "killed", "it must live", "run again"))
    assert not may_retry(OSError(errno.ENOSPC, "full"))


def test_a_search_goes_on_from_the_longest_of_the_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its own seed: those of another one are other trials."""
    from tasks.compression.methods.method import Chain
    from tasks.compression.search import Trial as Tried

    def stored(run: str, seed: int, count: int) -> None:
        folder = tmp_path / "runs" / run
        folder.mkdir(parents=True)
        trials = [Tried(number, {"m": "x"}, f"of {run}", 10, 0.1).as_json() for number in range(count)]
        key = digest_of({"model": "m", "seed": seed})
        (folder / "search.json").write_text(json.dumps({"key": key, "trials": trials}))

    for run, seed, count in (("a", 1, 1), ("b", 1, 3), ("c", 1, 2), ("d", 2, 5)):
        stored(run, seed, count)
    folder = tmp_path / "runs/now"
    folder.mkdir()
    attempt: Any = SimpleNamespace(run=SimpleNamespace(folder=folder, home=SimpleNamespace(runs=tmp_path / "runs")))
    space: Any = SimpleNamespace(chain=lambda values: Chain())
    token = current.set(attempt)
    try:
        search(
            SearchConfig(trials=3, seed=1),
            {"model": "m"},
            space,
            lambda chain: pytest.fail("it is known"),
            lambda each: 0.0,
        )
    finally:
        current.reset(token)
    assert {row["name"] for row in json.loads((folder / "search.json").read_bytes())["trials"]} == {"of b"}


def test_the_longest_of_the_known_searches_counts_and_the_same_methods_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.compression.methods.method import Chain
    from tasks.compression.search import Trial as Tried

    rows = [Tried(number, {"m": "x"}, "known", 10, 0.1).as_json() for number in range(2)]
    monkeypatch.setattr("tasks.runner.compressing._stored", lambda runs, digest: iter([rows[:1], rows, []]))
    monkeypatch.setattr("tasks.compression.search.ask", lambda trials, of, seed: {"m": str(len(trials))})
    (tmp_path / "now").mkdir()
    attempt: Any = SimpleNamespace(run=SimpleNamespace(folder=tmp_path / "now", home=SimpleNamespace(runs=tmp_path)))
    made: list[Any] = []

    def make(chain: Any) -> Any:
        made.append(chain)
        return SimpleNamespace(manifest={"statistics": {"bytes": 20}})

    space: Any = SimpleNamespace(chain=lambda values: Chain())
    token = current.set(attempt)
    try:
        search(SearchConfig(trials=5, seed=1), {"model": "m"}, space, make, lambda each: 0.2)
    finally:
        current.reset(token)
    trials = json.loads((tmp_path / "now/search.json").read_bytes())["trials"]
    assert len(made) == 1 and [trial["bytes"] for trial in trials] == [10, 10, 20, 20, 20]
    assert [trial["number"] for trial in trials] == [0, 1, 2, 3, 4]
    assert [trial["values"]["m"] for trial in trials] == ["x", "x", "2", "3", "4"]


def test_a_strategy_is_tested_once_for_each_precision_and_one_float32_device_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.training.config import TrainConfig

    tested: list[str] = []
    measured: list[Any] = []

    def work(stage: str, work: Any, staging: Any, **more: Any) -> dict[str, Any]:
        tested.append(f"{work.arguments[0].kind} {work.arguments[1]}")
        return {"largest": 0.0}

    run = SimpleNamespace(home=SimpleNamespace(root=tmp_path), measure=lambda name, value: measured.append(value))
    attempt: Any = SimpleNamespace(run=run, work=work)
    monkeypatch.setattr(starting_models, "current", SimpleNamespace(get=lambda: attempt))
    for precision in ("float32", "float16", "bfloat16", "float16"):
        starting_models.check_strategy(TrainConfig.model_validate({"steps": 1, "precision": precision}))
    assert tested == ["one_device float16"]
    for precision in ("float32", "bfloat16", "float32"):
        strategy = {"kind": "mirrored", "devices": 2}
        config = TrainConfig.model_validate({"steps": 1, "precision": precision, "strategy": strategy})
        starting_models.check_strategy(config)
    assert len(tested) == 3 and len(measured) == 5
    (tmp_path / "self_tests.json").write_text("torn")
    starting_models.check_strategy(TrainConfig.model_validate({"steps": 1, "precision": "float16"}))
    assert len(tested) == 4, "a damaged file has no verdict"


def test_a_trial_stops_for_a_signal_an_error_of_another_and_its_own_end() -> None:
    attempt: Any = TrialAttempt.__new__(TrialAttempt)
    attempt.run = SimpleNamespace(folder=Path())
    attempt.signals = SimpleNamespace(number=0, raise_if_stopped=lambda: None)
    attempt._ending = SimpleNamespace(is_set=lambda: False)
    attempt.judge = SimpleNamespace(take=lambda journal: False)
    assert attempt.stopping() == 0
    attempt.judge = SimpleNamespace(take=lambda journal: True)
    assert attempt.stopping() == 15
    attempt.judge, attempt._ending = SimpleNamespace(take=lambda journal: False), SimpleNamespace(is_set=lambda: True)
    assert attempt.stopping() == 15
    attempt.signals.number = 2
    assert attempt.stopping() == 2


def test_a_training_that_was_pruned_as_it_ended_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attempt, "work", lambda attempt, *call, **options: "outcome")
    attempt: Any = TrialAttempt.__new__(TrialAttempt)
    attempt.run = SimpleNamespace(folder=Path())
    for pruned in (False, True):
        attempt.judge = SimpleNamespace(take=lambda journal, pruned=pruned: pruned)
        if pruned:
            with pytest.raises(Stopped):
                attempt.work("train", Work(print), None)
        else:
            assert attempt.work("train", Work(print), None) == "outcome"


def test_what_earlier_attempts_have_spent_counts_in_the_budget(tmp_path: Path) -> None:
    run = SimpleNamespace(measurements=lambda: {tuning.SPENT: 90.0})
    attempt: Any = SimpleNamespace(run=run, journal=tmp_path / "metrics.jsonl")
    nothing: Any = None
    search = tuning.Search(attempt, nothing, "study", nothing, load(TUNING), nothing, nothing)
    assert 90.0 <= search.spent < 100.0
    search.senders.shutdown()
