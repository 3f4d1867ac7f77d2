"""MLflow runs: what is logged of a run, its parents, tags and metrics.

MLflow has a section of charts for each prefix of a name. It gets each metric of each split, the interval of the primary
metric, of several seeds the scores of each and their means with intervals, and size, primary metric, its loss and
latency of each variant. A name has the same unit in every run.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import logging
import os
import posixpath
import re
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import mlflow
from mlflow.entities import Dataset, DatasetInput, Metric, Param, RunTag, ViewType
from mlflow.entities import Run as MlflowRun
from mlflow.store.artifact.artifact_repo import ArtifactRepository
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracking import MlflowClient

from tasks.artifacts import Artifact
from tasks.environment.database_templates import copy_template, keep_template
from tasks.errors import Failed
from tasks.runs.provenance import git_commit, short
from tasks.runs.runs import Run
from tasks.store.journal import Point
from tasks.view.headline import differing, headline
from tasks.view.summary import MODE, PAGE

REFUSED = re.compile(r"[^/\w.\- :]")
"""Signs that MLflow takes in no name."""
MAX_KEY = 240
"""It takes names of 250 characters; a number may follow."""
BATCH = 1000
"""MLflow takes at most this many metrics in one call."""

EXPERIMENT = {"mlflow.experimentKind": "custom_model_development"}
"""Without this tag MLflow's pages ask for the kind of experiment."""

ABOUT = "Made by Millrace: one run per `millrace run`, over all its attempts, of the preset"

NOTE = "mlflow.note.content"
"""The tag with the description of a run or an experiment."""

SCORE = "millrace.score"
"""The tag with the primary metric on the test split and its interval."""

VIEW = "mlflow.sharedViewState.millrace"
"""The tag of an experiment with a view of its list, which MLflow's pages (3.17.2) offer under *Views*: by default they
show no tag. A status of MLflow tells only whether a run has ended, so that a rejected one is as green as a champion."""

COLUMNS = {
    "attributes.`Run Name`": 340,
    "runDateAndNestInfo": 150,
    "tags.`millrace.score`": 250,
    "tags.`millrace.outcome`": 150,
    "duration": 90,
}
"""The columns of the view, with their widths in pixels."""

STATUS = {
    "completed": "FINISHED",
    "rejected": "FINISHED",
    "awaiting_approval": "FINISHED",
    "stopped": "KILLED",
    "pruned": "KILLED",
}


SQLITE = "sqlite:///"


def connect(uri: str) -> MlflowClient:
    """Return a client of the tracking store at `uri`; a local database is created if needed."""
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if uri.startswith(SQLITE) and not (file := Path(uri.removeprefix(SQLITE))).exists():
        make_database(file)
    mlflow.set_tracking_uri(uri)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def import_database_store() -> None:
    """Import MLflow's database stores and map their tables, which takes a second."""
    from mlflow.store.model_registry import sqlalchemy_workspace_store  # noqa: F401
    from mlflow.store.tracking import sqlalchemy_workspace_store as tracking_store  # noqa: F401
    from sqlalchemy.orm import configure_mappers

    configure_mappers()


def make_database(file: Path) -> None:
    """Create MLflow's database in one step, as its migrations cannot be resumed after a kill.

    It is a copy of the template, which the first call creates.
    """
    draft, artifacts = file.with_name(f"{file.name}.draft"), str(file.parent / "mlartifacts")
    for leftover in (draft, draft.with_name(f"{draft.name}-journal")):
        leftover.unlink(missing_ok=True)
    if not copy_template("mlflow", draft):
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        SqlAlchemyStore(f"{SQLITE}{draft}", artifacts).engine.dispose()
        keep_template("mlflow", draft)
    with contextlib.closing(sqlite3.connect(draft)) as database, database:
        # the default experiment
        database.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = 0", [f"{artifacts}/0"])
    os.rename(draft, file)


