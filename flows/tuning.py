"""The flow from raw data to a release of the best of many trainings."""

from __future__ import annotations

from prefect import flow

from flows.running import as_run, report_crash, run_name
from tasks.artifacts import Release
from tasks.compress import compress
from tasks.config.compose import Config
from tasks.convert import convert
from tasks.evaluate import evaluate
from tasks.export import export
from tasks.promote import promote
from tasks.snapshot import snapshot
from tasks.train import train
from tasks.tune import tune


@flow(name="tuning", flow_run_name=run_name, on_crashed=[report_crash])
@as_run
def tuning(config: Config) -> Release:
    """Release the best of many trainings: convert, snapshot, tune, evaluate, compress, export, promote."""
    records = convert(config.source, config.records)
    examples = snapshot(records, config.snapshot)
    model = tune(examples, config, train)
    report = evaluate(model, examples, config.evaluate)
    variants = compress(
        model, examples, report, config.compress, config.evaluate, config.export, config.train, config.seed
    )
    exported = export(model, variants, report, config.export, config.evaluate)
    return promote(exported, report, config.promote)
