"""`gc --days N` and the nightly flow: history is old after N days, not after another time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.exceptions import MlflowException

from flows import maintenance
from flows.maintenance import collect_garbage
from tasks.errors import Failed
from tasks.runs.home import Home
from tests.support.registries import RegistryHome


@pytest.mark.parametrize(
    ("stack", "living", "told", "asked"),
    [(True, {"prefect"}, False, True), (True, {"mlflow"}, True, False), (False, set(), True, False)],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_prefects_runs_go_where_the_stack_has_its_server_and_else_it_is_said(
    stack: bool,
    living: set[str],
    told: bool,
    asked: bool,
    elsewhere: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    layout, seen = object() if stack else None, list[Any]()
    monkeypatch.setattr(maintenance, "Stack", lambda root: SimpleNamespace(layout=layout, living=lambda: living))
    monkeypatch.setattr(maintenance.orchestration, "prune", lambda *given: seen.append(given) or ["old", "older"])
    monkeypatch.setenv("PREFECT_API_URL", "http://elsewhere")
    if not elsewhere:
        monkeypatch.delenv("PREFECT_API_URL")
    home = Home(tmp_path).make()
    found = collect_garbage(home, keep=1, days=9, dry_run=False)
    assert [(row.what, row.path) for row in found] == [
        (f"Prefect's run {name}", home.prefect) for name in ("old", "older") if asked
    ]
    assert [(given[0], given[2]) for given in seen] == ([(layout, False)] if asked else [])
    assert all(abs(datetime.now(UTC) - timedelta(days=9) - given[1]) < timedelta(minutes=1) for given in seen)
    assert ("not pruned" in capsys.readouterr().err) is (told and not elsewhere)


def test_a_registry_that_cannot_be_read_is_named(registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise MlflowException("database is gone")

    monkeypatch.setattr("tasks.tracking.runs.prune", refuse)
    with pytest.raises(Failed) as failed:
        collect_garbage(registry_home.home, keep=1, days=9, dry_run=False)
    assert failed.value.field == registry_home.home.mlflow_uri


@pytest.mark.parametrize(("age", "days", "dropped"), [(91, 90, 1), (89, 90, 0), (5, 4, 1), (3, 4, 0)])
def test_files_in_mlflow_go_after_so_many_days(
    age: int, days: int, dropped: int, registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    client, ended = registry_home.client, datetime.now(UTC) - timedelta(days=age)
    run = client.create_run("0", tags={"millrace.run": "old"}).info.run_id
    client.log_text(run, "12345", "page.html")
    client.set_terminated(run, end_time=int(ended.timestamp() * 1000))
    found = collect_garbage(registry_home.home, keep=1, days=days, dry_run=True)
    assert [(row.what, row.bytes) for row in found] == [("files in MLflow of old", 5)] * dropped
    assert collect_garbage(registry_home.home, keep=1, days=None, dry_run=True) == []
