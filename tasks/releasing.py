"""The one stage whose result does not lie in the store but in the registry: idempotent, judged, fenced."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tasks import console
from tasks.artifacts import Export, Records, Release, Report
from tasks.attempt import Attempt, current, machine_errors
from tasks.config import PromoteConfig
from tasks.errors import Failed, of_the_machine
from tasks.evaluation import primary
from tasks.pages.description import describe_version
from tasks.pages.facts import Facts
from tasks.store.files import pretty, write
from tasks.store.lock import locked
from tasks.tracking.outage import ours, reason

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.tracking.registry import Registered

PATIENCE = 120.0
"""Seconds to wait for the registry."""


def release(exported: Export, report: Report, records: Records, config: PromoteConfig) -> Release:
    """Register the export where it is not yet, hold it against the champion, move the alias."""
    attempt, started = current.get(), time.monotonic()
    attempt.heed()
    run, name = attempt.run, attempt.config.name
    with console.stage("promote", name) as shown, machine_errors("stage promote", run.home.root):
        client, mlflow_id = _reached(attempt, shown)
        from tasks.tracking import registry

        lock = locked(run.home.root / ".registry.lock", shown.say, attempt.heed)
        with lock, registry.answering(run.home.mlflow_uri):
            made = _decide(attempt, client, mlflow_id, exported, report, records, config)
        run.made("promote", made, time.monotonic() - started)
        shown.told(made.verdict, cached=not made.changed, took=time.monotonic() - started)
    if made.alias != "champion":
        attempt.rejected = made.verdict
    write(run.folder / "release.json", pretty({**asdict(made), "run": run.run_id, "mlflow_run_id": mlflow_id}))
    return made


def _reached(attempt: Attempt, shown: console.Stage) -> tuple[MlflowClient, str]:
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
        attempt.heed()

    try:
        return attempt.shipper.connected(PATIENCE, waiting)
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
    from tasks.tracking import registry

    name = attempt.config.name
    metric, higher_is_better = primary(attempt.config.model.task)
    score = report.metrics[f"test/{metric}"]
    champion = registry.aliased(client, name, registry.CHAMPION)
    found = registry.find(client, name, exported.digest)
    if found and champion and found.version == champion.version:
        verdict = f"{name} version {found.version} is the champion already"
        return Release(name, found.version, registry.CHAMPION, exported.digest, verdict, changed=False)
    if found is None:
        tags = {
            "millrace.export": exported.digest,
            "millrace.run": attempt.run.run_id,
            "millrace.records": records.digest,
            "millrace.score": repr(score),
            "millrace.metric": f"test/{metric}",
        }
        arguments = (attempt.run.home.mlflow_uri, mlflow_id, name, exported.path, tags)
        version = attempt.work("promote", "tasks.tracking.registry:register", None, arguments)
    else:
        version = found.version
    alias, verdict = _gate(attempt, client, version, champion, score, metric, higher_is_better, records, config)
    assert attempt.run.lock is not None
    attempt.run.lock.check(attempt.run.run_id)
    note = describe_version(Facts(attempt.run), alias, verdict, exported.digest)
    registry.move(client, name, alias, version, verdict, note)
    return Release(name, version, alias, exported.digest, f"{name} version {version}: {verdict}", changed=True)


def _gate(
    attempt: Attempt,
    client: MlflowClient,
    version: str,
    champion: Registered | None,
    score: float,
    metric: str,
    higher_is_better: bool,
    records: Records,
    config: PromoteConfig,
) -> tuple[str, str]:
    """The alias a version earns, and why."""
    spoken = metric.replace("_", " ")
    if champion is None:
        return ("champion", f"champion, with test {spoken} {score:.4f}; there was none before")
    before = champion.score
    if champion.records != records.digest:
        before = _score_again(attempt, client, champion, records, metric)
    if math.isnan(before):
        return ("candidate", f"not comparable: champion version {champion.version} cannot be scored on these records")
    ahead = score - before if higher_is_better else before - score
    told = f"test {spoken} {score:.4f} against {before:.4f} of champion version {champion.version}"
    by = f"{'ahead' if ahead >= 0 else 'behind'} by {abs(ahead):.4f}, promote.margin {config.margin:.4f}"
    if ahead >= config.margin:
        return ("champion", f"champion, with {told} ({by})")
    return ("candidate", f"candidate only: {told} ({by})")


def _score_again(attempt: Attempt, client: MlflowClient, champion: Registered, records: Records, metric: str) -> float:
    """The champion's score on these test records, raw input to prediction; NaN where it cannot be had."""
    from tasks.tracking import registry

    try:
        attempt.run.use(Export.kind, champion.export)
        export = registry.fetch(client, attempt.store, attempt.config.name, champion)
        arguments = (export.path, records.path, "test")
        return float(attempt.work("promote", "tasks.exporting.score:score", None, arguments)[metric])
    except (OSError, KeyError, Failed) as error:
        if of_the_machine(error) is not None:  # ours, not the champion's
            raise
        console.say(f"warning: champion version {champion.version}: {error}", style="yellow")
        return math.nan
