"""Processes of Millrace import what is installed, and nothing from the working directory or `PYTHONPATH`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tasks.processes.fork_server import SHARED
from tests.support.homes import (
    DIGITS,
    MILLRACE,
    ONE_FORM,
    ROOT,
    SMALL,
    Answer,
    CommandHome,
    compute_processes,
    surroundings,
)
from tests.support.stacks import Up, wait

PLANTED = (
    *("tasks", "infra", "json", "signal", "contextlib", "typing"),
    *("numpy", "tensorflow", "keras", "prefect", "mlflow", "uvicorn", "fastapi", "sqlalchemy"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with modules that leave a mark when they are imported."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({name + ' '!r})")
    return folder


def millrace(folder: Path, home: Path, *words: str | Path, **variables: str) -> Answer:
    """The command in a folder."""
    done = subprocess.run(
        [MILLRACE, *words],
        cwd=folder,
        env={**surroundings(), "MILLRACE_HOME": str(home), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def test_a_command_imports_nothing_from_where_it_is_started(folder: Path, tmp_path: Path) -> None:
    answer = millrace(folder, tmp_path / "home", "list", PYTHONPATH=f"{folder}:{ROOT}:")
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
    assert answer.code == 0, answer.stderr


@pytest.mark.slow
def test_a_run_imports_nothing_from_where_it_is_started(finished: CommandHome, folder: Path, tmp_path: Path) -> None:
    """Neither the command, the servers that it starts, a compute process, nor one that checks an export."""
    home = finished.copied_to(tmp_path / "home")
    flags = [*ONE_FORM, "--promote.margin", "-1"]
    answer = millrace(folder, home.root, "run", "pipeline", DIGITS, *SMALL, *flags, PYTHONPATH=f"{folder}:{ROOT}:")
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
    assert answer.code == 0, answer.stderr
    assert "+ export" in answer.stderr, "it was made here"


@pytest.mark.slow
def test_the_stack_imports_nothing_from_the_project(own_stack: Up, folder: Path, tmp_path: Path) -> None:
    """Neither servers, worker and deployed run, nor what the worker starts after the run was killed."""
    shutil.copy(ROOT / "prefect.yaml", folder)
    shutil.copytree(DIGITS.parent, folder / "flows/presets")
    (folder / "flows/__init__.py").write_text((folder / "json.py").read_text())
    stack = own_stack
    ports = {name: value for name, value in stack.given.items() if name != SHARED}  # and a fork server of its own
    up = millrace(folder, stack.root, "up", **ports)
    assert up.code == 0, up.stderr
    long = {"steps": 20_000, "evaluate_every": 20_000, "checkpoint": {"every": 50}}
    flow_run = stack.start_deployment("training/digits", {"train": long})
    wait(lambda: any(stack.root.glob("store/.staging/model/*/checkpoints/*.npz")))
    [working] = compute_processes(stack.root)
    working.parents()[1].kill()  # the flow's, above the fork server
    assert stack.wait_for(flow_run)["state"]["type"] == "CRASHED"
    wait(lambda: stack.newest_run()["status"] == "failed")  # as the hook writes it
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
