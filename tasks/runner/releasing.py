"""The stage `promote`, whose result is in the model registry: idempotent, gated, and protected by locks."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Export, Records, Release, Report
from tasks.config.compose import Config
from tasks.config.task import TASKS
from tasks.errors import Failed, Lost, Refused, of_the_machine
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.gates import promotion, tags_of, with_gates
from tasks.evaluation.gating import PromoteConfig
from tasks.evaluation.units import Floats
from tasks.exporting import work as exporting
from tasks.processes.workbench import work
from tasks.registry import approval
from tasks.runner.attempt import Attempt, current, machine_errors
from tasks.runs.audit import Audit
from tasks.store.files import pretty, write
from tasks.store.lock import locked
from tasks.tracking.shipping import machine_error, reason
from tasks.view import terminal
from tasks.view.report import report_of

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.evaluation.paired import Contributions
    from tasks.registry.comparison import Compared
    from tasks.registry.registry import Registered

CONNECT_SECONDS = 120.0
"""Seconds to wait for the registry."""


def release(exported: Export, report: Report, records: Records, config: PromoteConfig) -> Release:
    """Register the export unless it is registered, compare it with the champion, and move the alias."""
    attempt, started = current.get(), time.monotonic()
    attempt.raise_if_stopped()
    run, name = attempt.run, attempt.config.name
    with terminal.stage("promote", name) as line, machine_errors("stage promote", run.home.root):
        client, mlflow_id = _connect(attempt, line)
        from tasks.registry import registry

        lock = locked(run.home.root / ".registry.lock", line.say, attempt.raise_if_stopped)
        try:
            with lock, registry.user_errors(run.home.mlflow_uri):
                made = _decide(attempt, client, mlflow_id, exported, report, records, config)
        except Lost:
            attempt.shipper.reconnect()  # the retry waits for the server
            raise
        run.made("promote", made, time.monotonic() - started)
        line.finish(made.verdict, cached=not made.changed, took=time.monotonic() - started)
    if made.alias != "champion":
        attempt.outcome = "rejected" if made.awaits is None else "awaiting_approval"
    if made.awaits == run.run_id:
        attempt.awaiting_export = made.export
    write(run.folder / "release.json", pretty({**asdict(made), "run": run.run_id, "mlflow_run_id": mlflow_id}))
    return made


def _connect(attempt: Attempt, line: terminal.Stage, patience: float = CONNECT_SECONDS) -> tuple[MlflowClient, str]:
    """Return the registry's client and the id of the MLflow run; wait for an unreachable server, with a message."""
    uri, until = attempt.run.home.mlflow_uri, datetime.now() + timedelta(seconds=patience)
    announced: list[str] = []

    def waiting(spent: float) -> None:
        fault = attempt.shipper.fault
        if fault is not None and not announced:
            announced.append(f"the registry at {uri}: {reason(fault)}; waiting for it until {until:%H:%M:%S}")
            line.say(announced[0])
        if announced:
            line.progress(int(spent), int(patience), "seconds", {})
        attempt.raise_if_stopped()

    try:
        return attempt.shipper.connected(patience, waiting)
    except Failed:
        raise
    except Exception as fault:
        if (of_machine := machine_error(uri, fault)) is not None:
            raise of_machine from fault
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
    from tasks.evaluation.measured import asked
    from tasks.registry import comparison, registry

    run, name = attempt.run, attempt.config.name
    registry.finish(client, Audit(run.home))
    champion = registry.aliased(client, name, registry.CHAMPION)
    registered = registry.find(client, name, exported.digest)
    if registered and champion and registered.version == champion.version:
        standing = f": {registered.gate}" if registered.decided(run.run_id) else " is the champion already"
        verdict = f"{name} version {registered.version}{standing}"
        return Release(
            name, registered.version, registry.CHAMPION, exported.digest, verdict, registered.decided(run.run_id)
        )
    task, judged = attempt.config.model.task, attempt.config.evaluate
    metric, higher_is_better = f"test/{judged.primary_of(task)[0]}", judged.primary_of(task)[1]
    score = report.metrics[metric]
    if registered is None:
        tags = {
            "millrace.export": exported.digest,
            "millrace.run": run.run_id,
            "millrace.records": records.digest,
            "millrace.score": repr(score),
            "millrace.metric": metric,
        }
        if at := _rank(attempt.config):
            tags["millrace.at"] = at
        if judged.positive is not None:
            tags[comparison.POSITIVE] = judged.positive
        number = registry.register(run.home.mlflow_uri, mlflow_id, name, exported.path, tags)
        registered = registry.version(client, name, number)
        assert registered is not None
    beside, present = None, None
    if champion:
        try:
            judged = comparison.as_the_champion(champion, attempt.config)
            beside, why = _beside(attempt, client, registered, champion, records, judged)
        except Refused as unfit:
            why = f"{unfit.saw}, and {unfit.rule}"
        present = comparison.champion_of(champion, run, beside, why)
    baselines = asked(report_of(report)["splits"]["test"], config.baseline, task)
    gate = promotion(metric, score, present, config.margin, higher_is_better, baselines, config.require)
    if config.gates:
        against = champion.version if champion else None
        primary = judged.primary_of(task)
        gate = with_gates(gate, comparison.judge(run, report, config.gates, against, beside, primary))
        attempt.shipper.tags(tags_of({"promote": gate.gates}))
    required = config.approval == "required"
    ruling = approval.rule(gate, registered, run, required, attempt.decision_on(exported.digest) if required else None)
    assert run.lock is not None
    run.lock.check(run.run_id)
    changed = approval.carry_out(client, run, registered, ruling) or registered.decided(run.run_id)
    awaits = approval.awaited_run(registered, run) if ruling.action == "await" else None
    made = ruling.release(name, registered, changed, run.run_id, awaits)
    return replace(made, gates=tuple(verdict.as_json() for verdict in gate.gates))


