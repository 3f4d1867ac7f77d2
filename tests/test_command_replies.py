"""What every command's answer has in common: one line for an error, an object for a program, no secret in either."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from flows.commands import run
from flows.commands import stack as commands
from flows.reply import replying, usage_error
from tasks.config.compose import load
from tasks.errors import Failed, Refused, Stopped
from tasks.runs.home import Home
from tests.support.homes import DIGITS


def test_a_mistyped_command_shows_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["up", "--databse-url", "postgresql://me:T0PS3CRET@db.example.org/millrace", "--json"]
    error = typer.BadParameter(f"Got unexpected extra argument ({words[2]})")
    assert usage_error(error, words) == 2
    printed = capsys.readouterr()
    assert "T0PS3CRET" not in printed.out + printed.err and "://…" in printed.err
    answer = json.loads(printed.out)
    assert (answer["command"], answer["status"], answer["exit_code"]) == ("up", "refused", 2)
    assert "://…" in answer["error"]["saw"]


def test_of_several_errors_the_first_is_printed_first_and_is_that_of_the_object(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as ended, replying("predict", as_json=True) as reply:
        for row in (1, 2):
            reply.fail(Failed(f"rows.csv:{row}", "x", "must be a number", "correct it"))
    printed = capsys.readouterr()
    assert printed.err.index("rows.csv:1") < printed.err.index("rows.csv:2") and ended.value.exit_code == 1
    assert json.loads(printed.out)["error"]["field"] == "rows.csv:1"


DIGITS_NIGHTLY: dict[str, Any] = {
    "name": "digits",
    "next": "2026-11-28T02:00:00+00:00",
    "schedule": "0 2 * * *",
    "off": None,
    "timezone": "UTC",
    "last": "completed",
}
NEVER: dict[str, Any] = {**DIGITS_NIGHTLY, "name": "never", "next": None, "schedule": None, "last": None}
OFF: dict[str, Any] = {**NEVER, "name": "off", "off": "30 5 * * *"}
"""A deployment as Prefect knows it, one without a schedule, and one whose schedule is off."""


@pytest.mark.parametrize(("works", "late", "code"), [(True, False, 0), (True, True, 1), (False, False, 1)])
def test_status_is_0_where_all_is_up_and_nothing_late(
    works: bool, late: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"run": "night", "deployment": "digits", "planned": "2026-11-27T02:00:00+00:00"}
    monkeypatch.setattr(commands, "services", lambda layout: [SimpleNamespace(name="prefect", works=lambda: works)])
    monkeypatch.setattr(commands.orchestration, "deployments", lambda layout: [DIGITS_NIGHTLY] if works else [])
    monkeypatch.setattr(commands.orchestration, "late", lambda layout: [row] if late else [])
    started = SimpleNamespace(process=object(), memory=1 << 20, since="2026-11-27T01:00:00+00:00")
    stack: Any = SimpleNamespace(layout=object(), started={"prefect": started}, facts=dict)
    with pytest.raises(typer.Exit) as ended, replying("status", as_json=True) as reply:
        commands.report(reply, stack)
    assert ended.value.exit_code == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["late"] == ([row] if late and works else [])
    assert answer["services"] == {"prefect": "up" if works else "does not answer"}
    assert (answer["since"], answer["memory"]) == ({"prefect": started.since}, {"prefect": 1 << 20})
    assert answer["last"] == ({"digits": "completed"} if works else {})
    assert [(each["name"], each["next"]) for each in answer["deployments"]] == (
        [("digits", DIGITS_NIGHTLY["next"])] if works else []
    )


def test_status_names_each_service_with_its_state_and_each_deployment_with_its_next_and_last_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("prefect", "mlflow", "worker", "alerts")
    answers = {"prefect": True, "mlflow": False}
    rows = [SimpleNamespace(name=name, works=lambda name=name: answers.get(name, True)) for name in names]
    monkeypatch.setattr(commands, "services", lambda layout: rows)
    monkeypatch.setattr(commands.orchestration, "deployments", lambda layout: [DIGITS_NIGHTLY, NEVER, OFF])
    late = {"run": "night", "deployment": "digits", "planned": "2026-11-27T02:00:00+00:00"}
    monkeypatch.setattr(commands.orchestration, "late", lambda layout: [late])
    since = "2026-11-27T01:00:00+00:00"
    living, dead = (SimpleNamespace(process=each, memory=5 << 20, since=since) for each in (object(), None))
    layout = SimpleNamespace(prefect_url="http://p", mlflow_pages="http://m")
    stack: Any = SimpleNamespace(
        layout=layout, started={"prefect": living, "mlflow": living, "worker": dead}, facts=dict, log=lambda name: name
    )
    with pytest.raises(typer.Exit) as ended, replying("status", as_json=False) as reply:
        commands.report(reply, stack)
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.exit_code == 1
    assert [line.split()[0] for line in lines] == [*names, "Prefect", "MLflow", "digits", "never", "off", "late"]
    up, hanging, *down = lines[:4]
    assert " up " in up and "5 MB" in up and "see" not in up
    assert "does not answer" in hanging and hanging.endswith("see mlflow")
    assert all(" down " in line and "MB" not in line and "see" in line for line in down)
    assert lines[4].endswith("http://p") and lines[5].endswith("http://m")
    assert (
        "last completed" in lines[6]
        and DIGITS_NIGHTLY["schedule"] in lines[6]
        and "no schedule; last never" in lines[7]
        and "schedule off (30 5 * * *); last never" in lines[8]
    )


@pytest.mark.parametrize(
    ("code", "error", "expected", "said"),
    [
        (0, None, 0, None),
        (1, "ran out of disk", 1, "failed"),
        (2, "no such column", 1, "failed"),
        (3, None, 0, None),
        (75, None, 75, "stopped"),
        (130, None, 130, "stopped"),
    ],
)
def test_a_worker_ends_as_the_run_that_it_served(
    code: int, error: str | None, expected: int, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verdict, exit code 3, is no fault of a worker."""
    told = error and {"field": "a", "saw": error, "rule": "rule", "remedy": "remedy"}
    monkeypatch.setattr("tasks.runner.hosts.serve", lambda *_: SimpleNamespace(exit_code=code, error=told))
    place: Any = SimpleNamespace(rank=1, cluster=SimpleNamespace(chief="here"))
    with pytest.raises(typer.Exit) as ended, replying("worker", as_json=False) as reply:
        run.serve(reply, place, load(DIGITS), Home(tmp_path))
    assert (ended.value.exit_code, reply.status) == (expected, said)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (Refused("a", 1, "rule", "remedy"), 2, "refused"),
        (Failed("a", 1, "rule", "remedy"), 1, "failed"),
        (Stopped(15), 75, "stopped"),
        (Stopped(2), 130, "stopped"),
        (OSError(28, "No space left on device", "/disk/file"), 1, "failed"),
        (ValueError("ours"), 1, "failed"),
        (None, 0, "completed"),
    ],
)
def test_an_error_decides_code_and_status(
    error: BaseException | None, code: int, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, replying("list", as_json=True) as reply:
        reply.add(rows=[])
        if error is not None:
            raise error
    answer = json.loads(capsys.readouterr().out)
    assert ended.value.exit_code == answer["exit_code"] == code
    assert (answer["status"], answer["command"], answer["rows"]) == (status, "list", [])
    assert (answer["error"] is None) == (status in ("completed", "stopped"))
    if isinstance(error, OSError):
        assert answer["error"]["field"] == "/disk/file" and answer["error"]["saw"] == "No space left on device"
