"""What the platform keeps, shows and lets in: secrets, backups, the last point, what is deployed, whom it stops."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import time
import urllib.error
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from prefect import Flow
from prefect.exceptions import ParameterTypeError

from flows import asking, launching, preflight, references
from flows.commands import backfill
from flows.commands.decisions import checked
from flows.launching import parse
from flows.reply import STATUS, Reply, replying
from flows.running import as_run, report_crash
from flows.session import has_form
from infra import automations, backup, databases, health, orchestration, prefect_service, services, stack
from infra import deployments as deployed
from infra.access import Access, loopback, names_of
from infra.prefect_service import Guard
from infra.schedules import SCHEDULES, TAG, Schedule, write
from infra.services import Answered, Layout, surroundings, variables_for_runs
from infra.stack import Stack, Started, holder, port_in_use
from tasks.config.base import Section, subclasses
from tasks.config.compose import Config, load
from tasks.environment.secrets import Missing
from tasks.errors import Failed, Lost, Refused, Stopped
from tasks.runs.home import Home
from tasks.runs.runs import Run, opened
from tasks.store.journal import last_of_training
from tasks.view import when
from tests.support.homes import DIGITS, ROOT


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "home", tmp_path / "project")


def test_secrets_are_the_owners_alone_and_stay_as_they_are(tmp_path: Path) -> None:
    access = Access.of(tmp_path)
    access.make()
    first = {name: (access.folder / name).read_text() for name in ("prefect", "mlflow", "session")}
    assert len(set(first.values())) == 3 and min(map(len, first.values())) >= 32
    access.folder.chmod(0o755)
    access.make()
    assert stat.S_IMODE(access.folder.stat().st_mode) == 0o700
    assert {name: (access.folder / name).read_text() for name in first} == first
    ini = access.mlflow_config(tmp_path)
    assert {stat.S_IMODE(path.stat().st_mode) for path in access.folder.iterdir()} == {0o600}
    assert f"admin_password = {first['mlflow']}" in ini.read_text()
    assert access.headers("mlflow") != access.headers("prefect")
    assert access.mlflow_environment["MLFLOW_TRACKING_PASSWORD"] == first["mlflow"]


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("0.0.0.0", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_a_loopback_address_is_one_as_a_whole(host: str, is_loopback: bool) -> None:
    assert loopback(host) is is_loopback
    assert ("localhost" in names_of(host)) is (host in ("0.0.0.0", "localhost"))


def test_pages_of_other_machines_ask_the_address_that_they_came_from(layout: Layout) -> None:
    assert layout.pages_api == "http://127.0.0.1:4200/api"
    others = replace(layout, host="0.0.0.0")
    assert (others.pages_api, others.prefect_api) == ("/api", "http://127.0.0.1:4200/api")
    assert replace(layout, host="192.168.0.7").mlflow_url == "http://192.168.0.7:5000"


def test_a_service_inherits_no_variable_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "MILLRACE_WEBHOOK", "PREFECT_API_KEY"):
        monkeypatch.setenv(name, "T0PS3CRET")
    made = surroundings({"OWN": "1", "DO_NOT_TRACK": "0"})
    assert "T0PS3CRET" not in made.values() and made["PATH"] == os.environ["PATH"]
    assert (made["OWN"], made["DO_NOT_TRACK"]) == ("1", "0")
    assert (
        variables_for_runs()["MILLRACE_WEBHOOK"] == "T0PS3CRET" and "AWS_SECRET_ACCESS_KEY" not in variables_for_runs()
    )


def test_servers_that_others_reach_name_their_hosts_and_ask_for_logins(layout: Layout) -> None:
    local = services.mlflow_server(layout)
    assert "--allowed-hosts" not in local.command and "--app-name" not in local.command
    Access.of(layout.home).make()
    others = services.mlflow_server(replace(layout, host="0.0.0.0", auth=True))
    words = dict(zip(others.command, others.command[1:], strict=False))
    assert words["--app-name"] == "basic-auth" and "localhost:5000" in words["--allowed-hosts"].split(",")
    assert "*" not in words["--allowed-hosts"] and "*" not in words["--cors-allowed-origins"]
    secrets = {(Access.of(layout.home).folder / name).read_text() for name in ("mlflow", "prefect", "session")}
    assert not secrets & set(" ".join(others.command).split()), "all users can read command lines"
    assert services.prefect_server(replace(layout, auth=True)).environment()["PREFECT_SERVER_API_AUTH_STRING"]
    assert "PREFECT_SERVER_API_AUTH_STRING" not in services.prefect_server(layout).environment()


class Answers:
    """A server that answers in turn; a number is a status."""

    def __init__(self, *answers: Any) -> None:
        self.left, self.asked = list(answers), 0

    def open(self, request: Any, timeout: float) -> Any:
        import io
        import urllib.error

        self.asked += 1
        answer = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(answer, int):
            raise urllib.error.HTTPError("http://x", answer, "busy", {}, io.BytesIO(b"why"))  # type: ignore[arg-type]
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)


def test_a_request_is_repeated_while_the_server_is_busy_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    def asked(*answers: Any) -> tuple[Any, int]:
        server = Answers(*answers)
        monkeypatch.setattr(services, "direct", server)
        return services.call("GET", "http://x"), server.asked

    assert asked(503, 503, b'{"a": 1}') == ({"a": 1}, 3) and asked(b"") == (None, 1)
    for code in (404, 500, 502):
        with pytest.raises(Answered) as error:
            asked(code, b"{}")
        assert error.value.code == code and "why" in error.value.saw
    clock = iter(range(0, 100, 10))
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: float(next(clock)))
        with pytest.raises(Answered, match="503"):
            asked(503)
    assert next(clock) == 50, "asked at 0, 10, 20 and 30 seconds, which all count from the first"
    for error, saw in (
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (urllib.error.URLError(ConnectionRefusedError(111, "Connection refused")), "Connection refused"),
        (urllib.error.URLError("unknown url type"), "unknown url type"),
        (TimeoutError("timed out"), "timed out"),
        (TimeoutError(), "TimeoutError"),
        (http.client.RemoteDisconnected("closed"), "closed"),
    ):
        with pytest.raises(Failed, match="must answer") as dead:
            asked(error)
        assert not isinstance(dead.value, Answered) and (dead.value.field, dead.value.saw) == ("http://x", saw)


def test_a_request_has_its_method_its_headers_and_its_body_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[Any, ...]] = []

    def opened(request: Any, timeout: float) -> Any:
        sent.append((request.get_method(), request.data, dict(request.header_items()), timeout))
        return io.BytesIO(b"[1]")

    monkeypatch.setattr(services, "direct", SimpleNamespace(open=opened))
    assert services.call("POST", "http://x", {"a": [1]}, {"X-Own": "b"}, timeout=7.0) == [1]
    services.call("DELETE", "http://x")
    kind = {"Content-type": "application/json"}
    assert sent == [("POST", b'{"a": [1]}', {**kind, "X-own": "b"}, 7.0), ("DELETE", None, kind, 30.0)]
    open_home, closed = (Layout(Path("/home"), Path("/project"), auth=auth) for auth in (False, True))
    assert open_home.access is None and closed.access is not None


@pytest.mark.parametrize(
    ("status", "expected"), [(200, True), (204, False), (OSError(111, "refused"), False), (ValueError("no url"), False)]
)
def test_a_service_answers_where_it_says_200(status: Any, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(url: str, timeout: float) -> Any:
        if isinstance(status, Exception):
            raise status
        return contextlib.nullcontext(SimpleNamespace(status=status))

    monkeypatch.setattr(services, "direct", SimpleNamespace(open=opened))
    assert services.answers("http://x") is expected
    broken = SimpleNamespace(open=lambda *given, **more: (_ for _ in ()).throw(http.client.BadStatusLine("?")))
    monkeypatch.setattr(services, "direct", broken)
    assert not services.answers("http://x")


def test_all_names_of_this_machine_are_those_of_its_interfaces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def at(family: int, *addresses: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(family=family, address=address) for address in addresses]

    interfaces = {"lo": at(2, "127.0.0.1"), "eth0": [*at(2, "192.0.2.7", "192.0.2.8"), *at(10, "fe80::1")]}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: interfaces)
    monkeypatch.setattr(socket, "gethostname", lambda: "box")
    monkeypatch.setattr(socket, "getfqdn", lambda: "box.example.org")
    found = ["127.0.0.1", "192.0.2.7", "192.0.2.8", "box", "box.example.org", "localhost"]
    assert names_of("0.0.0.0") == found and names_of("192.0.2.7") == ["192.0.2.7"]


def test_a_process_lives_until_it_ends_and_a_zombie_does_not() -> None:
    def gone() -> str:
        raise psutil.NoSuchProcess(1)

    def process(running: bool, status: Any) -> Any:
        return SimpleNamespace(is_running=lambda: running, status=status)

    assert stack.is_alive(process(True, lambda: psutil.STATUS_SLEEPING))
    assert not stack.is_alive(process(True, lambda: psutil.STATUS_ZOMBIE))
    assert not stack.is_alive(process(False, lambda: psutil.STATUS_SLEEPING)), "its number belongs to another one"
    assert not stack.is_alive(process(True, gone))


def test_what_somebody_else_has_deleted_is_deleted(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(code: int) -> None:
        def ask(*words: Any) -> None:
            raise services._answered("http://x", code, "no")

        monkeypatch.setattr(orchestration, "ask", ask)
        orchestration._delete(layout, "/flow_runs/1")

    answered(404)
    with pytest.raises(Answered):
        answered(500)


def test_a_span_of_a_backfill_is_queued_once_for_the_same_values(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []

    def ask(layout: Layout, method: str, path: str, body: Any) -> dict[str, str]:
        keys.append(body["idempotency_key"])
        return {"id": "1"}

    monkeypatch.setattr(orchestration, "ask", ask)
    for name, parameters in (
        ("a", {"x": 1, "y": 2}),
        ("a", {"y": 2, "x": 1}),
        ("a", {"x": 1, "y": 3}),
        ("b", {"x": 1, "y": 2}),
    ):
        orchestration.queue(layout, "id", name, parameters, [])
    assert keys[0] == keys[1] and len(set(keys)) == 3


def test_old_runs_are_deleted_page_by_page_and_a_dry_run_deletes_none(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [{"id": str(n), "name": f"run {n}", "end_time": "2026-01-01T00:00:00"} for n in range(450)]
    deleted: list[str] = []

    def ask(layout: Layout, method: str, path: str, body: Any = None) -> Any:
        if method == "DELETE":
            deleted.append(path)
            there[:] = [run for run in there if not path.endswith(f"/flow_runs/{run['id']}")]
        if path == "/artifacts/filter":
            [number] = body["artifacts"]["flow_run_id"]["any_"]
            return [] if f"/artifacts/of-{number}" in deleted else [{"id": f"of-{number}"}]
        if path == "/flow_runs/filter":
            assert body["flow_runs"]["state"]["type"]["any_"] == ["COMPLETED", "FAILED", "CANCELLED", "CRASHED"]
            return there[body["offset"] :][: body["limit"]]
        return None

    monkeypatch.setattr(orchestration, "ask", ask)
    before = datetime(2026, 6, 1, tzinfo=UTC)
    assert len(orchestration.prune(layout, before, dry_run=True)) == 450 and not deleted
    names = orchestration.prune(layout, before, dry_run=False)
    assert len(names) == len(set(names)) == 450 and there == []
    assert deleted[:2] == ["/artifacts/of-0", "/flow_runs/0"], "its artifacts first, which Prefect would keep"


def test_a_worker_that_polled_long_ago_does_not_poll(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def polls(seconds: float) -> bool:
        at = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()
        monkeypatch.setattr(orchestration, "ask", lambda *words: [{"last_heartbeat_time": at}])
        return orchestration._worker_polls(layout)

    assert polls(5) and not polls(65)


def test_build_steps_are_those_of_a_deployment_or_else_of_all() -> None:
    of_all, own = [{"a": 1}, {"b": 2}], [{"c": 3}]
    deployments: list[dict[str, Any]] = [{"name": "x"}, {"name": "y", "build": own}, {"name": "z", "build": []}]
    assert list(deployed.build_steps({"build": of_all, "deployments": deployments})) == of_all + own
    assert list(deployed.build_steps({"deployments": deployments})) == own
    assert list(deployed.build_steps({"build": None, "deployments": [{"build": None}]})) == []
    assert list(deployed.build_steps({"build": of_all, "deployments": None})) == []


def test_deployments_are_known_by_all_that_makes_them(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    layout.project.mkdir(parents=True)
    step = {deployed.READ_PRESET: {"path": "preset.yaml"}}
    written = {"deployments": [{"name": "a", "build": [step]}]}
    (layout.project / "prefect.yaml").write_text(json.dumps(written))
    preset = layout.project / "preset.yaml"
    preset.write_text("name: a")
    served: list[dict[str, Any]] = [{"name": "a", "updated": "1", "paused": False}]
    monkeypatch.setattr(deployed, "ask", lambda *words: served)
    assert deployed.stale(layout, "c1")
    deployed.store(layout, "c1")
    served[0]["updated"] = "2"
    assert not deployed.stale(layout, "c1") and deployed.stale(layout, "c2")
    served[0]["paused"] = True
    assert not deployed.stale(layout, "c1"), "it is switched off, and stays so"
    served[0]["description"] = "by hand"
    assert deployed.stale(layout, "c1"), "somebody has changed it"
    del served[0]["description"]
    preset.write_text("name: b")
    assert deployed.stale(layout, "c1")
    preset.write_text("name: a")
    assert not deployed.stale(layout, "c1")
    written["deployments"][0]["build"] = [{"my.own.step": {}}]
    (layout.project / "prefect.yaml").write_text(json.dumps(written))
    deployed.store(layout, "c1")
    assert deployed.stale(layout, "c1"), "a step of the user's may give anything"


def test_a_changed_section_is_deployed_again_wherever_it_stands() -> None:
    folders = [deployed.folder_of(package) for package in deployed.CODE]
    files = [Path(str(sys.modules[section.__module__].__file__)) for section in subclasses(Section)]
    shipped = [file for file in files if file.is_relative_to(ROOT / "tasks")]
    assert len(shipped) > 100 and {"config", "sources", "compression", "evaluation"} <= {
        file.relative_to(ROOT / "tasks").parts[0] for file in shipped
    }
    assert [file for file in shipped if not any(file.is_relative_to(folder) for folder in folders)] == []


@pytest.mark.parametrize("form", [True, False])
def test_a_flow_validates_its_config_whether_it_has_a_form_or_not(form: bool) -> None:
    def body(config: Config) -> None: ...

    before = has_form.set(form)
    made: Any = Flow(as_run(body), name="body")
    has_form.reset(before)
    config = load(DIGITS)
    described = made.parameters.definitions
    assert ("Config" in described) is form
    if form:
        assert described["Config"]["properties"]["seed"]["description"].startswith("Decides the initial weights")
        assert all("description" in field for section in described.values() for field in section["properties"].values())
    for given in (config, config.model_dump(mode="json")):
        assert made.validate_parameters({"config": given}) == {"config": config}
    with pytest.raises(ParameterTypeError, match="seed"):
        made.validate_parameters({"config": {**config.model_dump(mode="json"), "seed": "x"}})


class Prefect:
    """The deployments of a server: `install` replaces them by those of prefect.yaml, as Prefect does."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.installed = 0

    def install(self, *states: bool, crons: tuple[str, ...] = ("0 2 * * *",)) -> None:
        self.installed += 1
        kinds = [
            {"id": f"s{number}", "schedule": {"cron": cron}, "active": on}
            for number, (cron, on) in enumerate(zip(crons, states, strict=True))
        ]
        self.rows = [{"id": "d", "flow_id": "f", "name": "digits", "paused": False, "schedules": kinds, "tags": []}]

    def ask(self, layout: Layout, method: str, path: str, body: Any = None) -> Any:
        [row] = self.rows or [{}]
        if path == "/flows/filter":
            return [{"id": "f", "name": "pipeline"}]
        if path == "/deployments/filter":
            return self.rows
        if path.startswith("/deployments/d/schedules/"):
            [schedule] = [each for each in row["schedules"] if path.endswith(f"/{each['id']}")]
            schedule["active"] = body["active"]
        else:
            row["paused"] = {"/deployments/d/pause_deployment": True, "/deployments/d/resume_deployment": False}[path]
        return None

    @property
    def states(self) -> list[bool]:
        [row] = self.rows
        return [not row["paused"], *(each["active"] for each in row["schedules"])]


