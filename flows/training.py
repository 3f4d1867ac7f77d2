"""The flow from raw data to an evaluated model."""

from __future__ import annotations

from prefect import flow

from flows.running import as_run, report_crash, run_name
from tasks.artifacts import Report
from tasks.config.compose import Config
from tasks.convert import convert
from tasks.evaluate import evaluate
from tasks.snapshot import snapshot
from tasks.train import train


@flow(name="training", flow_run_name=run_name, on_crashed=[report_crash])
@as_run
def training(config: Config) -> Report:
    """Make a model and its report from raw data: convert, snapshot, train, evaluate."""
    records = convert(config.source, config.records)
    examples = snapshot(records, config.snapshot)
    model = train(examples, config.model, config.train, config.seed, config.evaluate)
    return evaluate(model, examples, config.evaluate)
