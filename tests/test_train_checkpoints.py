"""What a checkpoint holds, what a training begins with, and which checkpoint a rollback goes back to."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.errors import Failed
from tasks.processes.workbench import Workbench
from tasks.store.files import PAUSES
from tasks.training.checkpoints import CHECKPOINT, StagedCheckpoints, unpack
from tasks.training.config import TrainConfig
from tasks.training.loop import make_plan
from tasks.training.meter import Meter, Spike, Spikes, StepSums
from tasks.training.primary import BestWeights
from tasks.training.sections import CheckpointConfig, EarlyStopping, Rollback
from tests.support.disks import break_reads
from tests.support.toys import CONFIG, ToyEngine

SPIKING = Rollback(window=2, factor=2.0, most=5)
BEST = TrainConfig(steps=12, select="best", early_stopping=EarlyStopping(patience=9))


def engine_at(values: float) -> ToyEngine:
    engine = ToyEngine(make_plan(CONFIG, 10, ()))
    engine.values = {"line": np.full(2, values), "momentum": np.full(2, -values)}
    return engine


def kept_by(bench: Workbench, best: BestWeights | None = None, **options: Any) -> StagedCheckpoints:
    config = CheckpointConfig(every=3, keep=9)
    return StagedCheckpoints(bench.staging, config, best or BestWeights(CONFIG), **options)


def fed(step: int, steps: int = 1) -> Meter:
    """A meter of a training by `steps` at a time that has come to a step."""
    ones = np.ones(steps)
    meter = Meter(spikes=Spikes(SPIKING))
    for _ in range(0, step, steps):
        meter.add(StepSums({"loss": ones, "weight": ones}, ones, ones > 0, ones.astype(np.float32), 4, 7, 1.0, 0.0))
    return meter


def notes(bench: Workbench) -> dict[int, dict[str, Any]]:
    return {each["note"]["step"]: each["note"] for each in bench.staging.pieces(CHECKPOINT).values()}


def test_what_is_saved_is_restored_whole(bench: Workbench) -> None:
    best, meter = BestWeights(BEST), fed(6)
    best.update({"loss": 2.0}, lambda: {"line": np.array([8.0, 9.0])})
    best.update({"loss": 3.0}, dict)
    meter.skipped, meter.skipped_last, meter.ended = 5, 2, True
    meter.spikes.recent, meter.spikes.rollbacks = [0.5, 0.25], [{"step": 4, "to": 3}]
    first = kept_by(bench, best)
    first.save(engine_at(1.5), meter, 6)
    first.wait()

    again, empty, engine = BestWeights(BEST), Meter(spikes=Spikes(SPIKING)), engine_at(0.0)
    assert kept_by(bench, again).restore(engine, empty) == 6
    assert engine.values["line"].tolist() == [1.5, 1.5] and engine.values["momentum"].tolist() == [-1.5, -1.5]
    assert (again.selected, again.awaited, again.waited) == ([2.0, 2.0], [2.0], 1)
    assert again.best()["line"].tolist() == [8.0, 9.0]
    assert (empty.skipped, empty.skipped_last, empty.ended) == (5, 2, True)
    assert empty.sums == {"loss": 6.0, "weight": 6.0} and empty.ledger == meter.ledger
    assert (empty.spikes.recent, empty.spikes.rollbacks) == ([0.5, 0.25], [{"step": 4, "to": 3}])
    assert empty.seconds == empty.steps == 0 and empty.last is None, "times are those of a process"


def test_the_seconds_of_checkpoints_are_those_of_all_so_far(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the training, for the copies, and of the thread that writes; each clock goes on by a second a look."""
    measured: list[tuple[str, float]] = []
    clock = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    checkpoints = kept_by(bench, measure=lambda name, value: measured.append((name, value)))
    for step in (3, 6):
        checkpoints.save(engine_at(1.5), fed(step), step)
        checkpoints.wait()
    values = {name: [value for each, value in measured if each == name] for name, _ in measured}
    assert set(values) == {"train/checkpoint_seconds", "train/checkpoint_write_seconds"}
    for first, second in values.values():
        assert 0 < first < second


