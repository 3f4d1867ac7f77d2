"""The engine interface: one of NumPy alone is resumed, killed and proved like TensorFlow's."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.errors import Failed, Lost, Stopped, Superseded
from tasks.processes.config import CHIEF, SIDECAR, WORKER, Role
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.local_process import HeldPort
from tasks.processes.workbench import Work, Workbench
from tasks.runner.signals import Restarts
from tasks.training.checkpoints import StagedCheckpoints, kept, pack
from tasks.training.config import TrainConfig
from tasks.training.ledger import prove
from tasks.training.loop import Pace, make_plan
from tasks.training.meter import StepSums
from tasks.training.schedules import Constant
from tasks.training.sections import CheckpointConfig, TensorBoard
from tasks.training.sidecar import connected, serve
from tests.support.homes import compute_processes
from tests.support.tiny import stopping_after
from tests.support.toys import (
    CONFIG,
    EXAMPLES,
    STEPS,
    ToyEngine,
    end_before_it_is_seen,
    fall,
    files,
    fit_line,
    freeze,
    lose,
    report_before_it_is_seen,
    who,
)


@pytest.fixture
def unbroken(benches: Callable[[str], Workbench]) -> list[bytes]:
    bench = benches("unbroken")
    fit_line(bench)
    return files(bench)


def test_stopped_at_every_step_it_ends_with_the_same_bytes(
    unbroken: list[bytes], benches: Callable[[str], Workbench]
) -> None:
    bench = benches("stopped")
    saved: list[int] = []
    for step in range(1, STEPS):
        with pytest.raises(Stopped):  # the first call of a process is of one step
            fit_line(replace(bench, stopping=stopping_after(1), saved=saved.append))
        assert saved[-2:] == [step - 1, step][-min(step, 2) :], "what it goes on from, and what the next one does"
        assert max(bench.staging.pieces("checkpoints/")).endswith(f"{step:012d}.npz")
    fit_line(bench)
    assert files(bench) == unbroken


def test_killed_it_goes_on_from_its_checkpoint_and_ends_with_the_same_bytes(
    unbroken: list[bytes], bench: Workbench, tmp_path: Path
) -> None:
    killed = []

    def on_report(kind: str, *values: object) -> None:
        if kind == "progress" and values[0] == 7 and not killed:
            [process] = compute_processes(tmp_path)
            process.kill()
            killed.append(True)

    launcher = ProcessLauncher(tmp_path / "logs", 1)
    with pytest.raises(Lost), launcher.gang("train") as gang:
        gang.call(Work(fit_line, (0.2, 1)), bench.staging, tmp_path / "journal", limits=Limits(), on_report=on_report)
    with launcher.gang("train") as gang:
        gang.call(Work(fit_line), bench.staging, tmp_path / "journal", limits=Limits(), on_report=on_report)
    assert killed and files(bench) == unbroken


def test_its_ledger_is_proven_by_the_order_alone(bench: Workbench, tmp_path: Path) -> None:
    fit_line(bench)
    train = {"batch_size": CONFIG.batch_size, "epochs": None, "steps": STEPS}
    manifest = {"inputs": {"config": {"train": train, "seed": 5}}, "steps": STEPS}
    (bench.staging.root / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "manifest.json").write_text(json.dumps({"counts": {"train": EXAMPLES}, "features": {}}))
    proof = prove(bench.staging.root, tmp_path / "snapshot")
    assert (proof["missing"], proof["repeated"], proof["wrong"]) == (0, 0, [])


def test_a_signal_waits_for_the_step_under_way_and_says_which_is_saved(bench: Workbench, tmp_path: Path) -> None:
    """It comes in the second step, which is longer than the two seconds that a call may last."""
    log = tmp_path / "logs/train.log"
    with pytest.raises(Stopped) as stopped, ProcessLauncher(tmp_path / "logs", 1).gang("train") as gang:
        gang.call(
            Work(fit_line, (2.2,)),
            bench.staging,
            tmp_path / "journal",
            limits=Limits(),
            on_report=print,
            stop=lambda: 15 if "step 2 begins" in log.read_text() else 0,
        )
    saved = {path.stem for path in (bench.staging.root / "checkpoints").glob("*.npz")}
    assert stopped.value.saved == "step 2" and saved == {"step-000000000002"}


def test_a_frozen_process_of_a_gang_is_named(bench: Workbench, tmp_path: Path) -> None:
    limits, journal = Limits(silence=4), tmp_path / "journal"
    with (
        pytest.raises(Lost, match="rank 1 on .* has not answered for 4 s"),
        ProcessLauncher(tmp_path / "logs", 1).gang("train", (CHIEF, WORKER)) as gang,
    ):
        gang.call(Work(freeze, (1,)), bench.staging, journal, limits=limits, on_report=print)


def test_a_call_takes_about_a_second() -> None:
    pace = Pace()
    lengths = []
    for seconds_per_step in (30.0, 0.01, 0.01, 0.3, 0.3, 5.0, 5.0, 0.001):
        lengths.append(pace.longest)
        pace.update(pace.longest, pace.longest * seconds_per_step)
    assert lengths == [1, 1, 50, 50, 3, 3, 1, 1] and pace.longest == 50


def test_calls_end_where_an_action_is_due_and_are_cut_only_where_they_would_be_too_long() -> None:
    def ends(longest: int, **options: Any) -> list[int]:
        plan = make_plan(TrainConfig(steps=50, schedule=Constant(), **options), 100, [20])
        plan.pace.longest = longest
        reached = [0]
        while reached[-1] < 50:
            reached.append(plan.next_stop(reached[-1]))
        return reached[1:]

    assert ends(50) == ends(21) == [20, 40, 50]
    assert ends(15) == [15, 20, 35, 40, 50]
    assert ends(50, tensorboard=TensorBoard(trace=(7, 11))) == [7, 11, 20, 40, 50], "the profiler begins and ends there"


def test_fast_steps_are_taken_several_to_a_call(bench: Workbench) -> None:
    calls = []

    def stopping() -> int:
        calls.append(1)
        return 0

    fit_line(replace(bench, stopping=stopping))
    assert len(calls) < STEPS


def test_the_training_goes_on_while_a_checkpoint_is_written(
    unbroken: list[bytes], bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first checkpoint, at step 3, is not written before the training has passed it."""
    passed, write, step = threading.Event(), StagedCheckpoints._write, ToyEngine.step

    def slowly(self: StagedCheckpoints, entries: Any, **note: Any) -> None:
        assert passed.wait(60)
        write(self, entries, **note)

    def stepping(self: ToyEngine, rates: Any) -> StepSums:
        sums = step(self, rates)
        if self.position > 3:
            passed.set()
        return sums

    monkeypatch.setattr(StagedCheckpoints, "_write", slowly)
    monkeypatch.setattr(ToyEngine, "step", stepping)
    fit_line(bench)
    assert files(bench) == unbroken


