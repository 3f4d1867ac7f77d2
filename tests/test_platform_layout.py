"""What `millrace up` would start: flags before the environment before the last `up`, and no door that is left open."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.commands.stack import wanted
from infra.stack import Stack, Started
from tasks.errors import Refused

NONE: dict[str, Any] = dict.fromkeys(("prefect_port", "mlflow_port", "host", "database", "auth", "alert"))


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    for name in ("PREFECT_SERVER_API_PORT", "MLFLOW_PORT"):
        monkeypatch.delenv(name, raising=False)
    return Stack(tmp_path)


@pytest.mark.parametrize("host", ["0.0.0.0", socket.gethostname()])
def test_a_host_that_others_reach_needs_logins(host: str, stack: Stack) -> None:
    with pytest.raises(Refused, match="requires --auth") as refused:
        wanted(stack, stack.home, **{**NONE, "host": host})
    assert refused.value.field == "--host"
    assert wanted(stack, stack.home, **{**NONE, "host": host, "auth": True}).host == host


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3"])
def test_this_machine_alone_needs_none(host: str, stack: Stack) -> None:
    assert not wanted(stack, stack.home, **{**NONE, "host": host}).auth


def test_flags_win_over_the_environment_and_that_over_the_last_time(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = wanted(stack, stack.home, **{**NONE, "prefect_port": 4201, "mlflow_port": 5001, "auth": True})
    stack.layout = first
    assert wanted(stack, stack.home, **NONE) == first
    monkeypatch.setenv("MLFLOW_PORT", "5002")
    assert wanted(stack, stack.home, **NONE) == replace(first, mlflow_port=5002)
    assert wanted(stack, stack.home, **{**NONE, "mlflow_port": 5003}).mlflow_port == 5003
    assert not wanted(stack, stack.home, **{**NONE, "auth": False}).auth
    stack.layout = replace(first, host="0.0.0.0")
    with pytest.raises(Refused, match="requires --auth"):
        wanted(stack, stack.home, **{**NONE, "auth": False})


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        (None, None, None),
        (None, "env:HOOK", "env:HOOK"),
        ("env:HOOK", None, "env:HOOK"),
        ("env:HOOK", "env:OTHER", "env:OTHER"),
        ("env:HOOK", "off", None),
    ],
)
def test_an_alert_stays_until_another_is_given_or_it_is_turned_off(
    before: str | None, given: str | None, after: str | None, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOOK", "OTHER"):
        monkeypatch.setenv(name, "https://example.org/hook")
    stack.layout = replace(wanted(stack, stack.home, **NONE), alert=before)
    assert wanted(stack, stack.home, **{**NONE, "alert": given}).alert == after


@pytest.mark.parametrize("port", ["0", "65536", "-1", "four", "4200.0"])
def test_a_port_is_a_port(port: str, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_PORT", port)
    with pytest.raises(Refused) as refused:
        wanted(stack, stack.home, **NONE)
    assert refused.value.field == "MLFLOW_PORT"
    monkeypatch.setenv("MLFLOW_PORT", "65535")
    assert wanted(stack, stack.home, **NONE).mlflow_port == 65535


def test_servers_do_not_share_a_port(stack: Stack) -> None:
    with pytest.raises(Refused) as refused:
        wanted(stack, stack.home, **{**NONE, "prefect_port": 5000})
    assert refused.value.field == "--mlflow-port"


def test_a_process_that_has_a_services_number_and_began_at_another_time_is_foreign() -> None:
    """As after a reboot: `down` would stop it, and `up` would leave it alone."""
    me = psutil.Process()
    assert Started(os.getpid(), me.create_time()).process == me
    assert Started(os.getpid(), me.create_time() - 60).process is None
    assert Started(os.getpid(), time.time() + 60).process is None
