"""Prefect's server with concurrent clients on SQLite: no request is refused or waits for long."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread

import psutil
import pytest
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings

from flows.session import start_server_early
from infra.embedded import EmbeddedServer
from infra.prefect_server import make_database
from tasks.environment.database_templates import copy_template, is_current, keep_template, template_of
from tasks.processes.fork_server import SHARED
from tasks.runs.home import Home
from tests.support.homes import DIGITS, MILLRACE, CommandHome, surroundings
from tests.support.load import Client, load
from tests.support.shared import shared_fork_servers


def may_leave_the_network() -> bool:
    """Whether a process without a loopback interface can be started here."""
    unshare = shutil.which("unshare")
    return unshare is not None and subprocess.run([unshare, "--net", "true"], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    folder = tmp_path_factory.mktemp("server")
    server = EmbeddedServer(folder / "prefect", folder / "log")
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def test_several_clients_at_a_time_are_all_answered(server: EmbeddedServer) -> None:
    answers = load(server.url, clients=6, seconds=1.5)
    assert len(answers) > 20
    assert [each for each in answers if not 200 <= each.status < 300] == []
    assert max(each.seconds for each in answers) < 20  # where the loop is blocked it is 60
    assert "database is locked" not in server.log.path.read_text()


def test_a_sigterm_to_all_processes_of_a_run_does_not_end_it(server: EmbeddedServer) -> None:
    """As Slurm and systemd send it: the flow has still to report how it ended."""
    server.process.terminate()
    status = dict(line.split(":	") for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines())
    assert int(status["ShdPnd"], 16) >> signal.SIGTERM - 1 & 1, "it waits to be taken, and nobody takes it"
    server.wait()
    started = time.monotonic()
    server.stop()
    assert server.process.returncode == 0 and time.monotonic() - started < 8, "killed after ten seconds"


def test_a_server_starts_early_only_where_it_will_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not beside another server, and not where there is no database yet."""
    home = Home(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert start_server_early(home) is None
    home.prefect.mkdir()
    home.prefect_file.touch()
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    assert start_server_early(home) is None
    monkeypatch.delenv("PREFECT_API_URL")
    server = start_server_early(home)
    assert server is not None
    server.stop()


def test_an_empty_database_is_copied_only_for_the_same_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with closing(sqlite3.connect(tmp_path / "made")) as made:
        made.execute("CREATE TABLE runs (id)")
    folder = tmp_path / "share" / "millrace"
    folder.mkdir(parents=True)
    for older in ("prefect.db", "prefect-0.0.1.db"):
        shutil.copy(tmp_path / "made", folder / older)
    assert not copy_template("prefect", tmp_path / "new")
    keep_template("prefect", tmp_path / "made")
    assert copy_template("prefect", tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "new")) as new:
        assert new.execute("SELECT name FROM sqlite_master").fetchall() == [("runs",)]


def test_one_process_at_a_time_creates_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second copy would replace the file that the first server has opened."""
    database, copies = tmp_path / "prefect.db", []
    both_copy = Barrier(2)

    def copy(package: str, path: Path) -> bool:
        with suppress(BrokenBarrierError):
            both_copy.wait(1)
        copies.append(path)
        path.touch()
        return True

    monkeypatch.setattr("infra.prefect_server.copy_template", copy)
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{database}"}):
        servers = [Thread(target=copy_context().run, args=(make_database, database)) for _ in range(2)]
        for server in servers:
            server.start()
        for server in servers:
            server.join()
    assert copies == [database]


def test_a_database_of_another_schema_is_not_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    home = tmp_path / "a home, 100 %?"
    home.mkdir()
    with closing(sqlite3.connect(home / "made")) as made, made:
        made.executescript("CREATE TABLE alembic_version (version_num); INSERT INTO alembic_version VALUES ('a')")
    assert not is_current("prefect", home / "made")
    assert not is_current("prefect", home / "missing")
    keep_template("prefect", home / "made")
    assert is_current("prefect", home / "made")
    assert is_current("prefect", home / "missing")  # it will be a copy
    with closing(sqlite3.connect(home / "made")) as made, made:
        made.execute("UPDATE alembic_version SET version_num = 'b'")
    assert not is_current("prefect", home / "made")


def test_a_database_that_cannot_be_copied_leaves_neither_a_template_nor_a_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    (tmp_path / "made").write_bytes(b"no database, " * 100)
    keep_template("prefect", tmp_path / "made")
    assert not template_of("prefect").exists() and list(template_of("prefect").parent.iterdir()) == []


@pytest.mark.slow
def test_the_database_that_the_settings_name_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although that of the home is current; a router that no run uses answers as well."""
    if not copy_template("prefect", tmp_path / "prefect/prefect.db"):
        first = EmbeddedServer(tmp_path / "prefect", tmp_path / "log")
        first.wait()
        first.stop()
    assert is_current("prefect", tmp_path / "prefect/prefect.db")
    other = tmp_path / "other.db"
    other.touch()
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", f"sqlite+aiosqlite:///{other}")
    server = EmbeddedServer(tmp_path / "prefect", tmp_path / "log")
    try:
        server.wait()
        ask = Client(server.url, answers := [])
        ask("POST", "flows/", {"name": "any"})
        ask("POST", "deployments/filter", {})
    finally:
        server.stop()
    assert [answer.status for answer in answers] == [201, 200]
    with closing(sqlite3.connect(other)) as migrated:
        assert migrated.execute("SELECT name FROM flow").fetchall() == [("any",)]


def test_a_run_starts_one_server_asks_no_proxy_for_it_and_leaves_none(prepared: Callable[[str], CommandHome]) -> None:
    proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
    given = {**proxies, "ALL_PROXY": "socks5://127.0.0.1:9", "PREFECT_CLIENT_MAX_RETRIES": "0"}
    given[SHARED] = shared_fork_servers()
    home = replace(prepared("home"), own_processes=True, given=given)
    run, servers = home.start("run", "dataset", DIGITS), set[psutil.Process]()
    while run.poll() is None:
        with suppress(psutil.Error):  # one that has just ended
            children = psutil.Process(run.pid).children()
            servers |= {child for child in children if "infra.embedded" in child.cmdline()}
        time.sleep(0.05)
    output = run.communicate()
    assert run.returncode == 0, output
    [server] = servers
    assert not server.is_running()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql+asyncpg://127.0.0.1:9/db", "ConnectionRefusedError: [Errno 111] Connect call failed"),
        ("nonsense", "ArgumentError: Could not parse SQLAlchemy URL"),
    ],
)
def test_a_server_that_does_not_start_is_quoted_and_no_earlier_one(
    url: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text("OtherError: of an earlier run\n")
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", url)
    server = EmbeddedServer(tmp_path / "prefect", tmp_path / "log")
    with pytest.raises(TimeoutError, match=r"^its process ended; it wrote: ") as late:
        server.wait()
    assert says in str(late.value)
    assert (tmp_path / "log").read_text().startswith("OtherError: of an earlier run\n")


@pytest.mark.skipif(not may_leave_the_network(), reason="this machine does not allow unshare --net")
def test_without_loopback_the_cause_is_said_at_once(tmp_path: Path) -> None:
    started = time.monotonic()
    done = subprocess.run(
        ["unshare", "--net", MILLRACE, "run", "dataset", DIGITS],
        env={**surroundings(), "MILLRACE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "error: 127.0.0.1: Network is unreachable; Prefect's server needs the loopback interface" in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - started < 30
