"""A stack with a login on PostgreSQL, and its restored copy without: real servers, a real database."""

from __future__ import annotations

import base64
import shutil
import socket
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import pytest
from PIL import Image

from infra.access import USER, Access
from infra.services import call
from tests.support.documents import followed
from tests.support.homes import DIGITS, SMALL
from tests.support.stacks import Up

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stack(own_stack: Up) -> Up:
    """Its history begins in PostgreSQL; nothing of the store is computed again."""
    for path in (own_stack.root / "mlflow.db", own_stack.root / "prefect", own_stack.root / "mlartifacts"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
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


@pytest.fixture(scope="module")
def followed_page(stack: Up, postgres: str) -> Iterator[dict[str, Any]]:
    """The stack after the how-to of this; what `up` says then, and what `prefect deployment ls` printed."""
    up = "millrace up --database-url env:MILLRACE_DATABASE"
    instead = {
        "postgresql://millrace:password@db.example.org/millrace": postgres,
        up: f"{up} --auth --host 0.0.0.0",  # at once, not one after another with `down` in between
        "//HOST:": "//127.0.0.1:",
        "cat prefect": f"cat {stack.root}/secrets/prefect",
        "cat mlflow": f"cat {stack.root}/secrets/mlflow",
    }
    printed = followed(stack, "how-to-postgresql", instead)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MILLRACE_DATABASE", postgres)
        yield {**stack.up(), "printed": printed}


@pytest.fixture(scope="module")
def released(stack: Up, followed_page: dict[str, Any]) -> dict[str, Any]:
    """What a whole pipeline said there."""
    run = stack("run", "pipeline", DIGITS, *SMALL, "--json")
    assert run.code == 0, run.stderr
    return run.json


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("picture") / "picture.png"
    Image.fromarray(np.full((8, 8), 90, np.uint8)).save(path)
    return path


def test_the_page_on_postgresql_and_logins_works_as_it_stands(followed_page: dict[str, Any]) -> None:
    assert "pipeline/digits" in followed_page["printed"]


def test_only_who_knows_the_secret_comes_in(stack: Up, followed_page: dict[str, Any]) -> None:
    prefect, mlflow = followed_page["prefect_url"], followed_page["mlflow_url"]
    secrets = {name: (stack.root / "secrets" / name).read_text() for name in ("prefect", "mlflow")}
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


def test_all_of_the_pipeline_comes_in(stack: Up, released: dict[str, Any]) -> None:
    assert released["mlflow_run_id"]
    status = stack("status", "--json")
    assert status.code == 0 and status.json["deployments"]
    assert stack.wait_for(stack.start_deployment("dataset/digits"))["state"]["type"] == "COMPLETED"


def test_history_in_postgresql_is_whole_after_a_backup_and_a_restore(
    stack: Up, released: dict[str, Any], picture: Path, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predicted = stack("predict", "digits@champion", picture, "--json")
    assert predicted.code == 0, predicted.stderr
    made = stack("backup", tmp_path / "backups", "--json")
    assert made.code == 0, made.stderr
    assert stack("down").code == 0
    assert not (stack.root / "mlflow.db").exists() and not (stack.root / "prefect" / "prefect.db").exists()
    refused = stack("run", "dataset", DIGITS)
    assert refused.code == 1 and "millrace up" in refused.stderr
    secrets = [path.read_bytes() for path in (stack.root / "secrets").iterdir()]
    for path in (*stack.root.rglob("*"), *(tmp_path / "backups").rglob("*")):
        if path.is_file() and path.parent.name != "secrets":
            content = path.read_bytes()
            assert not [secret for secret in (*secrets, b"T0PS3CRET") if secret in content], path

    connection = psycopg2.connect(postgres)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE second")
    connection.close()
    monkeypatch.setenv("SECOND", postgres.replace("/postgres", "/second"))
    other = Up(tmp_path / "other", given=stack.given)
    back = other("restore", tmp_path / "backups", "--database-url", "env:SECOND", "--json")
    assert back.code == 0, back.stderr
    answer = other("up", "--database-url", "env:SECOND", "--json", timeout=400)
    assert answer.code == 0, answer.stderr
    try:
        assert status_of(f"{answer.json['prefect_url']}/metrics") == 200, "without a login everybody comes in"
        assert other.ask(f"flow_runs/{released['prefect_flow_run_id']}")["state"]["type"] == "COMPLETED"
        page = f"{answer.json['mlflow_url']}/get-artifact?run_id={released['mlflow_run_id']}&path=page.html"
        with urllib.request.urlopen(page) as shown:
            assert b"<html" in shown.read()
        again = other("predict", "digits@champion", picture, "--json")
        assert again.json["predictions"] == predicted.json["predictions"]
    finally:
        other("down")