def _rank(config: Config) -> str:
    """Return the rank up to which rankings are judged; empty for other tasks."""
    return str(config.evaluate.at) if "evaluate.at" in TASKS[config.model.task].options else ""


def _beside(
    attempt: Attempt,
    client: MlflowClient,
    version: Registered,
    champion: Registered,
    records: Records,
    config: EvaluateConfig,
) -> tuple[Compared | None, str]:
    """Return a version and the champion on the test examples of these records; or why they cannot be compared.

    The champion's contributions are those of its own report where that is of the same records; otherwise it is scored
    again, and where that is not possible compared by its own report on the examples that both have.
    """
    from tasks.registry import comparison
    from tasks.view.facts import Facts

    users = comparison.users(client, attempt.store, attempt.config.name, version, champion)
    if isinstance(users, str):
        return None, users
    found = None
    if champion.scored_on == (records.digest, _rank(attempt.config)):
        found = comparison.by_report(champion, attempt.run, config)
    if found is None:
        again = _again(attempt, client, champion, records, config)
        found = again or comparison.by_report(champion, attempt.run, config)
    if found is None:
        return None, f"champion version {champion.version} cannot be scored on these records"
    return comparison.compared(*found, users, champion.version, Facts(attempt.run).judged), ""


def _again(
    attempt: Attempt, client: MlflowClient, champion: Registered, records: Records, config: EvaluateConfig
) -> tuple[Contributions, dict[str, Floats]] | None:
    """Return the contributions of the run's model, and the champion's as it is scored on these records."""
    from tasks.view import results
    from tasks.view.facts import Facts

    own = results.contributions(Facts(attempt.run), "test", config)
    scores = _score_again(attempt, client, champion, records, config)
    if own is None or not scores:
        return None
    alike = np.flatnonzero(own.extents == np.asarray(scores["extents"]))
    return own.at(alike), {name: np.asarray(each)[alike] for name, each in scores["contributions"].items()}


def _score_again(
    attempt: Attempt, client: MlflowClient, champion: Registered, records: Records, config: EvaluateConfig
) -> dict[str, Any]:
    """Score the champion's export on these test records; return nothing where that is not possible."""
    from tasks.registry import registry

    try:
        attempt.run.use(Export.kind, champion.export)
        export = registry.fetch(client, attempt.store, attempt.config.name, champion)
        return attempt.work("promote", work(exporting.score, export.path, records.path, "test", config), None)
    except (OSError, KeyError, Failed) as error:
        if of_the_machine(error) is not None:  # ours, not the champion's
            raise
        who, instead = f"champion version {champion.version}", "its own report is compared, where it has these examples"
        terminal.say(f"warning: {who} cannot be run on these records, so {instead}: {error}", style="yellow")
        return {}
