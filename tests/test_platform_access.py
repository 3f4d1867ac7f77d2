"""A stack with a login, and one on PostgreSQL: real servers, a real database."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import stat
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from infra.access import USER, Access
from infra.services import call
from tests.support.homes import DIGITS, SMALL
from tests.support.stacks import Up

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stack(own_stack: Up) -> Up:
    return own_stack


def status_of(url: str, password: str | None = None) -> int:
    headers = {}
    if password is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_whom_others_can_reach_must_ask_who_they_are(stack: Up) -> None:
    refused = stack("up", "--host", "0.0.0.0")
    assert refused.code == 2 and "--auth" in refused.stderr
    refused = stack("up", "--database-url", "postgresql://me:T0PS3CRET@localhost/millrace", "--json")
    assert refused.code == 2 and "must be a reference" in refused.stderr
    assert "T0PS3CRET" not in refused.stdout + refused.stderr
    assert not (stack.root / "secrets").exists() and not (stack.root / "stack.json").exists()


def test_with_auth_only_who_knows_the_secret_comes_in_and_all_of_the_pipeline_does(stack: Up) -> None:
    answer = stack("up", "--auth", "--host", "0.0.0.0", "--json", timeout=400)
    assert answer.code == 0, answer.stderr
    prefect, mlflow = answer.json["prefect_url"], answer.json["mlflow_url"]
    secrets = {name: (stack.root / "secrets" / name).read_text() for name in ("prefect", "mlflow", "session")}
    assert stat.S_IMODE((stack.root / "secrets").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (stack.root / "secrets").iterdir()} == {0o600}
    for url, name in (
        (f"{prefect}/api/flows/count", "prefect"),
        (f"{prefect}/metrics", "prefect"),
        (f"{mlflow}/api/2.0/mlflow/experiments/get?experiment_id=0", "mlflow"),
    ):
        assert status_of(url) == status_of(url, "guess") == 401
        assert status_of(url, secrets[name]) in (200, 405)
    here = socket.gethostname()
    assert status_of(prefect.replace("127.0.0.1", here) + "/api/health") == 200
    assert call("GET", f"{prefect}/ui-settings")["api_url"] == "/api"  # below whichever name a browser came by
    from_elsewhere = mlflow.replace("127.0.0.1", here)
    login = {**Access.of(stack.root).headers("mlflow"), "Origin": from_elsewhere}
    assert call("POST", f"{from_elsewhere}/api/2.0/mlflow/experiments/search", {"max_results": 1}, login)
    run = stack("run", "dataset", DIGITS, "--json")
    assert run.code == 0, run.stderr
    assert run.json["mlflow_run_id"]
    answer_read = stack("status", "--json")
    assert answer_read.code == 0 and answer_read.json["deployments"]
    assert stack.wait_for(stack.start_deployment("dataset/digits"))["state"]["type"] == "COMPLETED"
    assert stack("down").code == 0
    for path in stack.root.rglob("*"):
        if path.is_file() and path.parent.name != "secrets":
            content = path.read_bytes()
            assert not [name for name, secret in secrets.items() if secret.encode() in content], path
    again = stack("up", "--no-auth", "--host", "127.0.0.1", "--json", timeout=400)
    assert again.code == 0, again.stderr
    assert status_of(f"{prefect}/api/health") == 200 and status_of(f"{prefect}/metrics") == 200
    assert stack("down").code == 0


def test_history_in_postgresql_is_whole_after_a_restart_a_backup_and_a_restore(
    stack: Up, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE", postgres)
    picture = tmp_path / "picture.png"
    Image.fromarray(np.full((8, 8), 90, np.uint8)).save(picture)
    home = Up(tmp_path / "home", given=stack.given)
    shutil.copytree(stack.root / "store", home.root / "store", copy_function=os.link)  # nothing is computed
    answer = home("up", "--database-url", "env:DATABASE", "--json", timeout=400)
    assert answer.code == 0, answer.stderr
    run = home("run", "pipeline", DIGITS, *SMALL, "--json")
    assert run.code == 0, run.stderr
    predicted = home("predict", "digits@champion", picture, "--json")
    assert predicted.code == 0, predicted.stderr
    assert home("down").code == 0
    assert not (home.root / "mlflow.db").exists() and not (home.root / "prefect" / "prefect.db").exists()
    refused = home("run", "dataset", DIGITS)
    assert refused.code == 1 and "millrace up" in refused.stderr
    home.up()
    assert home.ask(f"flow_runs/{run.json['prefect_flow_run_id']}")["state"]["type"] == "COMPLETED"
    made = home("backup", tmp_path / "backups", "--json")
    assert made.code == 0, made.stderr
    assert home("down").code == 0
    for path in home.root.rglob("*"):
        assert not path.is_file() or b"T0PS3CRET" not in path.read_bytes(), path

    address = postgres.replace("/postgres", "/second")
    make = "CREATE DATABASE second"
    import psycopg2

    connection = psycopg2.connect(postgres)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(make)
    connection.close()
    monkeypatch.setenv("SECOND", address)
    other = Up(tmp_path / "other", given=stack.given)
    back = other("restore", tmp_path / "backups", "--database-url", "env:SECOND", "--json")
    assert back.code == 0, back.stderr
    answer = other("up", "--database-url", "env:SECOND", "--json", timeout=400)
    assert answer.code == 0, answer.stderr
    try:
        assert other.ask(f"flow_runs/{run.json['prefect_flow_run_id']}")["state"]["type"] == "COMPLETED"
        page = f"{answer.json['mlflow_url']}/get-artifact?run_id={run.json['mlflow_run_id']}&path=page.html"
        with urllib.request.urlopen(page) as shown:
            assert b"<html" in shown.read()
        again = other("predict", "digits@champion", picture, "--json")
        assert again.json["predictions"] == predicted.json["predictions"]
    finally:
        other("down")
