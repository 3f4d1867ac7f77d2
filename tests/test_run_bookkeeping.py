"""Which run goes on, how often work is tried again, what a budget has spent: counted over attempts."""

from __future__ import annotations

import errno
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.artifacts import Records, Variant
from tasks.config.compose import load
from tasks.errors import Damaged, Failed, Lost, Refused, Stopped
from tasks.processes.workbench import Work
from tasks.runner.attempt import current
from tasks.runner.compressing import _tried
from tasks.runner.signals import MOST_PAUSE, Restarts
from tasks.runner.stages import run_stage
from tasks.runner.tuning import Search
from tasks.runs.audit import Audit, Entry
from tasks.runs.home import Home
from tasks.runs.runs import Run, find_runs, finished_before, opened
from tests.support.homes import DIGITS

LOST = Lost("train.strategy", "its process was killed", "it must answer", "run again")


def test_work_that_is_lost_at_the_same_step_is_not_begun_for_ever() -> None:
    restarts = Restarts(3)
    assert [restarts.pause(LOST, 10) for _ in range(3)] == [2.0, 4.0, 8.0]
    with pytest.raises(Failed, match="4 times without a new checkpoint; train.restarts allows 3 restarts"):
        restarts.pause(LOST, 10)


def test_a_new_step_begins_the_count_anew_and_an_older_one_does_not() -> None:
    restarts = Restarts(3)
    assert [restarts.pause(LOST, done) for done in (10, 10, 11, 11, 5)] == [2.0, 4.0, 2.0, 4.0, 8.0]
    with pytest.raises(Failed):
        restarts.pause(LOST, 11)
    assert Restarts(0).most == 0
    with pytest.raises(Failed, match="1 times"):
        Restarts(0).pause(LOST, 0)
    many = Restarts(20)
    assert [many.pause(LOST, 0) for _ in range(7)][-2:] == [MOST_PAUSE, MOST_PAUSE]


