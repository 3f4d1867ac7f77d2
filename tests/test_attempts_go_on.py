"""What an attempt has counted, measured or waited for is where the next one goes on, and not where it begins anew."""

from __future__ import annotations

import json
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.config.compose import load
from tasks.runner import tuning
from tasks.runner.signals import Signals
from tasks.runner.trials import SECONDS, TrialAttempt
from tasks.runner.tuning import SPENT, Search
from tasks.runs import runs as of_runs
from tasks.runs.home import Home
from tasks.runs.runs import Run, opened
from tasks.search.monitor import TrialMonitor
from tasks.search.table import COMPLETE, FAILED, PRUNED, RUNNING, Trial
from tasks.store.journal import JournalFile
from tasks.tracking.shipping import Shipper
from tasks.training.config import TrainConfig
from tasks.training.meter import Meter, Spikes, StepSums
from tasks.training.primary import BestWeights
from tasks.training.sections import Rollback
from tests.support.homes import DIGITS

TUNE = "{space: {train.batch_size: {kind: int, low: 8, high: 16}}, trials: 3, minutes: 5}"


class Attempted:
    """A run of a tuning, attempt by attempt."""

    def __init__(self, home: Home) -> None:
        self.home, self.config = home, load(DIGITS, [("tune", TUNE)])

    def search(self, run: Run, trials: list[Trial]) -> Any:
        """The search of an attempt with a study that has these trials."""
        attempt: Any = SimpleNamespace(run=run, journal=run.folder / "metrics.jsonl", signals=Signals())
        study: Any = SimpleNamespace(
            count=len(trials), trials=lambda: trials, trial=lambda number: trials[number], importances=dict
        )
        line: Any = SimpleNamespace(say=lambda text: None, progress=lambda *given: None, finish=lambda *given: None)
        return Search(attempt, study, "study", None, self.config, None, line)  # type: ignore[arg-type]

    def run(self) -> Any:
        return opened(self.home, "tuning", self.config, new=False, prefect_id=None, waiting=print)


def trial(number: int, state: str = COMPLETE) -> Trial:
    return Trial(number, state, {}, 0.5 if state != FAILED else None, 10, 1.0, None, False, None)


def test_the_minutes_of_a_search_are_those_of_all_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = Attempted(Home(tmp_path))
    done = [trial(number) for number in range(3)]
    monkeypatch.setattr(tuning.prefect_page, "trials", lambda made: None)
    with tuned.run() as run:
        first = tuned.search(run, done)
        assert first.before == 0.0
        first.started -= 100  # it has worked for so long
        first.run()
        assert run.measurements()[SPENT] == pytest.approx(100, abs=2)
    with tuned.run() as run:
        assert run.attempt == 2
        second = tuned.search(run, done)
        assert second.spent == pytest.approx(100, abs=2)
        second.started -= 150
        monkeypatch.setattr(second, "end", lambda: (_ for _ in ()).throw(RuntimeError("an error")))
        with pytest.raises(RuntimeError):
            second.run()
        assert run.measurements()[SPENT] == pytest.approx(250, abs=2), "also of an attempt that fails"
    with tuned.run() as run:
        third = tuned.search(run, done[:1])
        third.study.ask = lambda: trial(1)
        assert third.next(deque()) == 1
        third.started -= 60
        assert third.next(deque()) is None, "250 and 60 seconds are more than 5 minutes"


def test_an_interrupted_trial_goes_on_before_a_new_one_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning.prefect_page, "trials", lambda made: None)
    tuned = Attempted(Home(tmp_path))
    trials, tried = [trial(0), trial(1, RUNNING), trial(2, RUNNING)], list[int]()
    with tuned.run() as run:
        search = tuned.search(run, trials)
        monkeypatch.setattr(search, "try_one", tried.append)
        search.run()
    assert sorted(tried) == [1, 2]


def test_a_trial_that_ended_before_a_kill_is_ended_and_sent_by_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = Attempted(Home(tmp_path))
    states = [COMPLETE, PRUNED, FAILED, RUNNING, COMPLETE, COMPLETE, PRUNED]
    sent: list[int] = []
    monkeypatch.setattr(tuning, "Shipper", lambda run: SimpleNamespace(run=run))
    with tuned.run() as run:
        config = run.config
        for number in range(len(states)):
            each = of_runs.open_trial(run, number, config)
            if number in (4, 5):
                each.end(0, "completed", None)
            if number == 5:
                each.note(sent=True)
    with tuned.run() as run:
        search = tuned.search(run, [trial(number, state) for number, state in enumerate(states)])
        monkeypatch.setattr(search, "send", lambda shipper: sent.append(shipper.run.number))
        before = [each.record for each in of_runs.trials_of(run)]
        search.settle()
        records = [each.record for each in of_runs.trials_of(run)]
    assert [(record["exit_code"], record["status"]) for record in records] == [
        (0, "completed"),
        (0, "pruned"),
        (1, "failed"),
        (None, "running"),
        (0, "completed"),
        (0, "completed"),
        (0, "pruned"),
    ]
    assert records[4:6] == before[4:6], "what had ended stays as it ended"
    assert sent == [0, 1, 2, 4, 6], "what has ended, and is not in MLflow"


