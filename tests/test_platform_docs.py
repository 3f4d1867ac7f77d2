"""The platform's how-tos: every command is run on a real stack."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from infra.services import answers
from tests.support.documents import blocks
from tests.support.homes import DIGITS, MILLRACE, ROOT, SMALL, surroundings
from tests.support.stacks import Up, free_ports, wait

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stack(own_stack: Up) -> Up:
    return own_stack


Follow = Callable[..., str]


@pytest.fixture
def follow(stack: Up, tmp_path: Path) -> Follow:
    """`follow(page, instead, **variables)`: a page's shell blocks as one script, with other words `instead` of some."""

    def following(page: str, instead: Mapping[str, str] | None = None, **variables: str) -> str:
        usual = {
            ":4200": f":{stack.given['PREFECT_SERVER_API_PORT']}",
            ":5000": f":{stack.given['MLFLOW_PORT']}",
            ".millrace/": f"{stack.root}/",
            "$PWD/.millrace": str(stack.root),
        }
        lines = [
            f"{line} || test $? = 3" if "# exit code 3" in line else line
            for block in blocks(f"docs/{page}.md")
            for line in block.splitlines()
            if not line.startswith("mlflow ui")
        ]
        script = "\n".join(lines)
        for old, new in {**usual, **(instead or {})}.items():
            script = script.replace(old, new)
        environment = {
            **surroundings(),
            **stack.given,
            "PATH": f"{MILLRACE.parent}:{os.environ['PATH']}",
            "MILLRACE_HOME": str(stack.root),
            "COLUMNS": "200",
            **variables,
        }
        words = ["bash", "-e", "-x", "-c", script.replace("# exit code 3 ||", "||")]
        completed = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert completed.returncode == 0, f"{completed.stdout}\n{completed.stderr}"
        assert "Traceback" not in completed.stderr
        return completed.stdout

    return following


@pytest.fixture(scope="module")
def runs(stack: Up) -> tuple[str, str]:
    """Two finished runs, the first of which has a champion."""
    first = stack("run", "pipeline", DIGITS, *SMALL, "--json")
    second = stack("run", "training", DIGITS, *SMALL, "--seed", "3", "--json")
    assert first.code == second.code == 0, first.stderr + second.stderr
    return first.json["run_id"], second.json["run_id"]


def test_run_by_hand(running: object, follow: Follow) -> None:
    output = follow("how-to-run")
    assert "dataset completed" in output and "Completed" in output


def test_review(running: object, runs: tuple[str, str], stack: Up, follow: Follow, tmp_path: Path) -> None:
    page = tmp_path / "comparison.html"
    output = follow("how-to-review", {"comparison.html": str(page)}, RUN_A=runs[0], RUN_B=runs[1])
    assert "seed" in output and "<html" in page.read_text()
    [line] = [line for block in blocks("docs/how-to-review.md") for line in block.splitlines() if "mlflow ui" in line]
    port = free_ports()[0]
    script = line.replace("5001", port).replace("$PWD/.millrace", str(stack.root))
    words = ["bash", "-c", f'PATH="{MILLRACE.parent}:$PATH" {script}']
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait(lambda: answers(f"http://127.0.0.1:{port}/health"))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_approve_and_roll_back(running: object, runs: tuple[str, str], follow: Follow, tmp_path: Path) -> None:
    flags = " ".join(["--promote.approval required --promote.margin -1 --seed 5", *SMALL])
    asked = "--seed 2 --promote.margin -0.05 --promote.approval required"
    output = follow("how-to-approve", {asked: flags, "asked.json": str(tmp_path / "asked.json")})
    assert "confusion of 3 and 8 is gone" in output
    assert "digits@champion: version 2 → version 1" in output


def test_back_up_and_make_room(running: object, runs: tuple[str, str], follow: Follow, tmp_path: Path) -> None:
    follow("how-to-backup", BACKUPS=str(tmp_path / "backups"), ELSEWHERE=str(tmp_path / "home"))
    assert (tmp_path / "home" / "mlflow.db").exists()


def test_get_through_an_outage(stack: Up, running: dict[str, dict[str, int]], follow: Follow) -> None:
    os.kill(running["pids"]["worker"], signal.SIGKILL)
    output = follow("how-to-outage")
    assert re.search(r"^started .*\bworker\b", output, re.M), output  # beside a server that was too busy to answer


def test_schedule_and_watch(stack: Up, running: object, follow: Follow) -> None:
    output = follow("how-to-schedule")
    assert "backup/nightly" in output and not stack("status", "--json").json["services"]


def test_postgresql_and_logins(stack: Up, postgres: str, follow: Follow, tmp_path: Path) -> None:
    instead = {
        "postgresql://millrace:password@db.example.org/millrace": postgres,
        "//HOST:": "//127.0.0.1:",
        "cat prefect": f"cat {stack.root}/secrets/prefect",
        "cat mlflow": f"cat {stack.root}/secrets/mlflow",
        "millrace up --auth": "millrace down; millrace up --auth",
    }
    assert "pipeline/digits" in follow("how-to-postgresql", instead, MILLRACE_WEBHOOK="http://127.0.0.1:9/")