def find_or_begin(client: MlflowClient, run: Run) -> str:
    """Return the id of the MLflow run of this run; the first attempt creates it, with the config as parameters."""
    name = run.record["name"]
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # somebody else's server knows where its artifacts go; those of our own are at hand without it, too
        foreign = client.tracking_uri.startswith("http") and not run.home.owns(client.tracking_uri)
        location = None if foreign else run.home.mlartifacts.as_uri()
        tags = {**EXPERIMENT, NOTE: f"{ABOUT} {name}."}
        experiment_id = client.create_experiment(name, artifact_location=location, tags=tags)
        known: dict[str, str] = {}
        note = f"[Score and outcome of each run]({list_of(experiment_id)}). {tags[NOTE]}"
        client.set_experiment_tag(experiment_id, NOTE, note)
    else:
        check_artifact_location(name, experiment.artifact_location)
        experiment_id, known = experiment.experiment_id, experiment.tags
    if VIEW not in known:
        client.set_experiment_tag(experiment_id, VIEW, view())
    query = f"tags.`millrace.run` = '{run.run_id}'"
    matches = client.search_runs([experiment_id], query, run_view_type=ViewType.ALL, max_results=1)
    if matches:
        mlflow_id = matches[0].info.run_id
        client.update_run(mlflow_id, status="RUNNING")
    else:
        tags = {
            "millrace.run": run.run_id,
            "millrace.flow": run.record["flow"],
            "millrace.preset": name,
            "mlflow.source.name": f"millrace run {run.record['flow']}",
            "mlflow.source.type": "JOB",
            "mlflow.user": getpass.getuser(),
            "mlflow.source.git.commit": git_commit() or "unknown",
            "millrace.commit": short(git_commit() or "unknown"),
            **_of_parent(run),
        }
        run_name = run.title if run.parent is not None else differing(run.home, run.record, before=run.run_id)
        mlflow_id = client.create_run(experiment_id, run_name=run_name, tags=tags).info.run_id
    # Also of a run that was found: it may have been interrupted between its creation and here.
    params = [Param(key, value) for key, value in parameters(run.record["config"]).items()]
    for start in range(0, len(params), 100):
        client.log_batch(mlflow_id, params=params[start : start + 100])
    client.set_tag(mlflow_id, "millrace.attempts", str(run.attempt))
    return mlflow_id


def view() -> str:
    """Return the view that shows score and outcome in the list of runs, as the pages of MLflow store it."""
    shown = [name for name in COLUMNS if name.startswith("tags.")]
    state = {"selectedColumns": [*shown, "attributes.`Duration`"], "columnOrder": [*COLUMNS], "columnWidths": COLUMNS}
    return json.dumps({"name": "Score and outcome", "createdAt": 0, "updatedAt": 0, "state": json.dumps(state)})


def list_of(experiment: str) -> str:
    """Return the address of an experiment's list of runs in that view."""
    return f"#/experiments/{experiment}/runs{MODE}&viewStateShareKey={VIEW.rpartition('.')[2]}"


def _of_parent(run: Run) -> dict[str, str]:
    """Return the tag that shows the run below that of its tuning.

    Raises:
        LookupError: the tuning's is not in MLflow yet.
    """
    if run.parent is None:
        return {}
    if (mlflow_id := run.parent.record["mlflow_run_id"]) is None:
        raise LookupError("the run of the tuning is not there yet")
    return {"mlflow.parentRunId": mlflow_id}


def check_artifact_location(name: str, location: str) -> None:
    """Check that the experiment's artifacts are in this home; one that was begun on another machine keeps them there.

    Raises:
        Failed: they would be written to a folder of the same name on this machine, and be lost to MLflow.
    """
    if location.startswith("file:") and not Path(url2pathname(urlsplit(location).path)).is_dir():
        rule, remedy = "files of a run must reach MLflow", "run it on that machine, or give the preset another name"
        raise Failed(f"experiment {name}", f"its files are in {location}, which is not here", rule, remedy)


def ship(client: MlflowClient, mlflow_id: str, points: list[Point]) -> None:
    """Send points; the store ignores one that it has already."""
    metrics = [
        Metric(name, value, int(point.time * 1000), point.step)
        for point in points
        for name, value in point.metrics.items()
    ]
    for start in range(0, len(metrics), BATCH):
        client.log_batch(mlflow_id, metrics=metrics[start : start + BATCH], synchronous=True)


def points_of(uri: str, mlflow_id: str, names: list[str]) -> list[tuple[str, int]]:
    """Return name and step of each point that MLflow has of these metrics of a run."""
    client = connect(uri)
    return [(name, point.step) for name in names for point in client.get_metric_history(mlflow_id, name)]


def note_stage(client: MlflowClient, mlflow_id: str, stage: str, artifact: Artifact, cached: bool) -> None:
    """Record a stage's artifact: its digest, the run that made it, and for data an MLflow input."""
    manifest = artifact.manifest
    what = stage if artifact.name == artifact.kind else f"{stage}.{artifact.name}"
    tags = {f"millrace.{what}": artifact.digest[:12]}  # short enough to be seen whole
    if cached:
        tags[f"millrace.made_by.{stage}"] = manifest["produced_by"]["run"]
    client.log_batch(mlflow_id, tags=[RunTag(key, value) for key, value in tags.items()])
    if artifact.kind in ("records", "snapshot"):
        dataset = Dataset(
            name=f"{artifact.kind}",
            digest=artifact.digest[:36],
            source_type="local",
            source=json.dumps({"uri": str(artifact.path)}),
            schema=json.dumps({"mlflow_features": manifest["features"]}),
            profile=json.dumps(manifest["counts"]),
        )
        client.log_inputs(mlflow_id, [DatasetInput(dataset, [])])
    client.log_dict(mlflow_id, manifest, f"manifests/{stage}-{artifact.name}.json")


