"""A backup is complete or absent, verified, and restores a working home at another path."""

from __future__ import annotations

import json
import shutil
import sqlite3
import urllib.request
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from infra import logs, metrics
from infra.backup import find_backup, rewrite_database, spellings
from tests.homes import CommandHome
from tests.stacks import free_ports
from tests.test_tracking_outages import Server


@pytest.fixture(scope="module")
def backed_up(finished: CommandHome, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backups")
    answer = finished("backup", folder, "--json")
    assert answer.code == 0, answer.stderr
    return Path(answer.json["backup"])


def test_a_restored_home_at_another_path_has_registry_releases_and_history(
    finished: CommandHome, backed_up: Path, tmp_path: Path
) -> None:
    home = CommandHome(tmp_path / "else where")
    answer = home("restore", backed_up.parent, "--json")
    assert answer.code == 0, answer.stderr
    assert not [path for path in home.root.rglob("*.db") if str(finished.root).encode() in path.read_bytes()]
    client = MlflowClient(f"sqlite:///{home.root / 'mlflow.db'}")
    run = home.newest_run()
    [page] = [item for item in client.list_artifacts(run["mlflow_run_id"]) if item.path == "page.html"]
    fetched = client.download_artifacts(run["mlflow_run_id"], page.path, str(tmp_path))
    assert "<html" in Path(fetched).read_text()
    assert home.artifacts() == finished.artifacts()
    assert home("verify", "--all").code == 0
    shown = home("show", run["run_id"], "--json")
    assert shown.code == 0 and str(finished.root) not in shown.stdout


@pytest.mark.slow
def test_the_server_of_a_restored_home_gives_out_what_runs_and_releases_left(backed_up: Path, tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    assert home("restore", backed_up).code == 0
    server = Server(home.root, int(free_ports()[0]))
    try:
        for asked, expected in (
            (f"get-artifact?run_id={home.newest_run()['mlflow_run_id']}&path=page.html", b"<html"),
            ("model-versions/get-artifact?name=digits&version=1&path=MLmodel", b"python_function"),
        ):
            with urllib.request.urlopen(f"{server.url}/{asked}") as shown:
                assert expected in shown.read()
    finally:
        server.stop()


def test_a_damaged_backup_and_a_home_that_holds_something_are_refused(backed_up: Path, tmp_path: Path) -> None:
    copy = tmp_path / backed_up.name
    shutil.copytree(backed_up, copy)
    [victim] = copy.glob("runs/*/run.json")
    victim.write_bytes(victim.read_bytes().replace(b"completed", b"completeD"))
    home = CommandHome(tmp_path / "home")
    answer = home("restore", copy)
    assert answer.code == 1 and f"{victim}: its content has changed" in answer.stderr
    assert not home.root.exists()
    (copy / "manifest.json").write_bytes((copy / "manifest.json").read_bytes()[:-9])
    answer = home("restore", copy)
    assert answer.code == 1 and f"{copy}/manifest.json: not JSON; a backup has a valid manifest" in answer.stderr
    assert not home.root.exists()
    home.root.mkdir()
    (home.root / "mine").touch()
    answer = home("restore", backed_up)
    assert answer.code == 2 and "it is not empty" in answer.stderr
    answer = CommandHome(tmp_path / "third")("restore", tmp_path / "nowhere")
    assert answer.code == 2 and "no backup" in answer.stderr
    answer = CommandHome(tmp_path / "third")("restore", backed_up, "--database-url", "postgresql://127.0.0.1:9/db")
    assert answer.code == 2 and "its history is in SQLite files" in answer.stderr
    assert not (tmp_path / "third").exists()


def test_the_newest_backups_stay(finished: CommandHome, tmp_path: Path) -> None:
    for stamp in ("20200101-000000", "20210101-000000"):
        (tmp_path / stamp).mkdir()
        (tmp_path / stamp / "manifest.json").write_text(json.dumps({"files": []}))
    answer = finished("backup", tmp_path, "--keep", "2", "--json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20210101-000000", Path(answer.json["backup"]).name]
    assert find_backup(tmp_path) == Path(answer.json["backup"])


def test_only_whole_folder_names_are_rewritten(tmp_path: Path) -> None:
    file = tmp_path / "db"
    rows = ["/old/home/mlartifacts/1", "/old/home2/x", "file:///old/home/a b", '{"at": "/old/home/y"}']
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE things (place TEXT, number INTEGER)")
        connection.executemany("INSERT INTO things VALUES (?, 1)", [(row,) for row in rows])
    connection.close()
    rewrite_database(file, list(spellings("/old/home", "/new place")))
    with sqlite3.connect(file) as connection:
        places = [place for (place,) in connection.execute("SELECT place FROM things")]
    connection.close()
    assert places == ["/new place/mlartifacts/1", "/old/home2/x", "file:///new place/a b", '{"at": "/new place/y"}']


def test_a_long_log_is_turned_over_under_its_writer(tmp_path: Path) -> None:
    log = tmp_path / "mlflow.log"
    with open(log, "ab", buffering=0) as writer:
        for turn in range(5):
            writer.write(b"%d" % turn * 100)
            assert logs.rotate(tmp_path, most=50) == [log]
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlflow.log", *(f"mlflow.log.{n}" for n in (1, 2, 3))]
    assert (tmp_path / "mlflow.log.1").read_bytes() == b"4" * 100


def test_prometheus_metrics_have_runs_and_the_last_point(finished: CommandHome, tmp_path: Path) -> None:
    exposed = metrics.text(finished.root).decode()
    assert 'millrace_runs{flow="pipeline",preset="digits",status="completed"} 1.0' in exposed
    assert "millrace_disk_free_bytes" in exposed
    [journal] = finished.root.glob("runs/*/metrics.jsonl")
    last = metrics.last_point(journal)
    assert last is not None and last["step"] == 60
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(journal.read_bytes() + b'{"step": 70, "ti')
    assert metrics.last_point(torn) == last