def test_a_checkpoint_without_a_staging_or_a_base_begins_at_the_first_step() -> None:
    """As in the processes that are not the chief."""
    checkpoints = StagedCheckpoints(None, CheckpointConfig(every=3, keep=9), BestWeights(CONFIG))
    assert checkpoints.restore(engine_at(0.0), fed(0)) == 0
    checkpoints.save(engine_at(0.0), fed(3), 3)
    checkpoints.wait()


def test_a_copy_of_the_state_is_written_and_not_what_comes_later(bench: Workbench) -> None:
    """A thread writes while the training goes on: ledger, sums and layouts are those of the step that is saved."""
    engine, meter = engine_at(1.0), fed(3)
    checkpoints = kept_by(bench, layout={"threads": 2}, settle=lambda step: time.sleep(0.1))
    metadata = meter.state()
    checkpoints.save(engine, meter, 3)
    meter.add(fed(1).last)  # type: ignore[arg-type]
    checkpoints.layouts[-1]["to"] = 99
    checkpoints.layouts.append({"from": 99, "to": 99})
    checkpoints.wait()
    [name] = bench.staging.pieces(CHECKPOINT)
    step, written, _ = unpack((bench.staging.root / name).read_bytes())
    assert step == 3 and written["ledger"] == metadata["ledger"] == [{"from": 0, "to": 3, "count": 12} | HASH]
    assert written["sums"] == {"loss": 3.0, "weight": 3.0}
    assert written["layouts"] == [{"from": 0, "to": 3, "threads": 2}]


HASH = {"hash": f"{21:016x}"}


def test_a_checkpoint_has_the_loss_of_an_evaluation_at_its_own_step(bench: Workbench) -> None:
    """`checkpoint.keep_best` keeps the state that was evaluated, and not one some steps later.

    Another process may have scored a later step by then.
    """
    checkpoints, meter = kept_by(bench), fed(3)
    meter.validation_losses = {3: 0.5, 4: 0.4, 9: float("nan")}
    for step in (3, 6, 9, 12):
        checkpoints.save(engine_at(step), meter, step)
    checkpoints.wait()
    assert {step: note["loss"] for step, note in notes(bench).items()} == {3: 0.5, 6: None, 9: None, 12: None}


def test_a_checkpoint_waits_for_the_scores_of_another_process_and_has_them(bench: Workbench) -> None:
    best, meter = BestWeights(BEST), fed(3)

    def settle(step: int) -> None:
        best.update({"loss": 0.5}, lambda: {"line": np.array([4.0, 4.0])})
        meter.validation_losses[step] = 0.5

    checkpoints = kept_by(bench, best, settle=settle)
    checkpoints.save(engine_at(1.0), meter, 3)
    checkpoints.wait()
    again = BestWeights(BEST)
    kept_by(bench, again).restore(engine_at(0.0), Meter())
    assert (
        again.selected == [0.5, 0.5] and again.best()["line"].tolist() == [4.0, 4.0] and notes(bench)[3]["loss"] == 0.5
    )


def test_an_error_while_it_waits_for_scores_is_that_of_the_training(bench: Workbench) -> None:
    def lost(step: int) -> None:
        raise ConnectionError("the process that evaluates is gone")

    checkpoints = kept_by(bench, settle=lost)
    checkpoints.save(engine_at(1.0), fed(3), 3)
    with pytest.raises(ConnectionError, match="is gone"):
        checkpoints.wait()
    assert not notes(bench), "a checkpoint without the scores is not committed"


