"""The deployments that maintain a home, run by the worker."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from infra.backup import verify
from tests.support.homes import CommandHome
from tests.support.stacks import Up

pytestmark = pytest.mark.slow

OLD = datetime.now(UTC) - timedelta(days=100)


def age(stack: Up, client: MlflowClient, run: dict[str, Any]) -> None:
    """Put a run's end back, in MLflow and in Prefect."""
    client.set_terminated(run["mlflow_run_id"], "FINISHED", int(OLD.timestamp() * 1000))
    with closing(sqlite3.connect(stack.root / "prefect/prefect.db", timeout=30)) as history, history:
        change = "UPDATE flow_run SET end_time = ? WHERE id = ?"
        assert history.execute(change, (f"{OLD:%Y-%m-%d %H:%M:%S.%f}", run["prefect_flow_run_id"])).rowcount == 1


def shown(stack: Up, run: dict[str, Any]) -> int:
    """How many artifacts a run has in Prefect."""
    query = {"artifacts": {"flow_run_id": {"any_": [run["prefect_flow_run_id"]]}}}
    return int(stack.ask("artifacts/count", query))


def completed(stack: Up) -> set[str]:
    """The flow runs that Prefect knows to have ended well."""
    query = {"flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    return {run["id"] for run in stack.ask("flow_runs/filter", query)}


def held(stack: Up) -> set[Path]:
    """The files that MLflow keeps of runs and of registered versions."""
    return {path for path in (stack.root / "mlartifacts").rglob("*") if path.is_file()}


def test_gc_drops_history_older_than_a_quarter(stack: Up, running: dict[str, Any], ran: list[dict[str, Any]]) -> None:
    client = MlflowClient(running["mlflow_url"])
    released, trained, young = ran
    for run in (released, trained):
        age(stack, client, run)
    figures, files = client.get_run(trained["mlflow_run_id"]).data.metrics, held(stack)
    assert figures and all(shown(stack, run) for run in ran)

    predicted = stack("gc", "--days", "90", "--dry-run", "--json").json["dropped"]
    day = f"{OLD:%Y-%m-%d}"
    assert sorted(re.sub("-[0-9a-f]{6}(: .*)? of ", " of ", row["what"]) for row in predicted) == [
        f"Prefect's run digits-pipeline of {day}",
        f"Prefect's run digits-training of {day}",
        f"files in MLflow of {trained['run_id']}",
    ]
    ended = stack.wait_for(stack.start_deployment("gc/nightly"))
    assert ended["state"]["type"] == "COMPLETED" and ended["state"]["message"].startswith("3 deleted, ")

    gone = files - held(stack)
    assert gone and gone == {path for path in files if trained["mlflow_run_id"] in path.parts}
    assert client.get_run(trained["mlflow_run_id"]).data.metrics == figures
    left = completed(stack)  # beside others, where the hourly deployment had its time
    assert {young["prefect_flow_run_id"], ended["id"]} <= left
    assert not {run["prefect_flow_run_id"] for run in (released, trained)} & left
    assert [shown(stack, run) > 0 for run in ran] == [False, False, True]
    assert stack("gc", "--days", "90", "--json").json["dropped"] == []


def test_backup_leaves_a_whole_copy_beside_the_home(
    stack: Up, running: dict[str, Any], ran: list[dict[str, Any]], tmp_path: Path
) -> None:
    ended = stack.wait_for(stack.start_deployment("backup/nightly"))
    assert ended["state"]["type"] == "COMPLETED"
    made = Path(ended["state"]["message"].partition(", ")[0])
    backups = stack.root.parent / ".millrace-backups"
    assert made in set(backups.iterdir()) and verify(made)  # perhaps beside that of the night
    other = CommandHome(tmp_path / "home")
    assert other("restore", made).code == 0
    assert other("verify", "--all").code == 0
    assert other("show", ran[0]["run_id"]).code == 0
