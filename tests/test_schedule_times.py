"""`millrace schedule`: what it keeps, what it refuses, the hour that the clocks skip, and times that were missed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.settings import get_current_settings

from flows.commands.schedule import _wanted, removed, skipped_times
from infra import orchestration
from infra.schedules import TAG, Missed, Schedule, deployment_files, schedules, write, write_deployments
from infra.services import Layout, call
from tasks.errors import Refused
from tasks.runs.home import Home
from tests.support.homes import DIGITS, CommandHome
from tests.support.shared import shared_server

NOW = datetime(2026, 11, 29, 15, tzinfo=UTC)


def schedule(flow: str = "pipeline", name: str = "a-scheduled", preset: str = "/presets/a.yaml") -> Schedule:
    return Schedule(flow, name, preset, {"seed": "3"}, "0 4 * * *", "Europe/Zurich", "run")


@pytest.mark.parametrize(
    ("cron", "zone", "skipped"),
    [
        ("30 2 * * *", "Europe/Zurich", ["2027-03-28 02:30"]),
        ("0 2 * * *", "Europe/Zurich", ["2027-03-28 02:00"]),
        ("0 3 * * *", "Europe/Zurich", []),
        ("59 1 * * *", "Europe/Zurich", []),
        ("30 2 * * 1", "Europe/Zurich", []),  # clocks change on Sundays
        ("30 * * * *", "Europe/Zurich", []),
        ("*/20 1-3 * * *", "Europe/Zurich", ["2027-03-28 02:00"]),
        ("30 2 * * *", "America/New_York", ["2027-03-14 02:30"]),
        ("15 2 * * *", "Australia/Lord_Howe", ["2027-10-03 02:15"]),  # by half an hour
        ("45 2 * * *", "Australia/Lord_Howe", []),
        ("30 2 * * *", "UTC", []),
    ],
)
def test_times_that_the_clocks_skip_are_named(cron: str, zone: str, skipped: list[str]) -> None:
    assert [f"{time:%Y-%m-%d %H:%M}" for time in skipped_times(cron, zone, NOW)] == skipped


def test_no_shipped_schedule_is_on_or_in_an_hour_that_the_clocks_skip() -> None:
    written = yaml.safe_load(Path("prefect.yaml").read_text())["deployments"]
    shipped = [each for deployment in written for each in deployment.get("schedules", [])]
    assert len(shipped) == 5 and not any(each["active"] for each in shipped)
    assert not [each for each in shipped for _ in skipped_times(each["cron"], each["timezone"], NOW)]


def test_schedules_are_kept_in_the_home_and_become_deployments(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home", tmp_path)
    assert schedules(layout.home) == [] and deployment_files(layout) == [tmp_path / "prefect.yaml"]
    wanted = [schedule("pipeline"), schedule("dataset")]
    write(layout.home, wanted)
    assert schedules(layout.home) == [wanted[1], wanted[0]], "by name"
    write_deployments(layout)
    [_, file] = deployment_files(layout)
    [first, _] = yaml.safe_load(file.read_text())["deployments"]
    assert first["entrypoint"] == "flows.dataset.dataset" and first["tags"] == [TAG]
    assert first["schedules"] == [{"cron": "0 4 * * *", "timezone": "Europe/Zurich", "active": True}]
    [step] = first["build"]
    assert step["flows.deploying.read_preset"] == {"id": "preset", "path": "/presets/a.yaml", "flags": {"seed": "3"}}


def test_schedules_are_removed_by_preset_flow_or_name(tmp_path: Path) -> None:
    """Also where the preset is no longer there."""
    known = [schedule("dataset"), schedule("pipeline"), schedule("pipeline", "b", "/presets/b.yaml")]
    assert removed(known, Path("/presets/a.yaml"), None) == known[:2]
    assert removed(known, Path("/presets/a.yaml"), "dataset") == known[:1]
    assert removed(known, Path("pipeline/b"), None) == known[2:]


@pytest.mark.parametrize(
    ("cron", "zone", "flow", "flags", "error"),
    [
        ("0 4 * *", "UTC", None, {}, "--cron: 0 4 * *; it has five fields"),
        ("0 4 * * *", "Zurich", None, {}, "--timezone: Zurich; it is the name of a zone"),
        (None, "UTC", None, {}, "--cron: not given; a schedule has times"),
        ("0 4 * * *", "UTC", "nightly", {}, "--flow: nightly; it is one of pipeline, dataset"),
        ("0 4 * * *", "UTC", "release", {}, "release.model: not set"),
        ("0 4 * * *", "UTC", None, {"train.stepps": "3"}, "train.stepps"),
    ],
)
def test_what_could_not_run_is_refused(
    cron: str | None, zone: str, flow: str | None, flags: dict[str, str], error: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=re.escape(error)):
        _wanted(Path(DIGITS), flags, Home(tmp_path), cron, zone, flow, None, None)


def test_a_schedule_is_listed_and_replaced_by_the_next_one_of_its_name(tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    first = home("schedule", DIGITS, "--cron", "30 2 * * *", "--timezone", "Europe/Zurich")
    assert first.code == 0 and "skip 02:30, and it runs earlier" in first.stdout
    second = home("schedule", DIGITS, "--cron", "0 4 * * *", "--seed", "5")
    assert "pipeline/digits-scheduled at 0 4 * * * UTC, was 30 2 * * * Europe/Zurich" in second.stdout
    assert "no server is running; millrace up starts one" in second.stdout
    wrong = home("schedule", DIGITS, "--remove", "--cron", "0 4 * * *")
    assert wrong.code == 2 and "--cron: given; --remove needs the preset or FLOW/NAME alone" in wrong.stderr
    [row] = home("list", "schedules", "--json").json["schedules"]
    assert (row["name"], row["cron"], row["flags"]) == ("pipeline/digits-scheduled", "0 4 * * *", {"seed": "5"})
    [kept] = json.loads((home.root / "schedules.json").read_text())
    assert kept["preset"] == str(Path(DIGITS).resolve())


def ask(path: str, body: Any) -> Any:
    return call("POST", f"{shared_server()}/{path}", body)


def proposed(run: str, state: str) -> str:
    """The name of a run's state after its worker or its process has proposed one."""
    answer = ask(f"flow_runs/{run}/set_state", {"state": {"type": state}})
    return str(answer["state"]["name"])


