"""The task tune: snapshot to the best model of many trainings."""

from __future__ import annotations

from tasks.artifacts import Model, Snapshot
from tasks.config.compose import Config
from tasks.runner.stages import body_of, verb
from tasks.runner.trials import Train
from tasks.runner.tuning import search


@verb
def tune(examples: Snapshot, config: Config, train: Train) -> Model:
    """Try the values of `tune.space`, a training by `train` for each trial, and return the best model, from the store.

    Trials are compared by `tune.metric` on the validation split. Each is stored in the study with its values before it
    begins and with its score when it ends: after a kill no trial is lost and none is run twice. With one trial at a
    time values, scores and winner are functions of snapshot, config and seed.

    Raises:
        Failed: no trial has a score.
    """
    best = search(examples, config, train)
    return body_of(train)(examples, best.model, best.train, config.seed, config.evaluate)
