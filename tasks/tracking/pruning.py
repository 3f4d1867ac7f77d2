"""Deletion of the files of old MLflow runs; their metrics stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from mlflow.entities import Run, ViewType
from mlflow.store.artifact.artifact_repo import ArtifactRepository
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracking import MlflowClient

from tasks.tracking.runs import connect

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


def _ended(client: MlflowClient, before: datetime) -> Iterator[Run]:
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
