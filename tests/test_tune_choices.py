"""What a tuning decides by: the weights that a trial keeps, the first of equal trials, settings of its parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.search.choosing import MedianPruner, TpeSampler
from tasks.search.monitor import TrialMonitor
from tasks.search.table import COMPLETE, RUNNING, Trial, best_of
from tasks.store.journal import JournalFile
from tasks.training.config import TrainConfig

EVALUATIONS = [(10, 0.6, 1.0), (20, 0.9, 0.5), (30, 0.9, 0.5), (40, 0.7, 0.8)]
"""Step, score and loss."""


@pytest.mark.parametrize(("select", "score"), [("last", 0.7), ("best", 0.9)])
def test_a_trial_is_worth_the_score_of_the_weights_that_it_keeps(select: Any, score: float) -> None:
    study: Any = SimpleNamespace(report=lambda *_: None, prunes=lambda *_: False)
    judge = TrialMonitor(study, 0, "accuracy", TrainConfig(steps=40, select=select), 40)
    for evaluation in EVALUATIONS:
        judge.add(*evaluation)
    assert judge.score == score and not judge.pruned


def test_each_evaluation_of_a_journal_is_taken_once_until_one_ends_the_trial(tmp_path: Path) -> None:
    reported: list[tuple[int, float]] = []
    study: Any = SimpleNamespace(
        report=lambda number, step, score: reported.append((step, score)), prunes=lambda number, step: step == 30
    )
    judge = TrialMonitor(study, 0, "accuracy", TrainConfig(steps=60, select="best"), 60)
    first, again = JournalFile(tmp_path / "first.jsonl"), JournalFile(tmp_path / "again.jsonl")
    first.append(5, {"train/loss": 3.0})
    first.append(10, {"validation/accuracy": 0.5, "validation/loss": 2.0})
    assert not judge.take(first.path)
    for step, accuracy, loss in ((10, 0.0, 0.0), (20, 0.25, 1.0)):  # as an attempt that begins anew evaluates again
        again.append(step, {"validation/accuracy": accuracy, "validation/loss": loss})
    assert not judge.take(again.path) and not judge.take(again.path)
    assert (judge.score, judge.loss) == (0.25, 1.0), "of the lowest loss"
    for step in (30, 40):
        first.append(step, {"validation/accuracy": 0.125, "validation/loss": 4.0})
    assert judge.take(first.path) and judge.take(first.path)
    assert (judge.step, judge.pruned) == (30, True)
    assert reported == [(10, 0.5), (20, 0.25), (30, 0.125)]


def test_the_last_evaluation_ends_no_trial_and_others_may() -> None:
    study: Any = SimpleNamespace(report=lambda *_: None, prunes=lambda *_: True)
    early, late = (TrialMonitor(study, 0, "accuracy", TrainConfig(steps=40), 40) for _ in range(2))
    early.add(39, 0.5, 0.5)
    late.add(40, 0.5, 0.5)
    assert (early.pruned, late.pruned) == (True, False)


TRIAL = Trial(0, COMPLETE, {}, 0.5, 10, 1.0, None, False, None)


@pytest.mark.parametrize(("higher", "best"), [(True, 1), (False, 0)])
def test_of_equal_trials_the_first_is_the_best(higher: bool, best: int) -> None:
    values = [0.2, 0.8, 0.8, 0.2]
    trials = [replace(TRIAL, number=number, value=value) for number, value in enumerate(values)]
    for order in (trials, trials[::-1]):
        found = best_of(order, higher)
        assert found is not None and found.number == best
    unfinished = [replace(TRIAL, state=RUNNING, value=9.0), replace(TRIAL, number=1, value=None)]
    assert best_of(unfinished, higher) is None


def test_settings_of_sampler_and_pruner_reach_the_library() -> None:
    sampler: Any = TpeSampler(startup=3).sampler({}, 5, 0)
    assert (sampler._n_startup_trials, sampler._constant_liar) == (3, True)
    assert sampler._multivariate is TpeSampler().multivariate
    seeds = {
        TpeSampler().sampler({}, seed, number)._rng.rng.randint(2**31) for seed, number in ((5, 0), (5, 1), (6, 0))
    }
    assert len(seeds) == 3, "another seed for each trial"
    assert TpeSampler().sampler({}, 5, 0)._rng.rng.randint(2**31) in seeds
    pruner: Any = MedianPruner(startup=7, warmup=20).pruner()
    assert (pruner._n_startup_trials, pruner._n_warmup_steps) == (7, 20)
