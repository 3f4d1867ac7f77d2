"""A training that ends early, keeps its best weights, or continues another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Model, Snapshot
from tasks.config.base import identity
from tasks.errors import Refused, Stopped
from tasks.processes.workbench import Workbench
from tasks.training.checkpoints import STATE, unpack
from tasks.training.fit import fit
from tasks.training.ledger import LEDGER
from tasks.training.optimizers import Adam
from tasks.training.primary import BestWeights
from tasks.training.schedules import Constant, Linear
from tasks.training.sections import CheckpointConfig, EarlyStopping
from tasks.training.starting import check_base
from tests.support.tiny import CONFIG, MODEL, files, stopping_after
from tests.support.training import PLAIN

ANEW: dict[str, Any] = {
    "parents": {"init": "1" * 64},
    "sources": [["nets.py", "a"]],
    "code": {"version": 3, "libraries": {"keras": "3.1"}},
}
"""What else decides a training."""
CONSTANT = {"schedule": Constant(), "optimizer": Adam()}


def test_training_ends_early_and_says_at_which_step(tiny: Snapshot, benches: Callable[[str], Workbench]) -> None:
    options = {"steps": 400, "evaluate_every": 5, "early_stopping": EarlyStopping(patience=2), **CONSTANT}
    config = CONFIG.model_copy(update=options)
    measured: dict[str, float] = {}
    bench = replace(benches("stopped"), measure=measured.__setitem__)
    outcome = fit(bench, tiny, PLAIN, config, seed=5)
    steps = outcome.also["steps"]
    assert steps < 400 and steps % 5 == 0
    assert measured["train/step_ms"] > 0 and measured["train/examples_per_second"] > 0
    losses = {
        step: metrics["validation/loss"]
        for step, metrics in bench.journal.points  # type: ignore[attr-defined]
        if "validation/loss" in metrics
    }
    best = min(losses, key=lambda step: (losses[step], step))
    assert steps == best + 10
    assert json.loads((bench.staging.root / LEDGER).read_text().splitlines()[-1])["to"] == steps

    made = files(bench)
    assert fit(bench, tiny, PLAIN, config, seed=5).also["steps"] == steps  # as if it had been killed before publication
    assert files(bench) == made

    chosen = benches("best")
    fit(chosen, tiny, PLAIN, config.model_copy(update={"select": "best"}), seed=5)
    short = benches("short")
    fit(short, tiny, PLAIN, config.model_copy(update={"steps": best, "early_stopping": None}), seed=5)
    assert files(chosen)["model.weights.h5"] == files(short)["model.weights.h5"]


def test_the_checkpoint_with_the_best_validation_loss_is_kept(
    tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    """The rate makes the loss rise."""
    checkpoint = CheckpointConfig(every=1, keep=1, keep_best=True)
    options = {"steps": 30, "evaluate_every": 2, "checkpoint": checkpoint, "learning_rate": 0.3, **CONSTANT}
    bench = benches("kept")
    with pytest.raises(Stopped):
        config = CONFIG.model_copy(update=options)
        fit(replace(bench, stopping=stopping_after(20)), tiny, PLAIN, config, seed=5)
    points: Any = bench.journal
    losses = {step: values["validation/loss"] for step, values in points.points if "validation/loss" in values}
    steps = sorted(int(path.stem[5:]) for path in (bench.staging.root / "checkpoints").glob("*.npz"))
    assert steps == [min(losses, key=lambda step: losses[step]), 20] and steps[0] < 20


EVALUATED: dict[str, Any] = {"select": "best", "early_stopping": EarlyStopping(patience=6), "evaluate_every": 2}
LEFT_OUT: dict[tuple[str, ...], dict[str, Any]] = {
    ("select",): {**EVALUATED, "select": "last"},
    ("early_stopping",): {**EVALUATED, "early_stopping": None},
    ("select", "early_stopping"): {"select": "last", "early_stopping": None, "evaluate_every": 2},
    ("select", "early_stopping", "evaluate_every"): {"select": "last", "early_stopping": None, "evaluate_every": 5},
}
"""Settings of a longer training whose first steps were evaluated; each leaves out some of what decides by it."""


@pytest.mark.parametrize(
    ("first", "whole", "options"),
    [
        ({"steps": None, "epochs": 2}, {"steps": 11}, {"batch_size": 5}),
        ({"steps": 3}, {"steps": None, "epochs": 3}, {}),
        ({"steps": 6}, {"steps": 12}, {"learning_rate": 0.05, **EVALUATED}),
        *(
            ({"steps": 6, **EVALUATED}, {"steps": 12, **left_out}, {"learning_rate": 0.05})
            for left_out in LEFT_OUT.values()
        ),
    ],
    ids=["epochs-steps", "steps-epochs", "best-early-stopping", *("-".join(each) for each in LEFT_OUT)],
)
def test_a_continued_model_is_one_that_was_trained_longer(
    first: dict, whole: dict, options: dict, trained: Callable[..., Workbench], tiny: Snapshot
) -> None:
    config = CONFIG.model_copy(update={**CONSTANT, **options, **first})
    long = trained("long", MODEL, **{**CONSTANT, **options, **whole})
    short = trained("short", MODEL, **{**CONSTANT, **options, **first})
    base = Model("0" * 64, short.staging.root, "model")
    steps = unpack((short.staging.root / STATE).read_bytes())[0]
    manifest = {"parents": {"snapshot": tiny.digest}, "steps": steps}
    manifest["inputs"] = {**ANEW, "config": identity({"model": MODEL, "train": config, "seed": 5})}
    (base.path / "manifest.json").write_text(json.dumps(manifest))
    check_base(base, tiny, {"model": MODEL, "train": config.model_copy(update=whole), "seed": 5}, ANEW)
    continued = trained("continued", MODEL, base=base, **{**CONSTANT, **options, **whole})
    assert files(continued) == files(long)
    if config.select == "best":
        points: Any = short.journal
        losses = {step: values["validation/loss"] for step, values in points.points if "validation/loss" in values}
        assert min(losses, key=lambda step: losses[step]) <= steps, "the best is the base's"


@pytest.mark.parametrize(
    ("began", "continued", "says"),
    [
        ({}, {"parents": {}}, "train.init.model: none; the model that is continued began with 111111111111"),
        ({}, {"sources": [["nets.py", "b"]]}, "the file nets.py has changed since the model was trained"),
        ({}, {"code": {"version": 3, "libraries": {"keras": "3.2"}}}, "the version of keras has changed since"),
        ({}, {"code": {**ANEW["code"], "version": 4}}, "the version of our code has changed since"),
        ({}, {"learning_rate": 0.02}, "train.learning_rate: 0.02; the model that is continued has 0.01; use the same"),
        ({}, {"batch_size": 2}, "train.batch_size: 2; the model that is continued has 4"),
        ({"schedule": Linear()}, {}, "train.schedule.kind: linear; its rates depend on the last step"),
        ({}, {"steps": 7}, "train.steps: 7; must pass the 7 steps that the model has taken"),
        ({"steps": None, "epochs": 3}, {"steps": None, "epochs": 3}, "train.epochs: 3; must pass the 8 steps"),
        (
            {"steps": None, "epochs": 3},
            {"steps": None, "epochs": 6},
            "the last step of its 3 epochs was fed 2 of 4 examples; a longer training feeds that step whole",
        ),
        ({}, {"select": "best"}, "train.select: best; the model that is continued has None"),
        ({}, {"early_stopping": EarlyStopping()}, "train.early_stopping: .*remembers no evaluations for it"),
        (
            {"early_stopping": EarlyStopping(patience=5)},
            {"early_stopping": EarlyStopping(patience=3)},
            "train.early_stopping: .*remembers no evaluations for it",
        ),
        (
            {"select": "best", "evaluate_every": 7},
            {"evaluate_every": 3},
            "train.evaluate_every: 3; the model that is continued was evaluated every 7 steps",
        ),
        ({"select": "best"}, {}, "its last evaluation was at step 7, no multiple of 4; a longer training is not"),
        (
            {"steps": 20, "early_stopping": EarlyStopping()},
            {"steps": 30},
            "its training was ended by train.early_stopping at step 7",
        ),
        (
            {"steps": None, "epochs": 8, "batch_size": 5, "early_stopping": EarlyStopping()},
            {"epochs": 30},
            "its training was ended by train.early_stopping at step 8",
        ),
        (
            {"steps": None, "epochs": 4, "batch_size": 5, "evaluate_every": 3, "early_stopping": EarlyStopping()},
            {"epochs": 30},
            "its last evaluation was at step 8, no multiple of 3",
        ),
    ],
)
def test_what_would_not_be_a_longer_training_is_refused_with_the_reason(
    began: dict, continued: dict, says: str, tiny: Snapshot, tmp_path: Path
) -> None:
    before = CONFIG.model_copy(update={**CONSTANT, **began})
    other = {name: continued.get(name, value) for name, value in ANEW.items()}
    settings = {name: value for name, value in continued.items() if name not in ANEW}
    after = before.model_copy(update={"steps": 12, **settings})
    steps = 8 if before.epochs else 7
    manifest = {"parents": {"snapshot": tiny.digest}, "steps": steps}
    manifest["inputs"] = {**ANEW, "config": identity({"model": MODEL, "train": before, "seed": 5})}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    base = Model("0" * 64, tmp_path, "model")
    with pytest.raises(Refused, match=says):
        check_base(base, tiny, {"model": MODEL, "train": after, "seed": 5}, other)


def test_a_training_goes_on_with_the_snapshot_that_it_began_with(tiny: Snapshot, tmp_path: Path) -> None:
    config = {"model": MODEL, "train": CONFIG.model_copy(update=CONSTANT), "seed": 5}
    manifest = {"parents": {"snapshot": "2" * 64}, "steps": 7, "inputs": {**ANEW, "config": identity(config)}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    base, longer = Model("0" * 64, tmp_path, "model"), CONFIG.model_copy(update={**CONSTANT, "steps": 12})
    with pytest.raises(Refused, match="was trained on another snapshot; a training goes on with the snapshot"):
        check_base(base, tiny, {**config, "train": longer}, ANEW)


def test_weights_that_have_no_validation_loss_are_never_the_best() -> None:
    def weights() -> dict[str, np.ndarray]:
        return {"w": np.array(len(best.selected) // 2)}

    best = BestWeights(CONFIG.model_copy(update={"select": "best", "early_stopping": EarlyStopping(patience=3)}))
    losses = (float("nan"), 2.0, float("nan"), 3.0, 2.5)
    seen = [best.update({"loss": loss, "accuracy": 0.5}, weights) for loss in losses]
    assert (best.selected, best.awaited, best.best()["w"]) == ([2.0, 2.0], [2.0], 1)
    assert seen == [False, False, False, False, True]


def test_a_score_that_stays_the_same_is_not_better() -> None:
    taken = iter(range(9))
    best = BestWeights(CONFIG.model_copy(update={"select": "best", "early_stopping": EarlyStopping(patience=2)}))
    scores = {"loss": 2.0, "accuracy": 0.5}
    seen = [best.update(scores, lambda: {"w": np.array(next(taken))}) for _ in range(3)]
    assert seen == [False, False, True] and best.best()["w"] == 0, "of equal losses the first"


def test_the_curves_decide_no_byte_of_a_model_that_ended_early(
    tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    """It ends at step 4, a point of one curve and not of the other."""
    states = []
    for log_every in (4, 3):
        stopping = EarlyStopping(patience=1, delta=100.0)
        options = {"steps": 40, "evaluate_every": 2, "log_every": log_every, "early_stopping": stopping}
        bench = benches(f"every{log_every}")
        outcome = fit(bench, tiny, MODEL, CONFIG.model_copy(update=options), seed=5)
        assert outcome is not None and outcome.counts["steps"] == 4
        states.append((bench.staging.root / STATE).read_bytes())
    assert states[0] == states[1]


def test_a_training_pauses_at_the_ends_of_the_ledgers_spans(
    tiny: Snapshot, benches: Callable[[str], Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("fit", "ledger"):
        monkeypatch.setattr(f"tasks.training.{module}.SPAN", 5)
    monkeypatch.setattr("tasks.training.loop.Pace.update", lambda pace, steps, seconds: setattr(pace, "longest", 50))
    seldom = {"steps": 12, "log_every": 99, "evaluate_every": 99, "checkpoint": CheckpointConfig(every=99)}
    bench = benches("spans")
    fit(bench, tiny, MODEL, CONFIG.model_copy(update=seldom), seed=5)
    lines = [json.loads(line) for line in (bench.staging.root / LEDGER).read_text().splitlines()]
    assert [(line["from"], line["to"], line["count"]) for line in lines] == [(0, 5, 20), (5, 10, 20), (10, 12, 8)]
