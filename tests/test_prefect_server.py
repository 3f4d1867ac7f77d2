"""Prefect's server with concurrent clients on SQLite: no request is refused or waits for long."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from flows.session import start_server_early
from infra.embedded import EmbeddedServer
from tasks.environment.database_templates import copy_template, keep_template
from tasks.runs.home import Home
from tests.load import load


def test_several_clients_at_a_time_are_all_answered(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "prefect", tmp_path / "log")
    try:
        server.wait()
        answers = load(server.url, clients=6, seconds=8)
    finally:
        server.stop()
    assert len(answers) > 20
    assert [each for each in answers if not 200 <= each.status < 300] == []
    assert max(each.seconds for each in answers) < 20  # where the loop is blocked it is 60
    assert "database is locked" not in (tmp_path / "log").read_text()


def test_a_server_starts_early_only_where_it_will_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not beside another server, and not where a database is still to be created under a lock."""
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