def test_a_training_from_a_base_goes_on_although_the_base_ended_early(bench: Workbench, tmp_path: Path) -> None:
    best, meter = BestWeights(BEST), fed(6)
    best.update({"loss": 2.0}, lambda: {"line": np.array([8.0, 9.0])})
    meter.ended = True
    base = tmp_path / "state.npz"
    base.write_bytes(kept_by(bench, best).content(engine_at(2.5), meter, 6))

    again, meter, engine = BestWeights(BEST), Meter(), engine_at(0.0)
    checkpoints = kept_by(bench, again, base=base, layout={"threads": 2})
    assert checkpoints.restore(engine, meter) == 6
    assert not meter.ended and engine.values["line"].tolist() == [2.5, 2.5]
    assert again.best()["line"].tolist() == [8.0, 9.0], "the best weights so far are those of the base"
    assert checkpoints.layouts == [{"from": 6, "to": 6, "threads": 2}], "its steps were not computed here"
    checkpoints.save(engine, meter, 6)
    checkpoints.wait()
    assert list(notes(bench)) == [6], "the base is no checkpoint of this training"
    bench.staging.drop(next(iter(bench.staging.pieces(CHECKPOINT))))
    fresh = kept_by(bench, BestWeights(BEST))
    assert fresh.restore(engine_at(0.0), Meter()) == 0, "neither checkpoint nor base"


def test_a_checkpoint_of_its_own_comes_before_the_base(bench: Workbench, tmp_path: Path) -> None:
    base = tmp_path / "state.npz"
    base.write_bytes(kept_by(bench).content(engine_at(2.5), fed(6), 6))
    for step in (9, 12):
        checkpoints = kept_by(bench)
        checkpoints.save(engine_at(step), fed(step), step)
        checkpoints.wait()
    engine = engine_at(0.0)
    assert kept_by(bench, base=base).restore(engine, Meter()) == 12 and engine.values["line"][0] == 12
    damaged = bench.staging.root / list(bench.staging.pieces(CHECKPOINT))[-1]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert kept_by(bench, base=base).restore(engine, Meter()) == 9 and engine.values["line"][0] == 9
    assert list(notes(bench)) == [9], "the damaged one is gone"


