"""The work of exporting in a compute process: light to import, so that verbs hand these functions over.

What a function needs is imported where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.artifacts import Model, Outcome, Records, Report, Snapshot, Variant
    from tasks.evaluation.config import EvaluateConfig
    from tasks.exporting.config import ExportConfig
    from tasks.processes.workbench import Workbench


def export(
    bench: Workbench,
    model: Model,
    examples: Snapshot,
    records: Records,
    variants: Sequence[Variant],
    config: ExportConfig,
    report: Report | None,
    changed: Mapping[str, Model],
) -> Outcome:
    """Write the folder of an export (`export.build`)."""
    from tasks.exporting import export as exports

    return exports.build(bench, model, examples, records, list(variants), config, report, changed)


def score(bench: Workbench, export: Path, records: Path, split: str, config: EvaluateConfig) -> dict[str, Any]:
    """Score an export on a split of records (`score.score`)."""
    from tasks.exporting import score as scoring

    return scoring.score(bench, export, records, split, config)


def predict(bench: Workbench, export: Path, inputs: Sequence[str], output: Path | None) -> list[dict[str, Any]]:
    """Return the predictions of an export for files of raw rows (`predict.predict`)."""
    from tasks.exporting import predict as predicting

    return predicting.predict(export, list(inputs), output)