def log_result(client: MlflowClient, mlflow_id: str, run: Run, pages: list[tuple[Path, str]], description: str) -> None:
    """Log pictures, pages and the results of the run."""
    for path, folder in pages:
        client.log_artifact(mlflow_id, str(path), folder or None)
    viewer = f"#/experiments/{client.get_run(mlflow_id).info.experiment_id}/runs/{mlflow_id}/artifacts/page.html{MODE}"
    note = description.replace(PAGE, f"[full page]({viewer})")
    tags = {NOTE: note, "millrace.outcome": run.record["status"]}
    if run.parent is None:
        line = headline(run)
        client.update_run(mlflow_id, name=line.title)
        tags |= {SCORE: line.score} if line.score else {}
    for key, value in tags.items():
        client.set_tag(mlflow_id, key, value)


def end(client: MlflowClient, mlflow_id: str, run: Run, pages: list[tuple[Path, str]], description: str) -> None:
    """Close the MLflow run: its last words and its status."""
    log_result(client, mlflow_id, run, pages, description)
    client.set_terminated(mlflow_id, STATUS.get(run.record["status"], "FAILED"), int(time.time() * 1000))


def flat(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return a config's values by dotted name."""
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from flat(value, f"{path}.{key}" if path else key)
    else:
        yield path, values


def parameters(config: dict[str, Any]) -> dict[str, str]:
    """Return a config's values by dotted name, as MLflow takes names; of equal names the further ones have a number."""
    found: dict[str, str] = {}
    for key, value in flat(config):
        if value in (None, "", {}):  # says nothing, and there is one for each thing that a preset leaves alone
            continue
        plain = name = key_of(key)
        number = 1
        while name in found:
            number += 1
            name = f"{plain} {number}"
        found[name] = as_flag(value)
    return found


def key_of(name: str) -> str:
    """Return a name as MLflow takes it: columns may be called `Income (USD)`, which it refuses, as it does `a//b`."""
    key = REFUSED.sub("_", name)[:MAX_KEY]
    return key if posixpath.normpath(key) == key else key.replace("/", "_")


def as_flag(value: Any) -> str:
    """Format a parameter as the value of its flag."""
    return value if isinstance(value, str) else json.dumps(value)


DELETED_TAG = "millrace.artifacts"
"""Tag of a run whose files were deleted."""


@dataclass(frozen=True)
class Pruned:
    """The files of a run in MLflow."""

    run_id: str
    name: str
    bytes: int


def prune(uri: str, before: datetime, dry_run: bool) -> list[Pruned]:
    """Delete the files of finished runs that ended before a time and have no registered version."""
    client = connect(uri)
    registered = {version.run_id for version in client.search_model_versions(max_results=10_000)}
    pruned = []
    for run in _ended(client, before):
        if run.info.run_id in registered or DELETED_TAG in run.data.tags or "millrace.run" not in run.data.tags:
            continue
        repository = get_artifact_repository(run.info.artifact_uri, tracking_uri=uri)
        size = _size(repository)
        pruned.append(Pruned(run.info.run_id, run.data.tags["millrace.run"], size))
        if not dry_run:
            repository.delete_artifacts()
            client.set_tag(run.info.run_id, DELETED_TAG, "deleted by millrace gc")
    return pruned


def delete(uri: str, run_id: str) -> list[str]:
    """Delete the MLflow runs of a run and of its trials with their files, and return their ids.

    MLflow keeps their parameters and metrics among the deleted runs until `mlflow gc`.
    """
    client = connect(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    deleted = []
    for query in (f"tags.`millrace.run` = '{run_id}'", f"tags.`millrace.run` LIKE '{run_id}/%'"):
        while found := client.search_runs(experiments, query, ViewType.ACTIVE_ONLY, max_results=500):
            for each in found:
                get_artifact_repository(each.info.artifact_uri, tracking_uri=uri).delete_artifacts()
                client.delete_run(each.info.run_id)
                deleted.append(each.info.run_id)
    return deleted


def _ended(client: MlflowClient, before: datetime) -> Iterator[MlflowRun]:
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    # a continued run is RUNNING, with its earlier end time
    query = f"attributes.status != 'RUNNING' and attributes.end_time < {int(before.timestamp() * 1000)}"
    token = None
    while True:
        page = client.search_runs(experiments, query, ViewType.ACTIVE_ONLY, max_results=500, page_token=token)
        yield from page
        if not (token := page.token):
            return


def _size(repository: ArtifactRepository, path: str | None = None) -> int:
    total = 0
    for item in repository.list_artifacts(path):
        total += _size(repository, item.path) if item.is_dir else int(item.file_size or 0)
    return total