@pytest.fixture
def prefect(monkeypatch: pytest.MonkeyPatch) -> Prefect:
    server = Prefect()
    monkeypatch.setattr(deployed, "ask", server.ask)
    return server


def test_installing_one_file_leaves_and_deletes_nothing_of_the_other(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deployment of prefect.yaml that was switched on, and two schedules of the home, of which one was removed."""
    of_file = {"id": "1", "flow_id": "f", "name": "digits", "paused": False, "schedules": [], "tags": ["digits"]}
    of_home = {**of_file, "id": "2", "name": "a-scheduled", "paused": True, "tags": [TAG]}
    left_over = {**of_home, "id": "3", "name": "b-scheduled"}
    at_work = [0, 1]
    asked: list[tuple[str, str]] = []

    def ask(layout: Layout, method: str, path: str, body: Any = None) -> Any:
        asked.append((method, path))
        if path == "/flow_runs/count":
            assert body["deployments"] == {"id": {"any_": ["3"]}}
            return at_work.pop(0)
        return [{"id": "f", "name": "pipeline"}] if path == "/flows/filter" else [of_file, of_home, left_over]

    monkeypatch.setattr(deployed, "ask", ask)
    write(layout.home, [Schedule("pipeline", "a-scheduled", "/a.yaml", {}, "0 4 * * *", "UTC", "run")])
    assert [name for name, *_ in deployed.switches(layout, Path("prefect.yaml"))] == ["pipeline/digits"]
    of_schedules = ["pipeline/a-scheduled", "pipeline/b-scheduled"]
    assert [name for name, *_ in deployed.switches(layout, Path(SCHEDULES))] == of_schedules
    assert deployed.delete_removed(layout)
    assert [path for method, path in asked if method == "DELETE"] == ["/deployments/3"]
    asked.clear()
    left_over["schedules"] = [{"id": "s"}]
    assert deployed.delete_removed(layout)
    deleted = [path for method, path in asked if method == "DELETE"]
    assert deleted == ["/deployments/3/schedules/s"], "a run is at work, which could not end without its deployment"


def test_what_was_switched_in_prefect_stays_when_deployments_are_installed_again(
    prefect: Prefect, layout: Layout
) -> None:
    """Unless prefect.yaml says something else by then."""

    def up(*states: bool, **options: Any) -> list[bool]:
        deployed.keeping(layout, Path("prefect.yaml"), lambda: prefect.install(*states, **options))
        return prefect.states

    assert up(False) == [True, False] == up(False), "what nobody has turned on is off"
    prefect.rows[0]["schedules"][0]["active"] = True
    assert up(False) == [True, True] == up(False)
    assert up(False, crons=("0 3 * * *",)) == [True, True], "at another time"
    assert up(True) == [True, True]
    prefect.rows[0]["schedules"][0]["active"] = False
    assert up(True) == [True, False]
    assert up(False) == [True, False] and up(True) == [True, True], "prefect.yaml says so now"
    prefect.rows[0]["paused"] = True
    assert up(True) == [False, True]
    prefect.rows[0]["paused"] = False
    assert up(True, False, crons=("0 2 * * *", "0 3 * * *")) == [True, True, False]
    prefect.rows[0]["schedules"].reverse()
    for each in prefect.rows[0]["schedules"]:
        each["active"] = not each["active"]
    assert up(True, False, crons=("0 2 * * *", "0 3 * * *")) == [True, False, True], "of several, each by its time"


def test_what_was_switched_stays_where_an_installation_breaks_off(prefect: Prefect, layout: Layout) -> None:
    deployed.keeping(layout, Path("prefect.yaml"), lambda: prefect.install(False))
    prefect.rows[0]["schedules"][0]["active"] = True

    def killed() -> None:
        prefect.install(False)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deployed.keeping(layout, Path("prefect.yaml"), killed)
    assert prefect.states == [True, False]
    deployed.keeping(layout, Path("prefect.yaml"), lambda: prefect.install(False))
    assert prefect.states == [True, True]


def test_a_schedule_that_is_off_plans_nothing_and_is_told_as_such(
    prefect: Prefect, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = [{"expected_start_time": "2026-11-30T02:00:00Z", "state": {"name": "Completed"}, "name": "digits"}]
    monkeypatch.setattr(
        orchestration, "ask", lambda layout, method, path, body=None: planned if path == "/flow_runs/filter" else None
    )
    prefect.install(False, True, crons=("0 2 * * *", "0 3 * * *"))
    [row] = orchestration.deployments(layout)
    assert (row["schedule"], row["off"], row["next"]) == ("0 3 * * *", "0 2 * * *", planned[0]["expected_start_time"])
    prefect.rows[0]["paused"] = True
    [row] = orchestration.deployments(layout)
    assert (row["schedule"], row["off"], row["next"]) == (None, "0 2 * * *, 0 3 * * *", None), "`up` waits for none"


@pytest.mark.parametrize("code", [404, 500])
def test_no_receiver_is_an_answer_and_an_error_is_none(
    code: int, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*words: Any) -> None:
        raise services._answered("http://x", code, "no")

    monkeypatch.setattr(automations, "ask", ask)
    if code == 404:
        assert automations._block(layout) is None
        monkeypatch.delenv("HOOK", raising=False)
        with pytest.raises(Missing):
            automations._receiver(layout, "env:HOOK")
    else:
        with pytest.raises(Answered):
            automations._block(layout)


def test_a_dead_run_is_marked_by_the_silence_after_its_heartbeat_and_not_after_its_end() -> None:
    dead = automations.dead_runs("receiver")
    assert [action["type"] for action in dead["actions"]] == ["change-flow-run-state", "send-notification"]
    assert [action["type"] for action in automations.dead_runs(None)["actions"]] == ["change-flow-run-state"]
    trigger = dead["trigger"]
    assert trigger["posture"] == "Proactive" and trigger["within"] == automations.SILENCE > 150
    assert trigger["after"] == [automations.HEARTBEAT]
    for each in (dead, automations.revived_runs(), automations.late_runs("receiver")):
        alone = (each["trigger"]["for_each"], each["trigger"]["match"])
        assert alone == (["prefect.resource.id"], {"prefect.resource.id": "prefect.flow-run.*"}), "each run by itself"
    assert set(trigger["expect"]) >= {automations.HEARTBEAT, automations.LEFT, "prefect.flow-run.Suspended"}


def home_with_runs(root: Path) -> Path:
    for name in (
        "runs/one/run.json",
        "runs/one/lock",
        "runs/.lock",
        "runs/two/x.partial",
        "mlartifacts/a",
        "store/model/x/f",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(str(root))
    for name in ("mlflow.db", "studies/s.db"):
        (root / name).parent.mkdir(exist_ok=True)
        with sqlite3.connect(root / name) as database:
            database.execute("CREATE TABLE t (path TEXT, number INT)")
            database.execute("INSERT INTO t VALUES (?, 5)", (f"file://{root}/mlartifacts/a",))
        database.close()
    (root / "audit.begun.json").write_text("{}")
    (root / "audit.jsonl").write_text("[]")
    return root


def test_a_backup_has_what_cannot_be_made_again_and_no_lock(tmp_path: Path) -> None:
    home = home_with_runs(tmp_path / "home")
    (home / "store/model/y").mkdir()
    (home / "store/model/y/f").write_text("not released")
    made = backup.back_up(home, tmp_path / "backups", ["model/x"], None)
    names = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert names == {
        "audit.begun.json",
        "audit.jsonl",
        "manifest.json",
        "mlartifacts/a",
        "mlflow.db",
        "runs/one/run.json",
        "store/model/x/f",
        "studies/s.db",
    }
    manifest = backup.verify(made)
    assert manifest["home"] == str(home)
    sums = {row["path"]: (row["bytes"], row["sha256"]) for row in manifest["files"]}
    contents = {name: (made / name).read_bytes() for name in names - {"manifest.json"}}
    assert sums == {name: (len(content), sha256(content).hexdigest()) for name, content in contents.items()}
    assert [each.name for each in (tmp_path / "backups").iterdir()] == [made.name], "no draft is left"
    for broken in ("mlartifacts/a", "mlflow.db"):
        content = (made / broken).read_bytes()
        (made / broken).write_bytes(content + b"x")
        with pytest.raises(Failed, match="its content has changed"):
            backup.verify(made)
        (made / broken).unlink()
        with pytest.raises(Failed, match="missing"):
            backup.restore(made, tmp_path / "other", None)
        (made / broken).write_bytes(content)
    assert not (tmp_path / "other").exists()


def test_a_restored_home_names_itself_in_all_texts(tmp_path: Path) -> None:
    home = home_with_runs(tmp_path / "a home")
    for name in ("one", "two"):
        (home / f"runs/{name}/a.json").write_text(f'["{home}/runs/{name}", "/else"]')
    made = backup.back_up(home, tmp_path / "backups", [], None)
    new = tmp_path / "new home"
    backup.check(made, new, None)
    backup.restore(made, new, None)
    there = {path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()}
    assert there == {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()} - {
        "manifest.json"
    }
    for name in ("one", "two"):
        assert (new / f"runs/{name}/a.json").read_text() == f'["{new}/runs/{name}", "/else"]'
    assert (new / "audit.jsonl").read_text() == "[]"
    with sqlite3.connect(new / "mlflow.db") as database:
        assert database.execute("SELECT path, number FROM t").fetchone() == (f"file://{new}/mlartifacts/a", 5)
    database.close()
    with pytest.raises(Refused, match="it is not empty"):
        backup.check(made, new, None)
    with pytest.raises(Refused, match="leave out --database-url"):
        backup.check(made, tmp_path / "third", "postgresql://host/name")
    moves = list(backup.spellings("/a home", "/b"))
    assert moves == [("/a home/", "/b/"), ("/a%20home/", "/b/")]


def test_a_home_without_a_run_and_a_registry_is_not_backed_up_unless_its_history_is_in_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumped: list[str] = []
    monkeypatch.setattr(backup.databases, "dump", lambda address, into: dumped.append(address) or into.touch())
    home, into = tmp_path / "home", tmp_path / "backups"
    for saw in ("no such folder", "it has neither runs nor a registry"):
        with pytest.raises(Refused) as refused:
            backup.back_up(home, into, [], None)
        assert refused.value.saw == saw and not into.exists()
        home.mkdir(exist_ok=True)
    made = backup.back_up(home, into, [], "postgresql://host/name")
    assert dumped == ["postgresql://host/name"] and (made / backup.DUMP).exists()
    for inside in (home, home / "a/b"):
        with pytest.raises(Refused, match="a folder in the home"):
            backup.back_up(home, inside, [], "postgresql://host/name")
    with pytest.raises(Refused, match="add --database-url"):
        backup.check(made, tmp_path / "new", None)
    backup.check(made, tmp_path / "new", "postgresql://host/name")


def test_a_manifest_that_names_a_file_elsewhere_restores_nothing(tmp_path: Path) -> None:
    made = backup.back_up(home_with_runs(tmp_path / "home"), tmp_path / "backups", [], None)
    for name in ("../outside", "/etc/passwd"):
        manifest = json.loads((made / "manifest.json").read_bytes())
        (made / "manifest.json").write_text(
            json.dumps({**manifest, "files": [{"path": name, "bytes": 0, "sha256": ""}]})
        )
        with pytest.raises(Failed, match="a file elsewhere"):
            backup.restore(made, tmp_path / "new", None)
        (made / "manifest.json").write_text(json.dumps(manifest))


def test_the_newest_backups_stay_and_the_last_with_a_registry(tmp_path: Path) -> None:
    for number, (home, registry) in enumerate([("a", True), ("a", True), ("b", True), ("a", False), ("a", False)]):
        folder = tmp_path / f"2026010{number}-000000"
        folder.mkdir()
        (folder / "manifest.json").write_text(json.dumps({"home": f"/{home}"}))
        if registry:
            (folder / "mlflow.db").touch()
    (tmp_path / ".20260109-000000.partial").mkdir()
    backup.rotate_out(Path("/a"), tmp_path, 1)
    assert sorted(path.name[:8] for path in backup.backups_in(tmp_path)) == ["20260101", "20260102", "20260104"]
    assert backup.find_backup(tmp_path).name == "20260104-000000"


def test_an_address_of_a_database_reaches_each_library_in_its_form() -> None:
    address = "postgresql://me:a%2Fb@host:5432/name?sslmode=require"
    assert databases.for_prefect(address).startswith("postgresql+asyncpg://me:a%2Fb@host:5432/name")
    assert databases.for_mlflow(address).endswith("?sslmode=require&options=-csearch_path%3Dmlflow")
    assert databases.for_mlflow("postgres://host/name") == "postgresql://host/name?options=-csearch_path%3Dmlflow"


def test_a_log_is_turned_over_beyond_its_size_and_so_many_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    for turn in range(5):
        log.write_text(f"{turn}" * 11)
        assert services.rotate_logs(tmp_path, most=10) == [log] and log.read_text() == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.log", "x.log.1", "x.log.2", "x.log.3"]
    assert [(tmp_path / f"x.log.{number}").read_text()[0] for number in (1, 2, 3)] == ["4", "3", "2"]
    log.write_text("1" * 10)
    assert services.rotate_logs(tmp_path, most=10) == []


def test_the_last_point_is_of_a_training_step_and_a_whole_line(tmp_path: Path) -> None:
    journal = tmp_path / "metrics.jsonl"
    assert last_of_training(journal) is None

    def line(step: int) -> str:
        return json.dumps({"step": step, "time": time.time(), "metrics": {"train/loss": step}})

    journal.write_text("\n".join([line(10), line(20), line(0)]) + "\n" + line(30))
    found = last_of_training(journal)
    assert found is not None and found.step == 20
    journal.write_text(line(0) + "\n")
    assert last_of_training(journal) is None


def test_only_trainings_that_are_running_and_fresh_are_shown(tmp_path: Path) -> None:
    for name, status, age in (("one", "running", 0), ("two", "running", 700), ("three", "completed", 0)):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(
            json.dumps({"run_id": name, "flow": "training", "name": "p", "status": status})
        )
        point = {"step": 5, "time": time.time() - age, "metrics": {"train/loss": 0.5}}
        (folder / "metrics.jsonl").write_text(json.dumps(point) + "\n")
    text = prefect_service.metrics_text(tmp_path).decode()
    assert (
        'millrace_training_step{preset="p",run="one"} 5.0' in text
        and 'run="two"' not in text
        and 'run="three"' not in text
    )
    assert 'millrace_runs{flow="training",preset="p",status="running"} 2.0' in text
    assert 'millrace_runs{flow="training",preset="p",status="completed"} 1.0' in text
    assert 'millrace_training_value{curve="train/loss",preset="p",run="one"} 0.5' in text
    free = next(line for line in text.splitlines() if line.startswith("millrace_disk_free_bytes "))
    assert float(free.split()[1]) > 0


def test_a_service_is_up_while_its_process_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = {"prefect": SimpleNamespace(memory=4096), "mlflow": SimpleNamespace(memory=0)}
    monkeypatch.setattr(
        prefect_service, "Stack", lambda home: SimpleNamespace(started=started, living=lambda: {"prefect"})
    )
    lines = prefect_service.metrics_text(tmp_path).decode().splitlines()
    assert [line for line in lines if line.startswith("millrace_service")] == [
        'millrace_service_up{service="prefect"} 1.0',
        'millrace_service_up{service="mlflow"} 0.0',
        'millrace_service_memory_bytes{service="prefect"} 4096.0',
        'millrace_service_memory_bytes{service="mlflow"} 0.0',
    ]


def test_a_home_on_a_network_file_system_and_a_full_disk_are_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert health.check_home(tmp_path / "not/yet").verdict == "ok"
    monkeypatch.setattr(health, "filesystem", lambda path: "nfs4")
    assert health.check_home(tmp_path).verdict == "fault"
    for free, verdict in ((health.MIN_DISK + 1, "ok"), (health.MIN_DISK, "fault")):
        monkeypatch.setattr(health.shutil, "disk_usage", lambda path, free=free: SimpleNamespace(free=free))  # type: ignore[attr-defined]
        assert health.disk(tmp_path).verdict == verdict
    for ahead, verdict in ((0.0, "ok"), (4.0, "ok"), (6.0, "fault"), (-6.0, "fault")):
        real = time.time
        monkeypatch.setattr(time, "time", lambda ahead=ahead, real=real: real() + ahead)
        assert health.clock(tmp_path).verdict == verdict
        monkeypatch.setattr(time, "time", real)
    assert list(tmp_path.iterdir()) == [], "the probe is removed"


def test_a_port_is_in_use_while_somebody_listens_there() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port_in_use("127.0.0.1", port) and port_in_use("0.0.0.0", port)
        assert holder(port).startswith(f"process {os.getpid()} ")
    assert not port_in_use("127.0.0.1", port) and holder(port) == "a process of another user"


def test_children_of_a_service_are_ended_before_it_and_who_ignores_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "GRACE", 0.5)
    child = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {child!r}]); p.wait()"
    started = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None and started.stdout.readline() == "ready\n"
    process = psutil.Process(started.pid)
    [inner] = process.children()
    Stack(tmp_path)._stop([process, None])
    assert not stack.is_alive(inner) and not stack.is_alive(process)
    started.wait(5)
    started.stdout.close()


SAVES = """
import json, os, pathlib, signal, sys, time
run = pathlib.Path(sys.argv[1])

def save(number, frame):
    content = {"status": sys.argv[2], "stops_by": time.time() + 60}
    (run / "new").write_text(json.dumps(content))
    os.replace(run / "new", run / "run.json")
    time.sleep(1.5)
    (run / "saved").touch()
    sys.exit()

signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(1)
"""


@pytest.mark.parametrize("status", ["running", "completed"])
def test_a_run_that_saves_its_state_is_waited_for_as_long_as_its_record_says(
    status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "GRACE", 0.3)
    run = tmp_path / "runs/one"
    run.mkdir(parents=True)
    for old in ("runs/two", "runs/three"):  # whose records are older than the signal, or no records
        (tmp_path / old).mkdir()
        (tmp_path / old / "run.json").write_text(
            '{"status": "running", "stops_by": 9e12}' if old == "runs/two" else "{"
        )
        os.utime(tmp_path / old / "run.json", (1, 1))
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SAVES!r}, {str(run)!r}, {status!r}])"
    started = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None and started.stdout.readline() == "ready\n"
    said: list[str] = []
    Stack(tmp_path)._stop([psutil.Process(started.pid)], said.append)
    started.wait(5)
    started.stdout.close()
    assert (run / "saved").exists() is (status == "running")
    assert [line.split(",")[0] for line in said] == ["a training saves its state"] * (status == "running")


def test_a_stack_is_kept_as_it_is_and_its_layout_is_not_changed_while_it_runs(tmp_path: Path) -> None:
    made = Stack(tmp_path)
    made.layout = Layout(tmp_path, tmp_path / "project", auth=True, alert="env:HOOK")
    me = psutil.Process()
    made.started["prefect"] = Started(me.pid, me.create_time())
    made._save()
    again = Stack(tmp_path)
    assert (again.mark, again.layout, again.started) == (made.mark, made.layout, made.started)
    made.started["mlflow"] = Started(me.pid, me.create_time() - 60)  # its number belongs to another process now
    made._save()
    again = Stack(tmp_path)
    assert list(again.living()) == ["prefect"] and list(again.started) == ["prefect", "mlflow"]
    assert (again.started["mlflow"].process, again.started["mlflow"].memory) == (None, 0)
    facts = {"prefect_url": made.layout.prefect_url, "mlflow_url": None, "pids": {"prefect": me.pid}}
    assert again.facts() == facts and Stack(tmp_path / "other").facts() == {**facts, "prefect_url": None, "pids": {}}
    with pytest.raises(Failed, match="a home has one stack"):
        again.up(replace(made.layout, prefect_port=4300), print)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--seed", "3"], ("pipeline", None)),
        (["a.yaml"], ("pipeline", "a.yaml")),
        (["release", "b.yml", "--seed", "3"], ("release", "b.yml")),
        (["dataset", "--seed", "3"], ("dataset", None)),
    ],
)
def test_a_command_line_names_a_flow_a_preset_or_both(words: list[str], expected: tuple[str, str | None]) -> None:
    flow, preset, flags = parse(words)
    assert (flow, None if preset is None else str(preset)) == expected
    assert flags == ([("seed", "3")] if "--seed" in words else [])
    for word, saw in (("trainning", "trainning"), (".", r"\."), ("", '""')):
        with pytest.raises(Refused, match=f"^{saw}: neither a flow nor a preset"):
            parse([word])
    for without in ([], ["training"]):
        with pytest.raises(Refused, match="PRESET: none given; a run has a preset, or all of its config as flags"):
            parse(without)


def test_spans_are_whole_in_the_past_and_not_more_than_are_taken() -> None:
    made = backfill.spans("2026-01-01", "2026-01-03T12:00", "12h")
    assert len(made) == 5 and made[0][0] == datetime(2026, 1, 1, tzinfo=UTC) and made[-1][1].hour == 12
    assert [each[1] for each in made[:-1]] == [each[0] for each in made[1:]]
    minutes = backfill.spans("2026-01-01T00:00", "2026-01-01T16:40", "1m")
    assert len(minutes) == backfill.MOST
    for words in (
        ("2026-01-01T00:00", "2026-01-01T16:41", "1m"),
        ("2026-01-02", "2026-01-01", "1d"),
        ("2026-01-01", "2026-01-01", "1d"),
    ):
        with pytest.raises(Refused, match="1 to 1000 whole spans"):
            backfill.spans(*words)
    with pytest.raises(Refused, match="a backfill is of the past"):
        backfill.spans("2026-01-01", "2999-01-01", "1d")
    assert backfill.moment("--since", "2026-01-01T02:00+02:00") == datetime(2026, 1, 1, tzinfo=UTC)
    for every in ("0d", "d", "1.5h", "-1d", "1w"):
        with pytest.raises(Refused, match="must be a number and m, h or d"):
            backfill.length_of(every)
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    assert [backfill.span_name(midnight + timedelta(hours=n)) for n in (0, 6)] == ["2026-01-01", "2026-01-01T06:00"]


def test_a_decision_has_a_reason_that_is_kept_whole() -> None:
    assert checked("x" * 1000) == "x" * 1000
    for reason in ("", "  \n"):
        with pytest.raises(Refused, match="needs a reason"):
            checked(reason)
    with pytest.raises(Refused, match="at most 1,000"):
        checked("x" * 1001)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (Refused("a", "b", "c", "d"), 2),
        (Failed("a", "b", "c", "d"), 1),
        (Stopped(15), Stopped(15).exit_code),
        (OSError(28, "No space left on device", "/x"), 1),
        (ValueError("a bug"), 1),
    ],
)
def test_a_command_ends_with_the_code_of_its_error_and_says_it_in_json(
    error: BaseException | None, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    with pytest.raises(typer.Exit) as ended, replying("x", True):
        if error is not None:
            raise error
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert ended.value.exit_code == code == answer["exit_code"] and answer["command"] == "x"
    assert (answer["error"] is None) is (error is None or isinstance(error, Stopped))
    assert STATUS[3] == "rejected" and Reply("x", False).seconds > 0


def test_a_time_is_shown_in_the_zone_that_is_asked_for() -> None:
    assert when("2026-07-01T12:00:00+00:00", "Europe/Berlin") == "Wed 2026-07-01 14:00 CEST"


def test_a_run_that_was_killed_is_ended_once_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    home, told = Home(tmp_path).make(), list[str]()
    monkeypatch.setattr("flows.running.notifications.notify", lambda run: told.append(run.run_id))
    ids = []
    for seed, prefect_id in ((1, "one"), (2, "two")):
        config = load(DIGITS, [("seed", str(seed))])
        with opened(home, "pipeline", config, new=True, prefect_id=prefect_id, waiting=print) as run:
            ids.append(run.folder)
    for _ in range(2):
        report_crash(None, SimpleNamespace(id="one", name="digits"), SimpleNamespace(message="gone"))  # type: ignore[arg-type]
    one, two = (Run(home, folder) for folder in ids)
    assert (one.record["status"], one.exit_code, two.record["status"]) == ("failed", 1, "running")
    assert told == [one.run_id] and one.record["error"]["saw"] == "gone"


def test_the_newest_answer_to_a_question_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export may be asked for twice, by a run that was rejected and goes on after a change."""

    def answer(created: str, decision: str, key: str = "suspended-response") -> Any:
        value = json.dumps({"decision": decision, "name": "Ada", "reason": created}).encode()
        return SimpleNamespace(key=key, created=created, value=value)

    inputs = [answer("2026-01-02", "reject"), answer("2026-01-10", "accept"), answer("2026-01-09", "reject")]
    inputs.append(answer("2026-02-01", "reject", "suspended-schema"))
    client = SimpleNamespace(filter_flow_run_input=lambda *given: inputs)
    monkeypatch.setattr(asking, "get_client", lambda **given: contextlib.nullcontext(client))
    found = asking.decisions_on("00000000-0000-0000-0000-000000000000")("export")
    assert found is not None and (found.accepted, found.reason) == (True, "2026-01-10")
    inputs[:] = inputs[-1:]
    assert asking.decisions_on("00000000-0000-0000-0000-000000000000")("export") is None


@pytest.mark.parametrize(("killed", "status"), [("first", "running"), ("second", "failed")])
def test_a_run_ends_with_its_newest_attempt(
    killed: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of an earlier flow run has ended, whatever is reported of it now."""
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    home = Home(tmp_path).make()
    for prefect_id in ("first", "second"):
        with opened(home, "pipeline", load(DIGITS, []), new=False, prefect_id=prefect_id, waiting=print) as run:
            folder = run.folder
    report_crash(None, SimpleNamespace(id=killed, name="digits"), SimpleNamespace(message="gone"))  # type: ignore[arg-type]
    run = Run(home, folder)
    assert [each["prefect_flow_run_id"] for each in run.record["attempts"]] == ["first", "second"]
    assert run.record["status"] == status


def test_preflight_refuses_settings_of_another_flow() -> None:
    config = load(DIGITS, [])
    with pytest.raises(Refused, match="the flow pipeline does not use it"):
        preflight.check_release("pipeline", "abc", Home(Path("/nowhere")))
    with pytest.raises(Refused, match="needs a model in the store"):
        preflight.check_release("release", None, Home(Path("/nowhere")))
    with pytest.raises(Refused, match="no such artifact"):
        preflight.check_release("release", "abc", Home(Path("/nowhere")))
    tuned = load(
        DIGITS, [("tune.space", "{train.learning_rate: {kind: float, low: 0.1, high: 1}}"), ("tune.trials", "2")]
    )
    with pytest.raises(Refused, match="the flow training does not use it"):
        preflight.check_tune("training", tuned)
    preflight.check_tune("tuning", tuned)
    for flow in ("dataset", "training", "pipeline", "release"):
        preflight.check_tune(flow, config)
        if flow != "release":
            preflight.check_release(flow, None, Home(Path("/nowhere")))
    with pytest.raises(Refused, match="needs to know what to search"):
        preflight.check_tune("tuning", config)
    assert (launching.flow_of(config), launching.flow_of(tuned)) == ("pipeline", "tuning")
    hosts = [
        ("train.cluster.hosts", "[203.0.113.7, 127.0.0.1]"),
        ("train.strategy", "{kind: multi_worker, workers: 2}"),
    ]
    with pytest.raises(Refused, match="the first host runs the flow, and this is another"):
        preflight.check_cluster(load(DIGITS, hosts))
    preflight.check_cluster(config)
    assert tuned.tune is not None
    for parallel, at_once in ((1, False), (2, True)):
        search = tuned.tune.model_copy(update={"parallel": parallel})
        preflight.check_tune("tuning", tuned.model_copy(update={"tune": search}))
        both = load(DIGITS, hosts).model_copy(update={"tune": search})
        with pytest.raises(Refused, match="train one model at a time") if at_once else contextlib.nullcontext():
            preflight.check_tune("tuning", both)


def test_a_champion_is_chosen_once_for_flows_that_train(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(DIGITS, [("train.init", "{kind: champion}")])
    asked: list[str] = []

    def model_of(home: Home, reference: str, field: str, otherwise: str) -> str:
        asked.append(reference)
        return "a" * 64

    monkeypatch.setattr(references, "model_of", model_of)
    home = Home(Path("/nowhere"))
    for flow in ("dataset", "release"):
        assert references.pinned(flow, home, config).train.init == config.train.init
    for flow in ("pipeline", "training", "tuning"):
        init = references.pinned(flow, home, config).train.init
        assert init is not None and init.artifact == "a" * 64
    assert asked == [f"{config.name}@champion"] * 3


def test_what_is_no_request_is_passed_on_and_a_header_is_found_by_any_spelling(tmp_path: Path) -> None:
    import asyncio

    passed: list[str] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    async def nothing(*message: Any) -> None:
        return None

    guard = Guard(inner, {"127.0.0.1:4200"}, tmp_path)
    for scope in ({"type": "lifespan"}, {"type": "http", "path": "/", "headers": [(b"Host", b"127.0.0.1:4200")]}):
        asyncio.run(guard(scope, nothing, nothing))
    assert passed == ["lifespan", "http"]


def test_a_lost_server_is_an_error_that_may_be_tried_again() -> None:
    assert issubclass(Lost, Failed) and not issubclass(Answered, Lost)