def test_the_seconds_of_a_trial_are_those_of_all_attempts(tmp_path: Path) -> None:
    tuned = Attempted(Home(tmp_path))

    def attempt(run: Run) -> Any:
        made: Any = TrialAttempt.__new__(TrialAttempt)
        made.run, made.began = of_runs.open_trial(run, 0, run.config), time.monotonic() - 40
        return made

    with tuned.run() as run:
        first = attempt(run)
        assert first.seconds == pytest.approx(40, abs=2)
        first.end("stopped")
        assert first.run.record["exit_code"] == 75
    with tuned.run() as run:
        second = attempt(run)
        assert second.seconds == pytest.approx(80, abs=2) and second.run.attempt == 2
        second.end(COMPLETE)
        assert second.run.measurements()[SECONDS] == pytest.approx(80, abs=2)
        record = second.run.record
    assert [row["attempt"] for row in record["attempts"]] == [1, 2]
    assert [row["status"] for row in record["attempts"]] == ["stopped", "completed"]


def test_a_run_keeps_its_attempts_and_its_measurements(tmp_path: Path) -> None:
    home, config = Home(tmp_path), load(DIGITS)
    for number in (1, 2, 3):
        with opened(home, "pipeline", config, new=False, prefect_id=f"flow {number}", waiting=print) as run:
            assert run.measurements() == {f"of {each}": each for each in range(1, number)}
            assert (run.record["stages"], run.exit_code, run.record["status"]) == ({}, None, "running")
            run.measure(f"of {number}", number)
            run.note(stages={"convert": []}, mlflow_run_id="m")
            run.end(75, "stopped", {"field": "x"})
    rows = run.record["attempts"]
    assert [row["attempt"] for row in rows] == [1, 2, 3] and [row["exit_code"] for row in rows] == [75] * 3
    assert [row["prefect_flow_run_id"] for row in rows] == ["flow 1", "flow 2", "flow 3"]
    assert run.record["mlflow_run_id"] == "m" and len(list(home.runs.glob("*/run.json"))) == 1


class Client:
    """A tracking store that keeps what it is sent."""

    def __init__(self) -> None:
        self.metrics: list[Any] = []

    def log_batch(self, run: str, metrics: list[Any], synchronous: bool) -> None:
        self.metrics += metrics


