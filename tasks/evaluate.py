"""evaluate: a model to a report."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks import identities
from tasks.artifacts import Model, Records, Report, Snapshot
from tasks.config import EvaluateConfig
from tasks.stage import parent_of, run_stage


@task(name="evaluate", cache_policy=NO_CACHE, persist_result=False)
def evaluate(model: Model, examples: Snapshot, config: EvaluateConfig) -> Report:
    """Metrics with 95 % bootstrap intervals on validation and test, pictures, and the most wrong examples by key."""
    records = parent_of(examples, "records", Records)
    return run_stage(
        "evaluate",
        Report,
        identities.report(model, examples, config),
        work="tasks.evaluation.report:build",
        arguments=(model, examples, records, config),
    )
