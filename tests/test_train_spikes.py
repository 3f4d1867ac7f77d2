"""A spike of the loss: back to a checkpoint, the steps between skipped, the same after any stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Snapshot
from tasks.config.base import Conflict, identity
from tasks.errors import Failed, Stopped
from tasks.processes.workbench import Workbench
from tasks.store.files import canonical
from tasks.training.checkpoints import unpack
from tasks.training.config import TrainConfig
from tasks.training.fit import fit
from tasks.training.ledger import LEDGER, prove
from tasks.training.meter import Spikes, StepSums
from tasks.training.schedules import Piecewise
from tasks.training.sections import CheckpointConfig, Rollback
from tests.support.tiny import CONFIG, MODEL, files, stopping_after
from tests.support.training import Training, raise_conflict

STEPS = 24
# a rate that a config refuses: the update of step 13 ruins the weights
SETTINGS: dict[str, Any] = {
    "steps": STEPS,
    "clip_norm": None,
    "schedule": Piecewise.model_construct(boundaries=(13, 14), factors=(1000.0, 1.0)),
    "checkpoint": CheckpointConfig(every=5, keep=2),
    "evaluate_every": 6,
}
SPIKING = CONFIG.model_copy(update={**SETTINGS, "on_spike": Rollback(window=4, factor=3.0)})


@pytest.fixture(scope="module")
def rolled_back(tiny: Snapshot, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable) -> Workbench:
    bench = workbench_at(tmp_path_factory.mktemp("spikes") / "staging")
    assert fit(bench, tiny, MODEL, SPIKING, seed=5).counts["steps"] == STEPS
    return bench


def state_of(bench: Workbench) -> tuple[int, dict[str, Any], dict[str, Any]]:
    return unpack((bench.staging.root / "state/state.npz").read_bytes())


def largest(variables: dict[str, Any]) -> float:
    return max(float(np.abs(values).max()) for values in variables.values() if values.dtype == np.float32)


def test_the_steps_since_the_checkpoint_are_skipped(rolled_back: Workbench) -> None:
    _, meter, variables = state_of(rolled_back)
    assert meter["spikes"]["rollbacks"] == [{"step": 14, "to": 10}]
    [line] = [json.loads(line) for line in (rolled_back.staging.root / LEDGER).read_text().splitlines()]
    assert line["skipped"] == [[10, 15]]
    assert line["count"] == 4 * (STEPS - 5)
    assert largest(variables) < 2


def test_without_the_setting_the_weights_stay_ruined(tiny: Snapshot, benches: Callable[[str], Workbench]) -> None:
    bench = benches("plain")
    fit(bench, tiny, MODEL, SPIKING.model_copy(update={"on_spike": None}), seed=5)
    _, meter, variables = state_of(bench)
    assert "spikes" not in meter
    assert largest(variables) > 5


def test_stopped_before_and_behind_a_rollback_the_bytes_are_the_same(
    tiny: Snapshot, rolled_back: Workbench, benches: Callable[[str], Workbench]
) -> None:
    """The first stop saves a state between the checkpoints, to which no rollback may go."""
    config, bench = SPIKING.model_copy(update={"log_every": 1}), benches("stopped")
    for calls in (13, 4):
        with pytest.raises(Stopped):
            fit(replace(bench, stopping=stopping_after(calls)), tiny, MODEL, config, seed=5)
    fit(bench, tiny, MODEL, config, seed=5)
    assert files(bench) == files(rolled_back)


def test_killed_behind_a_rollback_it_comes_to_the_same_spike_again(
    tiny: Snapshot, rolled_back: Workbench, benches: Callable[[str], Workbench]
) -> None:
    """A kill leaves the checkpoints at multiples alone, one of them from before the rollback."""
    bench = benches("killed")
    config = SPIKING.model_copy(update={"log_every": 1})
    with pytest.raises(Stopped):
        fit(replace(bench, stopping=stopping_after(17)), tiny, MODEL, config, seed=5)
    saved = sorted(bench.staging.pieces("checkpoints/"))
    assert saved[-1] not in ("checkpoints/step-000000000010.npz", "checkpoints/step-000000000015.npz")
    for name in saved[1:]:
        bench.staging.drop(name)
    fit(bench, tiny, MODEL, config, seed=5)
    assert files(bench) == files(rolled_back)


def test_the_ledger_proves_what_was_fed_and_names_what_was_skipped(
    tiny: Snapshot, rolled_back: Workbench, publish: Callable
) -> None:
    folder = rolled_back.staging.root
    (folder / "manifest.json").write_text(
        json.dumps({"inputs": {"config": {"train": SPIKING.model_dump(mode="json"), "seed": 5}}})
    )
    proof = prove(folder, tiny.path)
    assert (proof["missing"], proof["repeated"], proof["wrong"]) == (0, 0, [])
    assert proof["text"].endswith("20 of these times in steps that a rollback skipped (10 to 14)")


def test_a_spike_that_comes_again_goes_back_further_and_then_fails(
    tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    config = SPIKING.model_copy(update={"schedule": Piecewise.model_construct(boundaries=(13,), factors=(1000.0,))})
    with pytest.raises(Failed) as failed:
        fit(benches("again"), tiny, MODEL, config, seed=5)
    assert failed.value.field == "train.on_spike"
    assert "gone back to all checkpoints that are kept (train.checkpoint.keep 2)" in failed.value.rule
    few = config.model_copy(update={"on_spike": Rollback(window=4, factor=3.0, most=1)})
    with pytest.raises(Failed, match="rollbacks before it: 1; train.on_spike.most allows no more"):
        fit(benches("few"), tiny, MODEL, few, seed=5)


def call(losses: list[float], finite: list[bool] | None = None) -> StepSums:
    ones = np.ones(len(losses))
    return StepSums(
        {"loss": np.array(losses), "weight": ones}, ones, np.array(finite or ones, bool), ones, 1, 1, 1.0, 0.0
    )


def test_a_spike_is_above_the_highest_of_the_window_or_not_finite() -> None:
    spikes = Spikes(Rollback(window=3, factor=2.0))
    assert spikes.first(0, call([1.0, 9.0, 2.0])) is None, "not judged before the window is full"
    assert spikes.first(3, call([17.9, 5.0])) is None
    assert spikes.first(5, call([36.0, 35.9, 80.0])).step == 5
    assert spikes.first(5, call([1.0, 1.0, 1.0, 2.1])).step == 8, "17.9 has left the window"
    assert spikes.first(9, call([0.1, 0.1], [True, False])).step == 10
    assert Spikes(None).first(0, call([1.0, 1e9])) is None


def test_of_several_outputs_the_sum_that_is_minimised_is_judged() -> None:
    spikes, calm = Spikes(Rollback(window=2, factor=2.0)), call([1.0, 1.0, 1.0])
    assert spikes.first(0, replace(calm, sums={**calm.sums, "total_loss": np.array([2.0, 2.0, 9.0])})).step == 2


def test_losses_below_zero_spike_by_their_distance_from_the_highest() -> None:
    """A loss of a density's logarithm falls below 0: no step of it is a spike for that."""
    spikes = Spikes(Rollback(window=3, factor=2.0))
    assert spikes.first(0, call([-1.0, -2.0, -3.0, -4.0, -3.5, -2.0, -1.0])) is None
    assert spikes.first(7, call([2.4])) is None, "-1 + 3.5"
    spikes.recent = [-3.5, -2.0, -1.0]
    assert spikes.first(7, call([2.6])).step == 7
    spikes.recent = [-0.1, 0.0, 0.1]
    assert spikes.first(8, call([0.19])) is None
    assert spikes.first(9, call([0.5])).step == 9


