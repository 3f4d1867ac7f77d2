"""Reading an export's `transform/`, the description of its preprocessing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.errors import Failed
from tasks.models.features import TOKENS
from tasks.reader import DESCRIPTION
from tasks.snapshots.text import LAYOUT, Codec

TASK = "task.json"
"""Task, loss and target names, of models whose task the kind of transform does not say."""

DECISION = "decision.json"
"""Temperature and thresholds, where the evaluation fitted them (`tasks.evaluation.decisions`)."""

TASKS = {"tokens": "language_model"}
"""The task of a transform without `task.json`, by kind; of all others classification."""

KINDS = {"table": DESCRIPTION, "tokens": LAYOUT}
"""The file in `transform/` of each kind of transform."""


def read_transform(export: Path) -> dict[str, Any]:
    """Read the transform of an export: the one file of `KINDS` that it has, and `task.json`; with `kind` and
    `task`, and `temperature` and `thresholds` where the export has them.

    Raises:
        Failed: the folder has none of them, or it is not JSON.
    """
    for name in KINDS.values():
        path = export / "transform" / name
        if path.is_file():
            try:
                transform: dict[str, Any] = json.loads(path.read_bytes())
            except ValueError as error:
                raise Failed(str(path), "not JSON", "an export holds it whole", "export again") from error
            files = (export / "transform" / more for more in (TASK, DECISION))
            of_task, decision = (json.loads(file.read_bytes()) if file.is_file() else {} for file in files)
            return {"task": TASKS.get(transform["kind"], "classification"), **transform, **of_task, **decision}
    rule = f"an export holds one of transform/{', '.join(KINDS.values())}"
    raise Failed(str(export), "not an export", rule, "see `millrace list export`")


def usual_task(features: dict[str, Any]) -> str:
    """Return the task of a snapshot of these features where an export says none."""
    return TASKS.get("tokens" if TOKENS in features else "table", "classification")


def codec(export: Path) -> Codec:
    """Load the tokenizer of a language model's export."""
    return Codec.open(export / "transform")
