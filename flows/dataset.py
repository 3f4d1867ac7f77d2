"""The flow from raw data to a snapshot."""

from __future__ import annotations

from prefect import flow

from flows.running import as_run, report_crash, run_name
from tasks.artifacts import Snapshot
from tasks.config.compose import Config
from tasks.convert import convert
from tasks.snapshot import snapshot


@flow(name="dataset", flow_run_name=run_name, on_crashed=[report_crash])
@as_run
def dataset(config: Config) -> Snapshot:
    """Make a snapshot from raw data: convert, snapshot."""
    records = convert(config.source, config.records)
    return snapshot(records, config.snapshot)
