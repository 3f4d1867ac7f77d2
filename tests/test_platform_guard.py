"""The check in front of Prefect's server, and what the batch script of Slurm does after the end of a training."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.prefect_service import Guard
from tests.support.homes import ROOT

OURS, FOREIGN = "127.0.0.1:4200", "example.com"


def answered(guard: Guard, kind: str = "http", path: str = "/api/flows", **headers: str) -> tuple[bool, Any]:
    """Whether a request was passed on, and the status or the close code that it got otherwise."""
    sent: list[dict[str, Any]] = []
    named = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> None:
        return None

    asyncio.run(guard({"type": kind, "path": path, "headers": named}, receive, send))
    return {"type": "passed"} in sent, next(
        (m.get("status") or m.get("code") for m in sent if m["type"] != "passed"), 0
    )


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "passed"})

    return Guard(inner, {OURS, "localhost:4200"}, tmp_path)


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"host": OURS}, True),
        ({"host": OURS, "origin": f"http://{OURS}"}, True),
        ({"host": OURS, "origin": "http://localhost:4200"}, True),
        ({"host": FOREIGN}, False),
        ({"host": FOREIGN, "origin": f"http://{OURS}"}, False),
        ({"host": OURS, "origin": f"http://{FOREIGN}"}, False),
        ({"host": OURS, "origin": "null"}, False),
        ({"host": OURS, "origin": "http://127.0.0.1:4201"}, False),
        ({"host": "127.0.0.1"}, False),
        ({}, False),
    ],
)
def test_only_our_own_hosts_and_pages_are_passed_on(
    kind: str, headers: dict[str, str], passes: bool, guard: Guard
) -> None:
    assert answered(guard, kind, **headers) == ((True, 0) if passes else (False, 403 if kind == "http" else 1008))


def test_metrics_are_for_those_who_know_the_login(guard: Guard, tmp_path: Path) -> None:
    assert answered(guard, path="/metrics", host=OURS) == (False, 200)
    closed = Guard(guard.inner, guard.hosts, tmp_path, login="me:secret")
    assert answered(closed, path="/metrics", host=OURS) == (False, 401)
    assert answered(closed, path="/metrics", host=OURS, authorization="Basic bWU6b3RoZXI=") == (False, 401)
    assert answered(closed, path="/metrics", host=OURS, authorization="Basic bWU6c2VjcmV0") == (False, 200)
    assert answered(closed, path="/metrics", host=FOREIGN, authorization="Basic bWU6c2VjcmV0") == (False, 403)


@pytest.mark.parametrize(
    ("code", "restarts", "requeued"),
    [
        (0, None, False),
        (75, None, True),
        (75, 10, True),
        (137, None, True),
        (137, 9, True),
        (137, 10, False),
        (1, None, False),
        (2, None, False),
        (130, None, False),
    ],
)
def test_a_job_is_queued_again_after_it_saved_or_was_killed_but_not_for_ever(
    code: int, restarts: int | None, requeued: bool, tmp_path: Path
) -> None:
    for name, text in {"srun": f"exit {code}", "scontrol": 'echo "$@" > "$REQUEUED"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    given = {} if restarts is None else {"SLURM_RESTART_COUNT": str(restarts)}
    job = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "2", "REQUEUED": str(tmp_path / "requeued")}
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", **job, **given}
    done = subprocess.run(["bash", str(ROOT / "infra/slurm/train.sbatch")], env=environment, check=False)
    assert done.returncode == code
    assert (tmp_path / "requeued").exists() == requeued
