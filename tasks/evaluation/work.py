"""The work of evaluation in a compute process: light to import, so that verbs hand these functions over.

What a function needs is imported where it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.artifacts import Model, Outcome, Records, Snapshot
    from tasks.evaluation.config import EvaluateConfig
    from tasks.processes.workbench import Workbench


def evaluate(bench: Workbench, model: Model, examples: Snapshot, records: Records, config: EvaluateConfig) -> Outcome:
    """Write the report of a model (`report.build`)."""
    from tasks.evaluation import report

    return report.build(bench, model, examples, records, config)
