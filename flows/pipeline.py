"""The flow from raw data to a release."""

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


@flow(name="pipeline", flow_run_name=run_name, on_crashed=[report_crash])
@as_run
def pipeline(config: Config) -> Release:
    """Make a release from raw data: convert, snapshot, train, evaluate, compress, export, promote."""
    records = convert(config.source, config.records)
    examples = snapshot(records, config.snapshot)
    model = train(examples, config.model, config.train, config.seed, config.evaluate)
    report = evaluate(model, examples, config.evaluate)
    variants = compress(
        model, examples, report, config.compress, config.evaluate, config.export, config.train, config.seed
    )
    exported = export(model, variants, report, config.export, config.evaluate)
    return promote(exported, report, config.promote)
