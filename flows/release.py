"""The flow from a model in the store to a release."""

from __future__ import annotations

from prefect import flow

from flows.running import as_run, report_crash, run_name
from tasks.artifacts import Release, Snapshot
from tasks.compress import compress
from tasks.config.compose import Config
from tasks.evaluate import evaluate
from tasks.export import export
from tasks.promote import promote
from tasks.runner.stages import chosen_model, parent_of


@flow(name="release", flow_run_name=run_name, on_crashed=[report_crash])
@as_run
def release(config: Config) -> Release:
    """Release the model `release.model`: evaluate, compress, export, promote."""
    model = chosen_model(config.release)
    examples = parent_of(model, "snapshot", Snapshot)
    report = evaluate(model, examples, config.evaluate)
    variants = compress(
        model, examples, report, config.compress, config.evaluate, config.export, config.train, config.seed
    )
    exported = export(model, variants, report, config.export, config.evaluate)
    return promote(exported, report, config.promote)
