"""`gc --days`: what it deletes of MLflow's and Prefect's history by age, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra import orchestration
from infra.embedded import EmbeddedServer
from infra.services import Layout, ask
from tasks.tracking.runs import DELETED_TAG, prune
from tests.support.homes import ROOT
from tests.support.registries import RegistryHome

NOW = datetime.now(UTC)
OLD, BEFORE, YOUNG = (NOW - timedelta(days=days) for days in (100, 90, 80))


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """A Prefect server without the rest of a stack."""
    home = tmp_path_factory.mktemp("home")
    server = EmbeddedServer(home / "prefect", home / "log")
    try:
        server.wait()
        yield Layout(home, ROOT, prefect_port=server.port)
    finally:
        server.stop()


def tracked(
    registry_home: RegistryHome, name: str, ended: datetime, status: str = "FINISHED", ours: bool = True
) -> str:
    """A run in MLflow that has a figure and a file and ended then."""
    tags = {"millrace.run": name} if ours else {}
    run = registry_home.client.create_run("0", tags=tags).info.run_id
    registry_home.client.log_metric(run, "test/accuracy", 0.9, step=1)
    registry_home.client.log_text(run, "12345", "pages/page.html")
    registry_home.client.set_terminated(run, end_time=int(ended.timestamp() * 1000))
    registry_home.client.update_run(run, status=status)
    return str(run)


def test_an_old_run_in_mlflow_loses_its_files_and_keeps_its_figures(registry_home: RegistryHome) -> None:
    old, killed = tracked(registry_home, "old", OLD), tracked(registry_home, "killed", OLD, "KILLED")
    young, again = tracked(registry_home, "young", YOUNG), tracked(registry_home, "again", OLD, "RUNNING")
    foreign, released = tracked(registry_home, "foreign", OLD, ours=False), tracked(registry_home, "released", OLD)
    registry_home.client.create_registered_model("digits")
    registry_home.client.create_model_version("digits", "file:///nowhere", run_id=released)

    expected = prune(registry_home.home.mlflow_uri, BEFORE, dry_run=True)
    assert {(predicted.run_id, predicted.name, predicted.bytes) for predicted in expected} == {
        (old, "old", 5),
        (killed, "killed", 5),
    }
    assert all(registry_home.client.list_artifacts(run) for run in (old, killed))
    assert prune(registry_home.home.mlflow_uri, BEFORE, dry_run=False) == expected

    for run in (old, killed):
        assert registry_home.client.list_artifacts(run) == []
        assert DELETED_TAG in registry_home.client.get_run(run).data.tags
    for run in (young, again, foreign, released):
        assert [item.path for item in registry_home.client.list_artifacts(run, "pages")] == ["pages/page.html"]
    for run in (old, killed, young, again, foreign, released):
        assert [point.value for point in registry_home.client.get_metric_history(run, "test/accuracy")] == [0.9]
    assert prune(registry_home.home.mlflow_uri, BEFORE, dry_run=False) == []


def ended(layout: Layout, names: list[str], state: str = "COMPLETED") -> list[str]:
    """Flow runs that have come to a state just now; their ids."""
    flow = ask(layout, "POST", "/flows/", {"name": "digits"})["id"]
    bodies = [{"name": name, "flow_id": flow, "state": {"type": state}} for name in names]
    return [ask(layout, "POST", "/flow_runs/", body)["id"] for body in bodies]


def show(layout: Layout, run: str, count: int) -> None:
    """What a run has in Prefect besides itself."""
    for number in range(count):
        artifact = {"key": "table", "type": "table", "data": [{"row": number}], "flow_run_id": run}
        ask(layout, "POST", "/artifacts/", artifact)


def left(layout: Layout, runs: list[str]) -> tuple[set[str], int]:
    """Which of these runs there are, and how many artifacts of all of them."""
    flow_runs = ask(layout, "POST", "/flow_runs/filter", {"flow_runs": {"id": {"any_": runs}}})
    of_them: dict[str, Any] = {"artifacts": {"flow_run_id": {"any_": runs}}}
    return {run["id"] for run in flow_runs}, ask(layout, "POST", "/artifacts/count", of_them)


def test_prefects_older_runs_go_with_all_that_is_theirs(layout: Layout) -> None:
    old = [*ended(layout, ["one", "two"]), *ended(layout, ["three"], "CRASHED")]
    running = ended(layout, ["four"], "RUNNING")
    show(layout, old[0], 203)  # more than a page of the filter
    show(layout, running[0], 1)
    before = datetime.now(UTC)
    young = ended(layout, ["five"])
    show(layout, young[0], 2)

    day = f"{before:%Y-%m-%d}"
    expected = orchestration.prune(layout, before, dry_run=True)
    assert sorted(expected) == [f"one of {day}", f"three of {day}", f"two of {day}"]
    assert left(layout, old) == (set(old), 203)
    assert orchestration.prune(layout, before, dry_run=False) == expected
    assert left(layout, old) == (set(), 0)
    assert left(layout, running) == (set(running), 1) and left(layout, young) == (set(young), 2)
    assert ask(layout, "GET", "/artifacts/table/latest")["flow_run_id"] == young[0]


def test_what_somebody_else_deletes_meanwhile_is_no_fault(layout: Layout) -> None:
    runs = ended(layout, [str(number) for number in range(20)])
    for run in runs:
        show(layout, run, 1)
    with ThreadPoolExecutor(2) as two:
        one, other = two.map(lambda _: orchestration.prune(layout, datetime.now(UTC), dry_run=False), range(2))
    assert left(layout, runs) == (set(), 0)
    assert {*one} & {*other}, "both must have been at a run, or this shows nothing"
