"""How an attempt ends: in its record, in MLflow, on its page and in messages, whatever its flow's body ends with."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.config.compose import load
from tasks.errors import Damaged, Failed, Refused, Stopped
from tasks.runner import attempt
from tasks.runner.attempt import RunRequest, attempt_run, current
from tasks.runs.runs import Run
from tests.support.homes import DIGITS
from tests.support.registries import RegistryHome


def ends(outcome: str) -> Callable[[], None]:
    def body() -> None:
        current.get().outcome = outcome

    return body


def raises(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


FULL = OSError(28, "No space left on device", "/disk/file")
ENDS: dict[str, tuple[Callable[[], None], int, str, str, str | None]] = {
    "completed": (ends("completed"), 0, "completed", "FINISHED", None),
    "rejected": (ends("rejected"), 3, "rejected", "FINISHED", None),
    "waits": (ends("awaiting_approval"), 3, "awaiting_approval", "FINISHED", None),
    "stopped": (raises(Stopped(15)), 75, "stopped", "KILLED", None),
    "refused": (raises(Refused("a.b", 1, "rule", "remedy")), 2, "refused", "FAILED", "a.b"),
    "failed": (raises(Failed("a.b", 1, "rule", "remedy")), 1, "failed", "FAILED", "a.b"),
    "full disk": (raises(FULL), 1, "failed", "FAILED", "/disk/file"),
    "bug": (raises(ZeroDivisionError("by 0")), 1, "failed", "FAILED", "release"),
}
"""Its body, the run's exit code and status, that of MLflow, and the field of its error."""


@pytest.fixture
def told(registry_home: RegistryHome, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statuses that were told to receivers, of runs in a home with a registry; no process is forked."""
    statuses: list[str] = []
    monkeypatch.setenv("MILLRACE_HOME", str(registry_home.home.root))
    monkeypatch.setattr(attempt, "start_fork_server", lambda *given: None)
    monkeypatch.setattr(attempt.notifications, "notify", lambda run: statuses.append(run.record["status"]))
    return statuses


@pytest.mark.parametrize("name", ENDS)
def test_an_attempt_ends_as_its_flow_did_in_every_place(
    name: str, registry_home: RegistryHome, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body, code, status, of_mlflow, field = ENDS[name]
    request = RunRequest()
    if field is None and code != 75:
        assert attempt_run("release", load(DIGITS), body, request, None) is None
    else:
        with pytest.raises((Stopped, Refused, Failed, ZeroDivisionError)) as raised:
            attempt_run("release", load(DIGITS), body, request, None)
        assert not isinstance(raised.value, OSError)
    assert request.run is not None
    run = Run(registry_home.home, request.run.folder)
    assert (run.exit_code, run.record["status"], told) == (code, status, [status])
    error: Any = run.record["error"]
    assert (error and error["field"]) == field
    saws = {"bug": "ZeroDivisionError: by 0", "full disk": "No space left on device"}
    assert name not in saws or error["saw"] == saws[name]
    [last] = run.record["attempts"]
    assert (last["attempt"], last["pid"], last["exit_code"], last["status"]) == (1, os.getpid(), code, status)
    tracked = registry_home.client.get_run(run.record["mlflow_run_id"])
    assert (tracked.info.status, tracked.data.tags["millrace.outcome"]) == (of_mlflow, status)
    assert (run.folder / "page.html").exists()
    assert "page.html" in {item.path for item in registry_home.client.list_artifacts(tracked.info.run_id)}
    with pytest.raises(LookupError):
        current.get()


def test_an_attempt_that_cannot_begin_ends_with_its_own_error(
    registry_home: RegistryHome, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*given: Any) -> None:
        raise Failed("train.cluster", "in use", "rule", "remedy")

    monkeypatch.setattr(attempt, "rendezvous_of", taken)
    request = RunRequest()
    with pytest.raises(Failed, match="train.cluster: in use"):
        attempt_run("release", load(DIGITS), ends("completed"), request, None)
    assert request.run is not None
    record = Run(registry_home.home, request.run.folder).record
    assert (record["exit_code"], record["error"]["field"]) == (1, "train.cluster")


@pytest.mark.parametrize("fails", [False, True])
def test_other_hosts_and_who_asked_for_the_run_are_told_how_it_ended(
    fails: bool, registry_home: RegistryHome, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Any] = []

    def body() -> None:
        current.get().awaiting_export = "e" * 64
        if fails:
            raise Failed("a.b", 1, "rule", "remedy")

    hosts = SimpleNamespace(close=lambda *given: closed.append(given), cluster=None)
    monkeypatch.setattr(attempt, "rendezvous_of", lambda config: hosts)
    request = RunRequest()
    with pytest.raises(Failed) if fails else contextlib.nullcontext():
        attempt_run("release", load(DIGITS), body, request, None)
    [(code, error)] = closed
    assert (code, error and error["field"]) == ((1, "a.b") if fails else (0, None))
    assert request.awaiting_export == (None if fails else "e" * 64)


@pytest.mark.parametrize("times", [1, 2])
def test_a_flow_is_begun_once_more_after_a_damaged_artifact(
    times: int, registry_home: RegistryHome, told: list[str]
) -> None:
    begun: list[int] = []

    def body() -> str:
        begun.append(len(begun))
        if len(begun) <= times:
            raise Damaged("records/x", "has been changed", "rule", "remedy")
        return "made"

    request = RunRequest()
    if times == 1:
        assert attempt_run("release", load(DIGITS), body, request, None) == "made"
    else:
        with pytest.raises(Damaged):
            attempt_run("release", load(DIGITS), body, request, None)
    assert begun == [0, 1] and told == (["completed"] if times == 1 else ["failed"])


def test_an_end_that_cannot_be_written_is_said_and_the_rest_is_done(
    registry_home: RegistryHome, told: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*given: Any) -> None:
        raise FULL

    monkeypatch.setattr(Run, "end", full)
    request = RunRequest()
    with pytest.raises(Failed, match="a.b: 1"):
        attempt_run("release", load(DIGITS), raises(Failed("a.b", 1, "rule", "remedy")), request, None)
    assert request.run is not None and told == ["running"]
    record = json.loads((Path(request.run.folder) / "run.json").read_bytes())
    assert (record["status"], record["exit_code"]) == ("running", None)
    assert "run.json: No space left on device; it lacks this end" in capsys.readouterr().err
