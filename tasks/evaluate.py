"""evaluate: a model to a report."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.artifacts import Model, Records, Report, Snapshot
from tasks.config import EvaluateConfig
from tasks.stage import Code, Identity, parent_of, run_stage


@task(name="evaluate", cache_policy=NO_CACHE, persist_result=False)
def evaluate(model: Model, examples: Snapshot, config: EvaluateConfig) -> Report:
    """Metrics with 95 % bootstrap intervals on validation and test, pictures, and the most wrong examples by key."""
    from tasks.evaluation import REPORT_LIBRARIES, REPORT_VERSION

    records = parent_of(examples, "records", Records)
    return run_stage(
        "evaluate",
        Report,
        Identity(config, parents={"model": model, "snapshot": examples}, code=Code(REPORT_VERSION, REPORT_LIBRARIES)),
        work="tasks.evaluation.report:build",
        arguments=(model, examples, records, config),
    )