def test_a_checkpoint_that_cannot_be_written_ends_the_training_at_the_next_one(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: StagedCheckpoints, entries: object, **note: object) -> None:
        raise OSError(28, f"no space for step {note['step']}")

    monkeypatch.setattr(StagedCheckpoints, "_write", full)
    with pytest.raises(OSError, match="no space for step 3"):
        fit_line(bench)


def test_the_newest_the_best_and_every_nth_checkpoint_are_kept() -> None:
    losses = {3: 0.5, 6: 0.1, 9: None, 12: 0.3, 15: 0.2, 18: 0.4}

    def steps(anchors: tuple[int, ...] = (), **options: Any) -> list[int]:
        notes = {
            f"{step:03d}": {"step": step, "loss": loss, "anchor": step in anchors} for step, loss in losses.items()
        }
        return sorted(int(name) for name in kept(notes, CheckpointConfig(**options)))

    assert steps(keep=2) == [15, 18]
    assert steps(keep=1, keep_best=True) == [6, 18]
    assert steps(keep=1, keep_every=9) == [9, 18]
    assert steps(keep=1, keep_every=12, keep_best=True) == [6, 12, 18]
    assert steps(keep=2, anchors=(3, 9, 12)) == [9, 12, 15, 18], "those that a rollback may go back to, as many"


def test_a_superseded_attempt_writes_no_checkpoint(bench: Workbench) -> None:
    bench.staging.lock.write_text(json.dumps({"token": 2}))
    with pytest.raises(Superseded):
        fit_line(bench)
    assert not list(bench.staging.root.rglob("*.npz"))


