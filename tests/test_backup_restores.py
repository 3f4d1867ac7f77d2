"""A backup is complete or absent, verified, and restores a working home at another path."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from flows import maintenance
from infra import backup, prefect_service, services
from infra.backup import DATABASES, back_up, find_backup, restore, rewrite_database, rotate_out, spellings
from tasks.errors import Failed
from tasks.runs.home import Home
from tasks.store.journal import last_of_training
from tests.support.homes import CommandHome
from tests.support.servers import Server
from tests.support.stacks import free_ports


@pytest.fixture(scope="module")
def backed_up(finished: CommandHome, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backups")
    answer = finished.here("backup", folder, "--json")
    assert answer.code == 0, answer.stderr
    return Path(answer.json["backup"])


def test_a_restored_home_at_another_path_has_registry_releases_and_history(
    finished: CommandHome, backed_up: Path, tmp_path: Path
) -> None:
    home = CommandHome(tmp_path / "else where")
    answer = home.here("restore", backed_up.parent, "--json")
    assert answer.code == 0, answer.stderr
    assert not [path for path in home.root.rglob("*.db") if str(finished.root).encode() in path.read_bytes()]
    client = MlflowClient(f"sqlite:///{home.root / 'mlflow.db'}")
    run = home.newest_run()
    [page] = [item for item in client.list_artifacts(run["mlflow_run_id"]) if item.path == "page.html"]
    fetched = client.download_artifacts(run["mlflow_run_id"], page.path, str(tmp_path))
    assert "<html" in Path(fetched).read_text()
    assert home.artifacts() == finished.artifacts()
    assert home.here("verify", "--all").code == 0
    shown = home.here("show", run["run_id"], "--json")
    assert shown.code == 0 and str(finished.root) not in shown.stdout


@pytest.mark.slow
def test_the_server_of_a_restored_home_gives_out_what_runs_and_releases_left(backed_up: Path, tmp_path: Path) -> None:
    home = CommandHome(tmp_path / "home")
    assert home.here("restore", backed_up).code == 0
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
    answer = home.here("restore", copy)
    assert answer.code == 1 and f"{victim}: its content has changed" in answer.stderr
    assert not home.root.exists()
    whole = (copy / "manifest.json").read_text()
    (copy / "manifest.json").write_text(whole.replace('"path": "', '"path": "../', 1))
    answer = home.here("restore", copy)
    assert answer.code == 1 and "a file elsewhere; the files of a backup are in its folder" in answer.stderr
    (copy / "manifest.json").write_text(whole[:-9])
    answer = home.here("restore", copy)
    assert answer.code == 1 and f"{copy}/manifest.json: not JSON; a backup has a valid manifest" in answer.stderr
    assert not home.root.exists()
    home.root.mkdir()
    (home.root / "mine").touch()
    answer = home.here("restore", backed_up)
    assert answer.code == 2 and "it is not empty" in answer.stderr
    answer = CommandHome(tmp_path / "third").here("restore", tmp_path / "nowhere")
    assert answer.code == 2 and "no backup" in answer.stderr
    answer = CommandHome(tmp_path / "third").here("restore", backed_up, "--database-url", "postgresql://127.0.0.1:9/db")
    assert answer.code == 2 and "its history is in SQLite files" in answer.stderr
    assert not (tmp_path / "third").exists()


def test_only_what_the_manifest_names_is_restored(backed_up: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(backed_up, tmp_path / backed_up.name))
    (copy / "runs/planted.json").write_text("{}")
    restore(copy, tmp_path / "home", None)
    assert not (tmp_path / "home/runs/planted.json").exists()
    rows = json.loads((copy / "manifest.json").read_text())["files"]
    names = {row["path"] for row in rows} - DATABASES.keys()
    there = {
        path.relative_to(tmp_path / "home").as_posix() for path in (tmp_path / "home").rglob("*") if path.is_file()
    }
    assert there == names | {path for name, path in DATABASES.items() if (copy / name).exists()}


def test_a_backup_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, real, synced = tmp_path / "home", os.fsync, set[Path]()
    (home / "runs/one").mkdir(parents=True)
    (home / "runs/one/run.json").write_text("{}")

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    made = back_up(home, tmp_path / "backups", [], None)
    draft = made.with_name(f".{made.name}.partial")
    paths = {"", "manifest.json", "runs", "runs/one", "runs/one/run.json"}
    assert {draft / path for path in paths} | {made.parent} <= synced


def backup_of(home: Path, at: Path, *, registry: bool = True) -> str:
    """An earlier backup of a home; its name."""
    at.mkdir(parents=True)
    (at / "manifest.json").write_text(json.dumps({"home": str(home), "files": []}))
    if registry:
        (at / "mlflow.db").touch()
    return at.name


def test_the_newest_backups_of_this_home_stay_and_all_of_others(finished: CommandHome, tmp_path: Path) -> None:
    backup_of(finished.root, tmp_path / "20200101-000000")
    second = backup_of(finished.root, tmp_path / "20210101-000000")
    others = [backup_of(tmp_path / "other", tmp_path / f"20220101-00000{n}") for n in range(3)]
    (tmp_path / "20230101-000000").mkdir()
    (tmp_path / "20230101-000000" / "manifest.json").write_text("torn")
    answer = finished.here("backup", tmp_path, "--keep", "2", "--json")
    made = Path(answer.json["backup"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [second, *others, "20230101-000000", made.name]
    assert find_backup(tmp_path) == made


def test_the_last_backup_with_a_registry_stays(tmp_path: Path) -> None:
    older, newer = (backup_of(tmp_path / "home", tmp_path / f"2020010{n}-000000") for n in (1, 2))
    without = [backup_of(tmp_path / "home", tmp_path / f"2021010{n}-000000", registry=False) for n in (1, 2, 3)]
    rotate_out(tmp_path / "home", tmp_path, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [newer, without[-1]]
    assert not (tmp_path / older).exists()


def test_a_backup_that_the_disk_has_damaged_is_named_and_takes_no_older_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, real = tmp_path / "home", backup.back_up
    (home / "runs/one").mkdir(parents=True)
    (home / "runs/one/run.json").write_text("{}")
    older = [backup_of(home, tmp_path / "backups" / name) for name in ("20200101-000000", "20210101-000000")]

    def damaged(*given: Any) -> Path:
        made = real(*given)
        (made / "runs/one/run.json").write_text("[]")
        return made

    monkeypatch.setattr(backup, "back_up", damaged)
    with pytest.raises(Failed, match=r"run\.json: its content has changed"):
        maintenance.back_up(Home(home), tmp_path / "backups", 1)
    assert {path.name for path in (tmp_path / "backups").iterdir()} > set(older)


def test_a_missing_home_is_not_backed_up_and_deletes_nothing(finished: CommandHome, tmp_path: Path) -> None:
    good = backup_of(finished.root, tmp_path / "20200101-000000")
    empty = tmp_path / "empty"
    (empty / "runs").mkdir(parents=True)
    for home, says in ((tmp_path / "typo", "no such folder"), (empty, "it has neither runs nor a registry")):
        answer = CommandHome(home).here("backup", tmp_path, "--keep", "1")
        assert answer.code == 2, answer.stderr
        assert f"{home}: {says}; there must be something to back up; correct MILLRACE_HOME" in answer.stderr
    assert not (tmp_path / "typo").exists()
    assert (tmp_path / good).is_dir()


def test_a_backup_into_the_home_itself_is_refused(finished: CommandHome, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(finished.root)
    for folder in (finished.root, finished.root / "runs/backups", tmp_path / "link" / "b"):
        answer = finished.here("backup", folder)
        assert answer.code == 2, answer.stderr
        assert "a folder in the home" in answer.stderr
    assert not (finished.root / "runs/backups").exists()


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
            assert services.rotate_logs(tmp_path, most=50) == [log]
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlflow.log", *(f"mlflow.log.{n}" for n in (1, 2, 3))]
    assert (tmp_path / "mlflow.log.1").read_bytes() == b"4" * 100


def test_prometheus_metrics_have_runs_and_the_last_point(finished: CommandHome, tmp_path: Path) -> None:
    exposed = prefect_service.metrics_text(finished.root).decode()
    assert 'millrace_runs{flow="pipeline",preset="digits",status="completed"} 1.0' in exposed
    assert "millrace_disk_free_bytes" in exposed
    [journal] = finished.root.glob("runs/*/metrics.jsonl")
    last = last_of_training(journal)
    assert last is not None and last.step == 60
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(journal.read_bytes() + b'{"step": 70, "ti')
    assert last_of_training(torn) == last