def test_a_checkpoint_that_cannot_be_read_now_is_not_deleted(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = kept_by(bench)
    for step in (3, 6):
        checkpoints.save(engine_at(step), fed(step), step)
        checkpoints.wait()
    break_reads(monkeypatch, "step-000000000006.npz", errno.EIO, len(PAUSES))
    assert kept_by(bench).restore(engine_at(0.0), Meter()) == 6
    break_reads(monkeypatch, "step-000000000006.npz", errno.EIO, 99)
    with pytest.raises(OSError, match="Input/output error"):
        kept_by(bench).restore(engine_at(0.0), Meter())
    assert list(notes(bench)) == [3, 6]


def test_a_checkpoint_of_another_format_is_named_and_kept(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("tasks.training.checkpoints.FORMAT", 2)
        checkpoints = kept_by(bench)
        checkpoints.save(engine_at(1.0), fed(3), 3)
        checkpoints.wait()
    with pytest.raises(Failed, match="checkpoint: format 2; this version of Millrace goes on from format 1; end the"):
        kept_by(bench).restore(engine_at(0.0), Meter())
    assert list(notes(bench)) == [3]


def test_the_state_at_a_step_is_saved_once(bench: Workbench) -> None:
    checkpoints, meter = kept_by(bench), fed(3)
    checkpoints.save(engine_at(1.0), meter, 3)
    checkpoints.save(engine_at(2.0), meter, 3)
    checkpoints.wait()
    engine = engine_at(0.0)
    kept_by(bench).restore(engine, Meter())
    assert engine.values["line"][0] == 1.0


@pytest.fixture
def spiking(bench: Workbench) -> Callable[[int], tuple[StagedCheckpoints, Meter]]:
    """Checkpoints of a training that goes back, from its start to a step, one at each step."""

    def saved(last: int) -> tuple[StagedCheckpoints, Meter]:
        checkpoints, meter = kept_by(bench), fed(0)
        checkpoints.begin(engine_at(0.0), meter, 0)
        for step in range(1, last + 1):
            meter.add(fed(1).last)  # type: ignore[arg-type]
            checkpoints.save(engine_at(step), meter, step)
        return checkpoints, meter

    return saved


def test_a_rollback_goes_to_the_newest_multiple_before_the_spike_and_skips_its_step(
    spiking: Callable[[int], tuple[StagedCheckpoints, Meter]],
) -> None:
    """Other checkpoints are those of a stopped training, which an unbroken one has not."""
    checkpoints, meter = spiking(8)
    engine = engine_at(99.0)
    meter.spikes.recent = [7.0, 7.0]
    assert checkpoints.roll_back(engine, meter, Spike(8, 50.0, 7.0)) == 9
    assert engine.values["line"][0] == 6.0
    assert meter.spikes.rollbacks == [{"step": 8, "to": 6}] and meter.spikes.recent == [], "those of step 6"
    assert meter.ledger.lines == [{"from": 0, "to": 9, "count": 24, "hash": f"{42:016x}", "skipped": [[6, 9]]}]
    assert meter.sums == {"loss": 6.0, "weight": 6.0} and meter.last is None


def test_a_checkpoint_of_the_step_that_spikes_is_before_it(
    spiking: Callable[[int], tuple[StagedCheckpoints, Meter]],
) -> None:
    """A checkpoint at step 6 has the weights of before the step with number 6."""
    checkpoints, meter = spiking(6)
    assert checkpoints.roll_back(engine := engine_at(99.0), meter, Spike(6, 50.0, 7.0)) == 7
    assert engine.values["line"][0] == 6.0
    checkpoints, meter = spiking(0)
    assert checkpoints.roll_back(engine := engine_at(99.0), meter, Spike(1, float("nan"), None)) == 2
    assert engine.values["line"][0] == 0.0, "the state that it began with"


def test_a_rollback_passes_over_what_it_has_gone_back_to_and_what_is_damaged(
    spiking: Callable[[int], tuple[StagedCheckpoints, Meter]], bench: Workbench
) -> None:
    checkpoints, meter = spiking(9)
    engine = engine_at(99.0)
    assert checkpoints.roll_back(engine, meter, Spike(10, 50.0, 7.0)) == 11 and engine.values["line"][0] == 9.0
    damaged = bench.staging.root / f"{CHECKPOINT}{6:012d}.npz"
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"something")
    assert checkpoints.roll_back(engine, meter, Spike(11, 50.0, 7.0)) == 12 and engine.values["line"][0] == 3.0
    assert meter.spikes.rollbacks == [{"step": 10, "to": 9}, {"step": 11, "to": 3}]
    checkpoints.roll_back(engine, meter, Spike(13, 50.0, 7.0))
    assert engine.values["line"][0] == 0.0
    with pytest.raises(Failed, match="it has gone back to all checkpoints that are kept"):
        checkpoints.roll_back(engine, meter, Spike(14, 50.0, 7.0))


def test_a_rollback_waits_for_the_checkpoint_that_is_being_written(
    spiking: Callable[[int], tuple[StagedCheckpoints, Meter]],
) -> None:
    """Otherwise the speed of the disk would decide which weights it goes back to."""
    checkpoints, meter = spiking(5)
    checkpoints.wait()
    write = checkpoints._write

    def slowly(entries: Any, **note: Any) -> None:
        time.sleep(0.1)
        write(entries, **note)

    checkpoints._write = slowly  # type: ignore[method-assign]
    checkpoints.save(engine_at(6.0), meter, 6)
    checkpoints.roll_back(engine := engine_at(99.0), meter, Spike(7, 50.0, 7.0))
    assert engine.values["line"][0] == 6.0


def test_rollbacks_are_as_many_as_they_may_be(spiking: Callable[[int], tuple[StagedCheckpoints, Meter]]) -> None:
    checkpoints, meter = spiking(9)
    meter.spikes.config = Rollback(window=2, factor=2.0, most=2)
    for step in (10, 11):
        checkpoints.roll_back(engine_at(99.0), meter, Spike(step, 50.0, 7.0))
    with pytest.raises(Failed, match="rollbacks before it: 2; train.on_spike.most allows no more"):
        checkpoints.roll_back(engine_at(99.0), meter, Spike(12, 50.0, 7.0))
