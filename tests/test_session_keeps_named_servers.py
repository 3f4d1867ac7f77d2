"""A server that the environment names is used, whatever runs here; the stack's are used where none is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows import session
from infra.access import Access
from infra.services import Layout
from infra.stack import Stack, Started
from tasks.errors import Failed
from tasks.runs.home import Home

PREFECT, MLFLOW = "http://127.0.0.1:4321/api", "http://127.0.0.1:5432"
"""The addresses of the stack."""
LOGINS = {"PREFECT_API_AUTH_STRING", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which no server is named; what a session sets is in it."""
    variables = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    monkeypatch.setattr(os, "environ", variables)
    return variables


def home_of(root: Path, *living: str, **layout: Any) -> Home:
    """A home whose stack has these services running: this process stands for them."""
    stack, me = Stack(root), psutil.Process()
    stack.layout = Layout(root, root, prefect_port=4321, mlflow_port=5432, **layout)
    if stack.layout.access is not None:
        Access.of(root).make()
    stack.started = {
        name: Started(me.pid, me.create_time() if name in living else 1.0) for name in ("prefect", "mlflow", "worker")
    }
    stack._save()
    return Home(root)


@pytest.mark.parametrize("auth", [False, True])
@pytest.mark.parametrize(
    ("named", "used"),
    [
        ({}, {"PREFECT_API_URL": PREFECT, "MLFLOW_TRACKING_URI": MLFLOW}),
        ({"PREFECT_API_URL": "http://far/api"}, {"PREFECT_API_URL": "http://far/api", "MLFLOW_TRACKING_URI": MLFLOW}),
        ({"MLFLOW_TRACKING_URI": "http://far"}, {"PREFECT_API_URL": PREFECT, "MLFLOW_TRACKING_URI": "http://far"}),
        (
            {"MLFLOW_TRACKING_URI": "sqlite:///a.db"},
            {"PREFECT_API_URL": PREFECT, "MLFLOW_TRACKING_URI": "sqlite:///a.db"},
        ),
        (
            {"PREFECT_API_URL": "http://far/api", "MLFLOW_TRACKING_URI": "http://far"},
            {"PREFECT_API_URL": "http://far/api", "MLFLOW_TRACKING_URI": "http://far"},
        ),
    ],
)
def test_a_server_that_is_named_is_used_and_gets_no_login_of_the_stack(
    named: dict[str, str], used: dict[str, str], auth: bool, tmp_path: Path, environment: dict[str, str]
) -> None:
    environment.update({**named, "PREFECT_HOME": "/own"})
    session.use_stack(home_of(tmp_path, "prefect", "mlflow", auth=auth))
    assert {name: environment.get(name) for name in used} == used
    assert environment["PREFECT_HOME"] == "/own" and "MILLRACE_HOME" not in environment
    own = {name.partition("_")[0] for name in used if used[name] in (PREFECT, MLFLOW)}
    assert LOGINS & environment.keys() == {name for name in LOGINS if auth and name.partition("_")[0] in own}


@pytest.mark.parametrize(
    ("living", "used"),
    [
        ((), (None, None)),
        (("worker",), (None, None)),
        (("prefect", "worker"), (PREFECT, None)),
        (("mlflow", "worker"), (None, MLFLOW)),
        (("prefect", "mlflow"), (PREFECT, MLFLOW)),
    ],
)
def test_of_the_stack_those_servers_are_used_that_run(
    living: tuple[str, ...], used: tuple[str | None, ...], tmp_path: Path, environment: dict[str, str]
) -> None:
    session.use_stack(home_of(tmp_path, *living))
    assert (environment.get("PREFECT_API_URL"), environment.get("MLFLOW_TRACKING_URI")) == used


@pytest.mark.parametrize("living", [(), ("prefect",), ("mlflow",)])
def test_a_home_whose_history_is_in_a_database_is_used_with_both_of_its_servers(
    living: tuple[str, ...], tmp_path: Path, environment: dict[str, str]
) -> None:
    """With servers of its own a command would begin another history."""
    with pytest.raises(Failed) as failed:
        session.use_stack(home_of(tmp_path, *living, database="env:DATABASE"))
    assert failed.value.field == "env:DATABASE"
    session.use_stack(home_of(tmp_path, "prefect", "mlflow", database="env:DATABASE"))
    assert environment["PREFECT_API_URL"] == PREFECT


def test_a_stack_on_another_address_is_reached_without_a_proxy(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["no_proxy"] = "intern"
    session.use_stack(home_of(tmp_path, "prefect", "mlflow", host="10.0.0.7"))
    assert environment["PREFECT_API_URL"] == "http://10.0.0.7:4321/api"
    assert {"10.0.0.7", "127.0.0.1", "intern"} <= set(environment["NO_PROXY"].split(","))


def test_a_home_without_a_stack_changes_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    before = dict(environment)
    session.use_stack(Home(tmp_path))
    assert environment == before


@pytest.mark.parametrize("name", ["PREFECT_HOME", *session.ENVIRONMENT])
def test_a_variable_of_prefect_that_is_set_stays(
    name: str, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logging.raiseExceptions", True)
    environment[name] = "as given"
    session.choose_servers(Home(tmp_path))
    expected = {"PREFECT_HOME": str(tmp_path / "prefect"), **session.ENVIRONMENT, name: "as given"}
    assert {each: environment[each] for each in expected} == expected