@pytest.mark.parametrize(
    ("error", "is_a_trial"),
    [
        (Failed("compress.methods", "one layer", "two are needed", "choose another"), True),
        (Failed("stage compress", "No space left on device", "it needs room", "make room"), False),
        (Damaged("variant", "changed", "it must not", "run again"), False),
        (LOST, False),
        (Refused("compress", "x", "y", "z"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
    ],
)
def test_only_a_method_that_does_not_fit_is_a_trial_without_a_result(error: Exception, is_a_trial: bool) -> None:
    """A full disk is no property of a method: its trial would be stored, and never tried again."""

    def make(methods: Any) -> Variant:
        raise error

    methods: Any = SimpleNamespace(name="int8")
    if is_a_trial:
        trial = _tried(3, {"method": "int8"}, methods, make, lambda variant: 0.0)
        assert trial.reason == str(error) and trial.number == 3 and trial.name == "int8"
        return
    with pytest.raises(type(error)):
        _tried(3, {}, methods, make, lambda variant: 0.0)


def test_a_budget_of_minutes_is_of_all_attempts() -> None:
    search: Any = Search.__new__(Search)
    search.before, search.started = 500.0, time.monotonic() - 30
    assert search.spent == pytest.approx(530, abs=1)
    asked = SimpleNamespace(number=7)
    search.study = SimpleNamespace(count=3, ask=lambda: asked)
    for minutes, most, expected in ((None, 9, 7), (9, 9, 7), (8, 9, None), (None, 3, None)):
        search.tune = SimpleNamespace(minutes=minutes, most=most)
        assert Search.next(search, deque()) == expected


def run_of(home: Home, number: int, exit_code: int | None, seed: int = 1, new: bool = True) -> Run:
    """A run that ended so; runs of one second have no order, so each gets a second of its own."""
    config = load(DIGITS, [("seed", str(seed))])
    with opened(home, "pipeline", config, new=new, prefect_id=None, waiting=print) as run:
        run.end(exit_code or 0, "completed", None)
        run.note(exit_code=exit_code)
    return Run(home, run.folder.rename(home.runs / f"20260101-00000{number}-digits-0000"))


@pytest.mark.parametrize(
    ("codes", "goes_on"),
    [((1,), 0), ((0,), None), ((3,), None), ((75,), 0), ((None,), 0), ((1, 0), None), ((0, 1), 1), ((75, 3), None)],
)
def test_a_run_goes_on_where_the_last_one_of_its_config_did_not_finish(
    codes: tuple[int | None, ...], goes_on: int | None, tmp_path: Path
) -> None:
    home, config = Home(tmp_path / "home").make(), load(DIGITS, [("seed", "1")])
    runs = [run_of(home, number, code) for number, code in enumerate(codes)]
    run_of(home, 8, 1, seed=2)  # another config
    assert finished_before(home, "pipeline", config) is (goes_on is None)
    with opened(home, "pipeline", config, new=False, prefect_id=None, waiting=print) as run:
        if goes_on is None:
            assert run.attempt == 1 and run.folder not in [each.folder for each in runs]
        else:
            assert (run.folder, run.attempt) == (runs[goes_on].folder, 2)
    with opened(home, "dataset", config, new=False, prefect_id=None, waiting=print) as other:
        assert other.attempt == 1


@pytest.mark.parametrize("refuses", [False, True])
def test_a_stage_that_is_stopped_before_it_begins_makes_nothing_and_what_it_refuses_comes_first(refuses: bool) -> None:
    asked: list[str] = []

    def check() -> None:
        asked.append("check")
        if refuses:
            raise Refused("a", 1, "rule", "remedy")

    def stopped() -> None:
        asked.append("stopped")
        raise Stopped(15)

    identity: Any = SimpleNamespace(inputs=lambda kind: pytest.fail("nothing is looked for"))
    token = current.set(SimpleNamespace(raise_if_stopped=stopped))  # type: ignore[arg-type]
    try:
        with pytest.raises(Refused if refuses else Stopped):
            run_stage("convert", Records, identity, Work(print), check=check)
    finally:
        current.reset(token)
    assert asked == (["check"] if refuses else ["check", "stopped"])


def test_of_many_runs_the_newest_decides_whatever_order_the_disk_has(tmp_path: Path) -> None:
    home, config = Home(tmp_path / "home").make(), load(DIGITS, [("seed", "1")])
    numbers = [3, 0, 6, 2, 7, 1, 5, 4]  # so are they made
    runs = {number: run_of(home, number, 1 if number == 7 else 0) for number in numbers}
    assert not finished_before(home, "pipeline", config)
    with opened(home, "pipeline", config, new=False, prefect_id=None, waiting=print) as run:
        assert run.folder == runs[7].folder
        run.end(0, "completed", None)
    assert finished_before(home, "pipeline", config)
    for number in numbers:
        attempts = [{"prefect_flow_run_id": "p", "attempt": 1}] if number in (2, 5, 6) else []
        runs[number].note(attempts=attempts)
    with opened(home, "pipeline", config, new=False, prefect_id="p", waiting=print) as run:
        assert run.folder == runs[6].folder, "the last of those that were this flow run"
    assert [run.folder.name[-18:-12] for run in find_runs(home)] == sorted(
        run.folder.name[-18:-12] for run in runs.values()
    )


def entry(version: str, alias: str, before: str | None, after: str | None, action: str = "promote") -> Entry:
    return Entry(action, "digits", version, "e" * 64, alias, before, after, "run", "ada", "as stated", "because")


def test_only_versions_that_were_champion_are_champions(tmp_path: Path) -> None:
    audit = Audit(Home(tmp_path / "home").make())
    for each in (
        entry("1", "champion", None, "1"),
        entry("2", "candidate", None, "2"),
        entry("3", "champion", "1", "3"),
        entry("4", "candidate", "2", "4"),
        entry("5", "champion", "3", "3", "await"),
    ):
        audit.begin(each, {})
        audit.close()
    assert audit.champions("digits") == ["1", "3"] and audit.champions("other") == []
    audit.begin(entry("1", "champion", "3", "1", "rollback"), {})
    audit.close()
    assert audit.champions("digits") == ["1"]
