"""Checks whether a snapshot fits its source and a task its snapshot, before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.config import TrainConfig
from tasks.config.base import Conflict
from tasks.config.snapshot import SNAPSHOTS
from tasks.config.task import TASKS
from tasks.errors import Refused


def check_snapshot(features: Mapping[str, Any], kind: str) -> None:
    """Raise `Refused` where a snapshot of this kind cannot be made from these features.

    `features`: those of a source or of records, as of `Feature.as_json`.
    """
    inputs = sorted(feature["kind"] for feature in features.values() if feature["role"] == "input")
    made_of = SNAPSHOTS[kind].made_of
    if made_of is None or inputs == [made_of[1]]:
        return
    raise Refused("snapshot.kind", kind, f"is made of one input of kind {made_of[1]}", "use table")


def check_task(features: Mapping[str, Any], task: str, train: TrainConfig) -> None:
    """Raise `Refused` where these features do not have what the task, or `train.class_weights`, needs.

    `features`: those of a source, of records or of a snapshot; `label` has `classes`.
    """
    needed_feature = TASKS[task].target
    features = {
        f.get("role", name) if f.get("role") in ("label", "target") else name: f for name, f in features.items()
    }
    if needed_feature is None:
        return
    if needed_feature not in features:
        fitting = [name for name, other in TASKS.items() if other.target in features]
        rule = f"learns a feature {needed_feature}, and there are {', '.join(sorted(features))}"
        remedy = f"use model.task {' or '.join(fitting)}" if fitting else "choose a source that has one"
        raise Refused("model.task", task, rule, remedy)
    try:
        train.fit_classes(features[needed_feature].get("classes") or ())
    except Conflict as misfit:
        raise Refused(misfit.field, misfit.saw, misfit.rule, misfit.remedy) from None
