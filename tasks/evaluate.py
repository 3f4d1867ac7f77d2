"""The task evaluate: model to a report."""

from __future__ import annotations

from tasks.artifacts import Model, Records, Report, Snapshot
from tasks.evaluation import work as evaluation
from tasks.evaluation.config import EvaluateConfig
from tasks.processes.workbench import work
from tasks.runner import identities
from tasks.runner.stages import parent_of, run_stage, verb


@verb
def evaluate(model: Model, examples: Snapshot, config: EvaluateConfig) -> Report:
    """Compute metrics with 95 % intervals on validation and test, plots, and the worst predictions by key."""
    records = parent_of(examples, "records", Records)
    return run_stage(
        "evaluate",
        Report,
        identities.report(model, examples, config),
        work(evaluation.evaluate, model, examples, records, config),
    )