def test_the_name_alone_stands_for_its_settings() -> None:
    assert TrainConfig(steps=3, on_spike="rollback").on_spike == Rollback()


def test_checkpoints_decide_the_model_only_where_a_training_goes_back_to_them() -> None:
    def decided(config: TrainConfig, every: int) -> bytes:
        return canonical(identity(config.model_copy(update={"checkpoint": CheckpointConfig(every=every)})))

    assert decided(CONFIG, 3) == decided(CONFIG, 4)
    assert decided(SPIKING, 3) != decided(SPIKING, 4)


def test_what_a_rollback_would_undo_is_not_scored_beside_the_training() -> None:
    with pytest.raises(Conflict, match="scores steps that train.on_spike may undo"):
        raise_conflict(lambda: TrainConfig(steps=3, on_spike="rollback", evaluate="sidecar"))
    with pytest.raises(Conflict, match="no checkpoints any more, to which train.on_spike could go back"):
        raise_conflict(lambda: TrainConfig(steps=3, on_spike="rollback", continue_from="0123"))


@pytest.mark.slow
def test_two_workers_go_back_together(tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path) -> None:
    bench = benches("two")
    config = {**SETTINGS, "on_spike": SPIKING.on_spike}
    Training(tiny, bench, tmp_path)(MODEL.model_copy(update={"dropout": 0.0}), **config)
    assert state_of(bench)[1]["spikes"]["rollbacks"] == [{"step": 14, "to": 10}]
