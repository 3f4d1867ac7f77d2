"""The one stage whose result does not lie in the store but in the registry: idempotent, judged, fenced."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tasks.artifacts import Export, Records, Release, Report
from tasks.config import PromoteConfig
from tasks.display import terminal
from tasks.errors import Failed, Lost, of_the_machine
from tasks.evaluation import primary_metric
from tasks.evaluation.gates import Champion, promotion
from tasks.registry import approval
from tasks.runs.audit import Audit
from tasks.stage.attempt import Attempt, current, machine_errors
from tasks.store.files import pretty, write
from tasks.store.lock import locked
from tasks.tracking.outage import ours, reason

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.registry.registry import Registered

PATIENCE = 120.0
"""Seconds to wait for the registry."""


def release(exported: Export, report: Report, records: Records, config: PromoteConfig) -> Release:
    """Register the export where it is not yet, hold it against the champion, move the alias."""
    attempt, started = current.get(), time.monotonic()
    attempt.raise_if_stopped()
    run, name = attempt.run, attempt.config.name
    with terminal.stage("promote", name) as shown, machine_errors("stage promote", run.home.root):
        client, mlflow_id = _reached(attempt, shown)
        from tasks.registry import registry

        lock = locked(run.home.root / ".registry.lock", shown.say, attempt.raise_if_stopped)
        try:
            with lock, registry.answering(run.home.mlflow_uri):
                made = _decide(attempt, client, mlflow_id, exported, report, records, config)
        except Lost:
            attempt.shipper.reconnect()  # the next try waits until it answers
            raise
        run.made("promote", made, time.monotonic() - started)
        shown.told(made.verdict, cached=not made.changed, took=time.monotonic() - started)
    if made.alias != "champion":
        attempt.outcome = "rejected" if made.awaits is None else "awaiting_approval"
    if made.awaits == run.run_id:
        attempt.asks = made.export
    write(run.folder / "release.json", pretty({**asdict(made), "run": run.run_id, "mlflow_run_id": mlflow_id}))
    return made


def _reached(attempt: Attempt, shown: terminal.Stage) -> tuple[MlflowClient, str]:
    """The registry, and the MLflow run to register from; a server that is away is waited for, aloud."""
    uri, until = attempt.run.home.mlflow_uri, datetime.now() + timedelta(seconds=PATIENCE)
    said: list[str] = []

    def waiting(spent: float) -> None:
        fault = attempt.shipper.fault
        if fault is not None and not said:
            said.append(f"the registry at {uri}: {reason(fault)}; waiting for it until {until:%H:%M:%S}")
            shown.say(said[0])
        if said:
            shown.progress(int(spent), int(PATIENCE), "seconds", {})
        attempt.raise_if_stopped()

    try:
        return attempt.shipper.connected(PATIENCE, waiting)
    except Failed:
        raise
    except Exception as fault:
        if (found := ours(uri, fault)) is not None:
            raise found from fault
        rule, remedy = "a release needs the registry", "run again when it is up: what was finished is kept"
        raise Failed(uri, reason(fault), rule, remedy) from fault


def _decide(
    attempt: Attempt,
    client: MlflowClient,
    mlflow_id: str,
    exported: Export,
    report: Report,
    records: Records,
    config: PromoteConfig,
) -> Release:
    from tasks.registry import registry

    run, name = attempt.run, attempt.config.name
    registry.finish(client, Audit(run.home))
    champion = registry.aliased(client, name, registry.CHAMPION)
    found = registry.find(client, name, exported.digest)
    if found and champion and found.version == champion.version:
        told = f": {found.gate}" if found.decided(run.run_id) else " is the champion already"
        verdict = f"{name} version {found.version}{told}"
        return Release(name, found.version, registry.CHAMPION, exported.digest, verdict, found.decided(run.run_id))
    name_of_metric, higher_is_better = primary_metric(attempt.config.model.task)
    metric = f"test/{name_of_metric}"
    score = report.metrics[metric]
    if found is None:
        tags = {
            "millrace.export": exported.digest,
            "millrace.run": run.run_id,
            "millrace.records": records.digest,
            "millrace.score": repr(score),
            "millrace.metric": metric,
        }
        number = registry.register(run.home.mlflow_uri, mlflow_id, name, exported.path, tags)
        found = registry.version(client, name, number)
        assert found is not None
    present = _present(attempt, client, champion, records, metric) if champion else None
    gate = promotion(metric, score, present, config.margin, higher_is_better)
    required = config.approval == "required"
    ruling = approval.rule(gate, found, run, required, attempt.answered(exported.digest) if required else None)
    assert run.lock is not None
    run.lock.check(run.run_id)
    changed = approval.carry_out(client, run, found, ruling) or found.decided(run.run_id)
    awaits = approval.asked_by(found, run) if ruling.action == "await" else None
    return ruling.release(name, found, changed, awaits)


def _present(attempt: Attempt, client: MlflowClient, champion: Registered, records: Records, metric: str) -> Champion:
    """The present champion with its score on these records: as it was registered, or taken again on others."""
    score = champion.score
    if champion.metric == metric and champion.records != records.digest:
        score = _score_again(attempt, client, champion, records, metric.removeprefix("test/"))
    return Champion(champion.version, champion.metric, score)


def _score_again(attempt: Attempt, client: MlflowClient, champion: Registered, records: Records, metric: str) -> float:
    """The champion's score on these test records, raw input to prediction; NaN where it cannot be had."""
    from tasks.registry import registry

    try:
        attempt.run.use(Export.kind, champion.export)
        export = registry.fetch(client, attempt.store, attempt.config.name, champion)
        arguments = (export.path, records.path, "test", attempt.config.evaluate)
        return float(attempt.work("promote", "tasks.exporting.score:score", None, arguments)[metric])
    except (OSError, KeyError, Failed) as error:
        if of_the_machine(error) is not None:  # ours, not the champion's
            raise
        terminal.say(f"warning: champion version {champion.version}: {error}", style="yellow")
        return math.nan