@pytest.mark.parametrize(("missed", "others"), [("run", "AwaitingConcurrencySlot"), ("skip", "Cancelled")])
def test_of_the_runs_that_a_worker_missed_one_starts_and_the_others_wait_or_are_cancelled(
    missed: Missed, others: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Prefect's server, with a schedule's deployment; its worker proposes `PENDING` for all of them at once."""
    monkeypatch.setattr(Layout, "prefect_api", shared_server())
    layout, wanted = Layout(tmp_path, tmp_path), replace(schedule(), flow="missed", name=missed, missed=missed)
    written = wanted.as_deployment()
    limit = written["concurrency_limit"]
    times = [{"schedule": {"cron": wanted.cron, "timezone": wanted.timezone}, "active": True}]
    body = {
        "name": wanted.name,
        "flow_id": ask("flows/", {"name": wanted.flow})["id"],
        "schedules": times,
        "concurrency_limit": limit["limit"],
        "concurrency_options": {"collision_strategy": limit["collision_strategy"]},
    }
    deployment = ask("deployments/", body)["id"]

    def planned(name: str, minutes: int) -> tuple[str, str]:
        due = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
        state = {"type": "SCHEDULED", "name": name, "state_details": {"scheduled_time": due}}
        run = ask(f"deployments/{deployment}/create_flow_run", {"state": state})
        return run["id"], run["expected_start_time"]

    def late() -> int:
        return sum(row["deployment"] == wanted.deployment for row in orchestration.late(layout))

    first, *rest = [run for run, _ in (planned("Late", -minutes) for minutes in (3, 2, 1))]
    _, following = planned("Scheduled", 1)
    assert late() == 3
    [row] = orchestration.with_plans(layout, wanted.deployment)
    assert row["next"] == following, "a time that is past is not the next one"
    assert [proposed(run, "PENDING") for run in (first, *rest)] == ["Pending", others, others]
    assert late() == 0, "one that waits for another run is not late"
    assert [proposed(first, state) for state in ("RUNNING", "COMPLETED")] == ["Running", "Completed"]
    if missed == "run":
        assert [proposed(run, "PENDING") for run in rest] == ["Pending", others], "one at a time"


def test_prefect_plans_and_tries_again_as_the_page_says() -> None:
    server = get_current_settings().server
    assert (server.services.scheduler.min_runs, server.services.scheduler.min_scheduled_time) == (3, timedelta(hours=1))
    assert server.deployments.concurrency_slot_wait_seconds == 30