def test_another_layout_is_recorded_span_by_span_and_said(
    unbroken: list[bytes], bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    two, one = {"threads": 2, "strategy": "one_device"}, {"threads": 1, "strategy": "one_device"}
    with pytest.raises(Stopped):
        fit_line(replace(bench, layout=two, stopping=stopping_after(3)))
    assert not caplog.records or "another layout" not in caplog.text
    outcome = fit_line(replace(bench, layout=one))
    assert "threads 2 → 1" in caplog.text
    first, second = outcome.layouts
    assert first == {"from": 0, "to": second["from"], **two}
    assert second == {"from": first["to"], "to": STEPS, **one} and first["to"] > 0
    assert files(bench) == unbroken, "no layout is in the bytes"


def test_only_the_chief_of_a_gang_writes_and_all_know_each_other(bench: Workbench, tmp_path: Path) -> None:
    roles = (CHIEF, WORKER, WORKER)
    with ProcessLauncher(tmp_path / "logs", 1).gang("train", roles) as gang:
        made = gang.call(Work(who), bench.staging, tmp_path / "journal", limits=Limits(), on_report=print)
    assert made == (0, "chief", ("chief", "worker", "worker"), True)
    assert {path.name for path in (tmp_path / "logs").glob("train*")} == {"train.log", "train-1.log", "train-2.log"}


def test_when_one_of_a_gang_dies_all_end(bench: Workbench, tmp_path: Path) -> None:
    with (
        pytest.raises(Lost, match="killed by signal 9"),
        ProcessLauncher(tmp_path / "logs", 1).gang("train", (CHIEF, WORKER)) as gang,
    ):
        gang.call(Work(fall, (1,)), bench.staging, tmp_path / "journal", limits=Limits(), on_report=print)
    assert [process.process.poll() for process in gang.processes] == [-9, -9]


def test_a_process_that_dies_again_and_again_is_not_replaced_for_ever(bench: Workbench, tmp_path: Path) -> None:
    said: list[str] = []
    roles = (CHIEF, Role("worker", serves=True, replaced=True))
    with (
        pytest.raises(Lost, match="rank 1 on .* was killed by signal 9"),
        ProcessLauncher(tmp_path, 1).gang("train", roles) as gang,
    ):
        journal = tmp_path / "journal"
        gang.call(Work(fall, (1,)), bench.staging, journal, limits=Limits(), on_report=print, say=said.append)
    assert len(said) == 3


def test_sums_are_the_same_however_steps_are_cut_into_calls(benches: Callable[[str], Workbench]) -> None:
    points = []
    for name, most in (("short", 1), ("long", 50)):
        bench = benches(name)
        fit_line(bench, most=most)
        points.append([(s, {n: v for n, v in m.items() if n == "train/loss"}) for s, m in bench.journal.points])  # type: ignore[attr-defined]
    assert points[0] == points[1] and np.isfinite(points[0][0][1]["train/loss"])


def test_processes_that_report_one_another_as_lost_are_lost(bench: Workbench, tmp_path: Path) -> None:
    with (
        pytest.raises(Lost, match="no answer"),
        ProcessLauncher(tmp_path / "logs", 1).gang("train", (CHIEF, WORKER)) as gang,
    ):
        gang.call(Work(lose), bench.staging, tmp_path / "journal", limits=Limits(), on_report=print)


def test_the_process_that_was_killed_is_named_also_where_the_chief_reports_it_first(
    bench: Workbench, tmp_path: Path
) -> None:
    roles = (CHIEF, Role("worker", serves=True, replaced=True), Role("server", serves=True))
    work = Work(report_before_it_is_seen)
    with (
        pytest.raises(Lost, match="rank 2 on .* was killed by signal 9"),
        ProcessLauncher(tmp_path, 1).gang("train", roles) as gang,
    ):
        gang.call(work, bench.staging, tmp_path / "journal", limits=Limits(), on_report=print)


def test_a_result_counts_although_one_that_serves_saw_the_chief_end(bench: Workbench, tmp_path: Path) -> None:
    with ProcessLauncher(tmp_path / "logs", 1).gang("train", (CHIEF, SIDECAR)) as gang:
        work, journal = Work(end_before_it_is_seen), tmp_path / "journal"
        assert gang.call(work, bench.staging, journal, limits=Limits(), on_report=print) == 7


def test_a_process_that_evaluates_reports_the_end_of_the_chief_as_a_loss() -> None:
    port = HeldPort()
    raised: list[BaseException] = []

    def evaluate() -> None:
        try:
            serve(port.address, "key", lambda weights: {"loss": 1.0}, lambda: 0)
        except Lost as lost:
            raised.append(lost)

    port.close()
    thread = threading.Thread(target=evaluate)
    thread.start()
    with connected(port.address, "key") as chief:
        chief.send_bytes(pack(0, {}, {"w": np.zeros(1)}))
        assert json.loads(chief.recv_bytes()) == {"loss": 1.0}
    thread.join(20)
    assert [str(each) for each in raised] == [
        "train.evaluate: the chief has closed the connection; the process that trains must answer; "
        "run again: it continues"
    ]


def test_restarts_are_limited_and_counted_anew_after_a_checkpoint() -> None:
    restarts, lost = Restarts(2), Lost("fit", "rank 1 was killed", "it must answer", "see its log")
    assert [restarts.pause(lost, saved) for saved in (0, 0, 10, 10, 20)] == [2, 4, 2, 4, 2]
    restarts.pause(lost, 15)
    with pytest.raises(
        Failed, match="rank 1 was killed, 3 times without a new checkpoint; train.restarts allows 2 restarts"
    ):
        restarts.pause(lost, 20)
