"""What a snapshot needs of its source, and a task of a snapshot: told before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.config import TrainConfig
from tasks.config.base import Conflict
from tasks.errors import Refused

SNAPSHOTS = {"image": ("image", "image"), "tokens": ("text", "bytes"), "table": ("numbers", "number")}
"""By `snapshot.kind` the feature that it is made of, and what that must be."""

TASKS = {"classification": "label", "multilabel": "target", "regression": "target"}
"""By task the feature that it learns to answer; a language model learns from the text itself."""


def check_snapshot(features: Mapping[str, Any], kind: str) -> None:
    """Raise `Refused` where no such snapshot is made of a source, or of records, with these features.

    `features`: by name what has a `kind`, as `Feature.as_json` writes it.
    """
    name, wanted = SNAPSHOTS[kind]
    if name in features and features[name]["kind"] == wanted:
        return
    held = ", ".join(sorted(features))
    fitting = [
        made for made, (needed, of) in SNAPSHOTS.items() if needed in features and features[needed]["kind"] == of
    ]
    remedy = f"use snapshot.kind {' or '.join(fitting)}" if fitting else "choose another source"
    raise Refused("snapshot.kind", kind, f"is made of a feature {name}, and the source has {held}", remedy)


def check_task(features: Mapping[str, Any], task: str, train: TrainConfig) -> None:
    """Raise `Refused` where examples of these features do not tell what the task, or its class weights, ask of them.

    `features`: of a source, of records or of a snapshot; of `label` the `classes`.
    """
    wanted = TASKS.get(task)
    if wanted is None:
        return
    if wanted not in features:
        fitting = [other for other, needed in TASKS.items() if needed in features]
        rule = f"learns a feature {wanted}, and there are {', '.join(sorted(features))}"
        remedy = f"use model.task {' or '.join(fitting)}" if fitting else "choose a source that has one"
        raise Refused("model.task", task, rule, remedy)
    try:
        train.fit_classes(features[wanted].get("classes") or ())
    except Conflict as misfit:
        raise Refused(misfit.field, misfit.saw, misfit.rule, misfit.remedy) from None