def test_a_later_attempt_sends_what_is_new_and_counts_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the MLflow run that the first one has begun."""
    (tmp_path / "metrics.jsonl").touch()
    record = {"mlflow_run_id": None}
    measured: dict[str, Any] = {}
    run: Any = SimpleNamespace(folder=tmp_path, record=record, measure=measured.__setitem__)
    monkeypatch.setattr(Shipper, "_go", lambda self: None)
    client = Client()

    def attempt(step: int, age: float) -> Any:
        shipper: Any = Shipper(run)
        assert shipper.mlflow_id == record["mlflow_run_id"]
        shipper.client, shipper.mlflow_id = client, "id"
        with open(shipper.journal, "a") as file:
            row = {"step": step, "time": time.time() - age, "metrics": {"a": float(step), "b": 0.0}}
            file.write(json.dumps(row) + "\n")
        shipper._ship()
        shipper._ready.set()
        shipper.close(1)
        return shipper._state()

    assert (attempt(1, 1e6)["points"], measured) == (2, {"tracking/late_points": 2})
    record["mlflow_run_id"] = "id"
    state = attempt(2, 1e6)
    assert (state["points"], state["late"], measured["tracking/late_points"]) == (4, 4, 4)
    assert (attempt(3, 0)["points"], measured["tracking/late_points"]) == (6, 4)
    assert [metric.value for metric in client.metrics if metric.key == "a"] == [1.0, 2.0, 3.0]


def test_a_journal_knows_what_earlier_attempts_have_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    journal = JournalFile(path)
    journal.append(20, {"train/loss": 1.0})
    journal.append(30, {"validation/loss": 0.9})
    journal.of("seed-2").append(50, {"train/loss": 3.0})
    with open(path, "a") as file:
        file.write('{"step": 40, "time": 1.0, "metr')  # the attempt was killed here
    again = JournalFile(path)
    assert (again.reached, again.of("seed-2").reached, again.of("seed-3").reached) == (20, 50, 0)
    again.append(20, {"train/loss": 7.0, "train/rate": 0.5})
    again.append(40, {"train/loss": 0.5})
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["step"], row["metrics"]) for row in rows] == [
        (20, {"train/loss": 1.0}),
        (30, {"validation/loss": 0.9}),
        (50, {"seed-2/train/loss": 3.0}),
        (20, {"train/rate": 0.5}),
        (40, {"train/loss": 0.5}),
    ]
    assert JournalFile(path).reached == 40


def judge_of(select: str, reported: dict[int, float]) -> TrialMonitor:
    def report(number: int, step: int, score: float) -> None:
        assert reported.setdefault(step, score) == score, "what is stored stays as it is"

    study: Any = SimpleNamespace(report=report, prunes=lambda number, step: False)
    return TrialMonitor(study, 0, "accuracy", TrainConfig.model_validate({"steps": 50, "select": select}), 50)


@pytest.mark.parametrize("select", ["last", "best"])
def test_a_trial_that_goes_on_has_the_score_of_all_its_attempts(select: str, tmp_path: Path) -> None:
    scores = {10: (0.5, 1.0), 20: (0.8, 0.4), 30: (0.7, 0.6), 40: (0.75, 0.5)}
    reported: dict[int, float] = {}
    for steps in ((10, 20), (30,), (40,)):  # a judge of each attempt reads the journal from its beginning
        journal = JournalFile(tmp_path / "metrics.jsonl")
        for step in steps:
            accuracy, loss = scores[step]
            journal.append(step, {"validation/accuracy": accuracy, "validation/loss": loss})
        judge = judge_of(select, reported)
        judge.take(tmp_path / "metrics.jsonl")
        assert judge.step == steps[-1]
    assert (judge.score, judge.loss) == ((0.75, 0.5) if select == "last" else (0.8, 0.4))
    assert reported == {step: accuracy for step, (accuracy, _) in scores.items()}


LOSSES = [1.0, 0.8, 0.9, 0.79, 0.5, 0.6, 0.55, 0.58, 0.57]


def waits(best: BestWeights, losses: list[float], first: int) -> list[bool]:
    return [
        best.update({"loss": loss}, lambda n=number: {"w": np.array(n)})  # type: ignore[misc]
        for number, loss in enumerate(losses, first)
    ]


@pytest.mark.parametrize("cut", range(1, len(LOSSES)))
def test_early_stopping_waits_on_where_the_last_attempt_waited(cut: int) -> None:
    config = TrainConfig.model_validate(
        {"steps": 9, "select": "best", "early_stopping": {"patience": 3, "delta": 0.05}}
    )
    whole = BestWeights(config)
    expected = waits(whole, LOSSES, 0)
    assert True in expected and expected[0] is False
    before, after = BestWeights(config), BestWeights(config)
    found = waits(before, LOSSES[:cut], 0)
    state, weights = before.copy()
    after.load(json.loads(json.dumps(state)), weights)
    found += waits(after, LOSSES[cut:], cut)
    assert found == expected
    assert after.state() == whole.state() and after.best()["w"] == whole.best()["w"]


def call_of(step: int, loss: float, skipped: bool) -> StepSums:
    call: Any = SimpleNamespace(
        steps=1,
        fed=4,
        fed_hash=1000 + step,
        sums={"loss": np.array([loss * 4]), "weight": np.array([4.0]), "seen": np.array([4.0])},
        skipped=np.array([skipped]),
        staleness=None,
        finite=np.array([True]),
        seconds=0.5,
        waited=0.25,
    )
    return call  # type: ignore[no-any-return]


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_meter_counts_on_where_the_last_attempt_was(cut: int) -> None:
    """Skipped updates in a row end a training, and the rows that were fed prove its order."""
    steps = [(1.0, True), (0.9, False), (0.8, True), (0.7, True), (0.6, True), (9.0, True), (0.5, False), (0.4, True)]

    def count(meter: Meter, first: int, last: int) -> list[Any]:
        seen = []
        for step in range(first, last):
            call = call_of(step, *steps[step])
            spike = meter.spikes.first(step, call)
            if spike is not None:
                meter.spikes.rollbacks = [*meter.spikes.rollbacks, {"step": step, "to": 0}]
            meter.add(call)
            seen.append((spike, meter.skipped, meter.skipped_last, dict(meter.sums)))
        return seen

    def new() -> Meter:
        return Meter(spikes=Spikes(Rollback(window=4, factor=3.0)))

    whole, before, after = new(), new(), new()
    expected = count(whole, 0, 8)
    found = count(before, 0, cut)
    after.load(json.loads(json.dumps(before.state())))
    found += count(after, cut, 8)
    assert found == expected and after.state() == whole.state()
    assert sum(row[0] is not None for row in expected) == 1 and max(row[2] for row in expected) == 4
    assert whole.ledger.lines == [{**whole.ledger.lines[0], "from": 0, "to": 8, "count": 32}]


def test_a_training_that_had_ended_has_ended() -> None:
    before, after = Meter(ended=True), Meter()
    before.add(call_of(0, 1.0, False))
    after.load(before.state())
    assert after.ended and Meter().ended is False
    assert after.last is None and after.seconds == 0.0, "times are those of a process"
