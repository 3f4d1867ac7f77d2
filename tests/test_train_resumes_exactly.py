"""A training stopped after any step and run again makes the bytes of an uninterrupted one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tasks.artifacts import Model, Snapshot
from tasks.errors import Failed, Stopped
from tasks.feed.augmentations import Crop, Flip, Mixup, Noise
from tasks.feed.orders import batch_rows
from tasks.models.architectures.mlp import MlpModel
from tasks.processes.workbench import Workbench
from tasks.training.checkpoints import unpack
from tasks.training.fit import fit
from tasks.training.ledger import LEDGER, hash_of, prove
from tasks.training.optimizers import Sgd
from tasks.training.schedules import Constant
from tasks.training.sections import CheckpointConfig
from tests.support.ledgers import ledger_of
from tests.support.tiny import CONFIG as PLAIN
from tests.support.tiny import MODEL, STEPS, files, stopping_after, write_snapshot

CONFIG = PLAIN.model_copy(update={"augment": (Flip(), Crop(padding=1), Noise(deviation=0.05), Mixup())})


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> Snapshot:
    bench = workbench_at(tmp_path_factory.mktemp("data") / "snapshot")
    return publish(Snapshot, bench, write_snapshot(bench))


@pytest.fixture(scope="module")
def unbroken(snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable) -> Workbench:
    bench = workbench_at(tmp_path_factory.mktemp("unbroken") / "staging")
    outcome = fit(bench, snapshot, MODEL, CONFIG, seed=5)
    assert outcome.counts["steps"] == STEPS
    return bench


def test_stopped_it_has_the_bytes_and_the_curves_of_an_unbroken_run(
    snapshot: Snapshot, unbroken: Workbench, benches: Callable[[str], Workbench]
) -> None:
    """With dropout, AdamW, clipping and a schedule; stopped within an epoch, and where a log and a checkpoint are due.

    At every step: `test_train_engine_door`.
    """
    bench = benches("broken")
    for calls, stop in ((1, 1), (2, 3)):
        with pytest.raises(Stopped):
            fit(replace(bench, stopping=stopping_after(calls)), snapshot, MODEL, CONFIG, seed=5)
        newest = max((bench.staging.root / "checkpoints").glob("*.npz"))
        assert unpack(newest.read_bytes())[0] == stop
    fit(bench, snapshot, MODEL, CONFIG, seed=5)
    assert files(bench) == files(unbroken)

    def curves(of: Workbench) -> dict:
        return {
            (step, name): value
            for step, metrics in of.journal.points  # type: ignore[attr-defined]
            for name, value in metrics.items()
            if name.partition("/")[2] in ("loss", "accuracy", "learning_rate", "gradient_norm")
        }

    assert curves(bench) == curves(unbroken)
    assert (STEPS, "validation/accuracy") in curves(unbroken)


def test_several_steps_to_a_call_change_no_byte(
    snapshot: Snapshot, unbroken: Workbench, benches: Callable[[str], Workbench]
) -> None:
    """Each has the rate of its own; where an action is due a call ends."""
    rare = {"log_every": STEPS, "evaluate_every": STEPS, "checkpoint": CheckpointConfig(every=STEPS)}
    bench, calls = benches("cut"), []

    def stopping() -> int:
        calls.append(1)
        return 0

    fit(replace(bench, stopping=stopping), snapshot, MODEL, CONFIG.model_copy(update=rare), seed=5)
    assert files(bench) == files(unbroken) and len(calls) < STEPS


def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    snapshot: Snapshot, unbroken: Workbench, benches: Callable[[str], Workbench], caplog: pytest.LogCaptureFixture
) -> None:
    bench = benches("broken")
    with pytest.raises(Stopped):
        fit(replace(bench, stopping=stopping_after(4)), snapshot, MODEL, CONFIG, seed=5)
    newest = max((bench.staging.root / "checkpoints").glob("*.npz"))
    newest.write_bytes(newest.read_bytes()[:-1])
    fit(bench, snapshot, MODEL, CONFIG, seed=5)
    assert f"checkpoints/{newest.name} is damaged: going back to the checkpoint before it" in caplog.text
    assert files(bench) == files(unbroken)


def test_augmented_examples_give_other_weights(
    snapshot: Snapshot, unbroken: Workbench, benches: Callable[[str], Workbench]
) -> None:
    bench = benches("plain")
    fit(bench, snapshot, MODEL, PLAIN, seed=5)
    assert files(bench)["model.weights.h5"] != files(unbroken)["model.weights.h5"]
    assert files(bench)[LEDGER] == files(unbroken)[LEDGER], "of the same rows"


def test_another_seed_gives_other_weights(
    snapshot: Snapshot, unbroken: Workbench, benches: Callable[[str], Workbench]
) -> None:
    bench = benches("other")
    fit(bench, snapshot, MODEL, CONFIG, seed=6)
    assert files(bench)["model.weights.h5"] != files(unbroken)["model.weights.h5"]


@pytest.mark.parametrize("limit", [{"steps": STEPS}, {"steps": None, "epochs": 3}])
def test_the_ledger_proves_what_was_fed(
    limit: dict, snapshot: Snapshot, benches: Callable[[str], Workbench], publish: Callable
) -> None:
    config = CONFIG.model_copy(update=limit)
    bench = benches("model")
    outcome = fit(bench, snapshot, MODEL, config, seed=5)
    model = publish(Model, bench, outcome)
    manifest = json.loads((model.path / "manifest.json").read_bytes())
    manifest["inputs"] = {"config": {"train": config.model_dump(mode="json"), "seed": 5}}
    (model.path / "manifest.json").write_text(json.dumps(manifest))

    proof = prove(model.path, snapshot.path)
    assert (proof["missing"], proof["repeated"], proof["wrong"]) == (0, 0, [])
    expected = {"3": 10} if config.epochs else {"2": 2, "3": 8}  # 28 examples fed of 10: two or three times each
    assert proof["seen"] == expected

    lines = (model.path / LEDGER).read_text().replace('"hash": "', '"hash": "f')
    (model.path / LEDGER).write_text(lines)
    assert prove(model.path, snapshot.path)["wrong"]


def test_the_ledger_calls_a_language_models_rows_by_their_name(tmp_path: Path) -> None:
    for folder, manifest in {
        "model": {"inputs": {"config": {"train": {"batch_size": 2}, "seed": 1}}},
        "snapshot": {"counts": {"train": 4}, "features": {"tokens": {"dtype": "uint16", "shape": [5]}}},
    }.items():
        (tmp_path / folder / "state").mkdir(parents=True)
        (tmp_path / folder / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "model" / LEDGER).touch()
    assert prove(tmp_path / "model", tmp_path / "snapshot")["text"].startswith("4 rows over 0 steps: no row was seen")


def test_a_loss_that_is_not_finite_stops_before_it_is_saved(
    snapshot: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    steep = {"learning_rate": 10.0, "schedule": Constant(), "optimizer": Sgd(momentum=0.99), "clip_norm": None}
    config = PLAIN.model_copy(update={**steep, "steps": 400})
    bench = benches("nan")
    model = MlpModel(units=(8, 8, 8))
    with pytest.raises(Failed, match="not finite at step") as failed:
        fit(bench, snapshot, model, config, seed=5)
    step = int(failed.value.saw.split("step ")[1].split(",")[0])
    rows = batch_rows(step, 4, 10, 5)[0].ravel()
    assert f"of the examples row {rows[0]}, row {rows[1]}, row {rows[2]}, row {rows[3]}" in failed.value.saw


def trained_in(root: Path, spans: list[tuple[int, int]], examples: int, batch: int) -> tuple[Path, Path]:
    """A model whose ledger has these spans of steps, each as the order says, and its snapshot."""
    lines = []
    for start, stop in spans:
        rows = np.concatenate([batch_rows(step, batch, examples, 1, "train")[0].ravel() for step in range(start, stop)])
        lines.append({"from": start, "to": stop, "count": len(rows), "hash": f"{hash_of(rows):016x}"})
    return ledger_of(root, lines, examples, batch, None)


@pytest.mark.parametrize(
    ("spans", "says"),
    [
        ([(0, 6)], "10 examples over 6 steps: every example was seen 3 times; none missing, none repeated"),
        ([(0, 7)], "10 examples over 7 steps: every example was seen 3 or 4 times; none missing, none repeated"),
        ([(0, 1)], "10 examples over 1 step: 5 examples were seen once, the other 5 not yet; none was repeated"),
        ([(0, 2)], "10 examples over 2 steps: every example was seen once; none missing, none repeated"),
    ],
)
def test_the_proof_says_in_words_how_often_examples_were_seen(
    spans: list[tuple[int, int]], says: str, tmp_path: Path
) -> None:
    assert prove(*trained_in(tmp_path, spans, 10, 5))["text"] == says


def test_the_proof_counts_what_skipped_steps_left_out_and_what_came_twice(tmp_path: Path) -> None:
    """Half of an epoch twice over, the other half never: half of each epoch is its own choice."""
    proof = prove(*trained_in(tmp_path, [(0, 1), (2, 3)], 10, 5))
    first, second = (set(batch_rows(step, 5, 10, 1, "train")[0].ravel().tolist()) for step in (0, 2))
    assert proof["missing"] == len(set(range(10)) - first - second) > 0
    assert proof["repeated"] == len(first & second) > 0
    assert proof["wrong"] == []
    assert f"{proof['missing']} missing, {proof['repeated']} repeated" in proof["text"]
