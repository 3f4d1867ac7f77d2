"""Processes of Millrace import what is installed, and nothing from the working directory or `PYTHONPATH`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes import DIGITS, MILLRACE, ROOT, SMALL, Answer, surroundings
from tests.stacks import Up, free_ports

PLANTED = ("tasks", "infra", "json", "signal", "contextlib", "typing", "numpy", "tensorflow", "prefect", "mlflow")
PLANTED_FOR_SERVERS = (*PLANTED, "uvicorn", "fastapi", "sqlalchemy", "flask", "asyncpg", "prefect_kubernetes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with modules that leave a mark when they are imported."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in PLANTED_FOR_SERVERS:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({name + ' '!r})")
    return folder


def millrace(folder: Path, home: Path, *words: str | Path, **variables: str) -> Answer:
    """The command in a folder that is also in `PYTHONPATH`."""
    done = subprocess.run(
        [MILLRACE, *words],
        cwd=folder,
        env={**surroundings(), "MILLRACE_HOME": str(home), "PYTHONPATH": f"{folder}:{ROOT}:", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def test_a_run_imports_nothing_from_where_it_is_started(folder: Path, tmp_path: Path) -> None:
    answer = millrace(folder, tmp_path / "home", "run", "pipeline", DIGITS, *SMALL)
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
    assert answer.code == 0, answer.stderr


@pytest.fixture
def project(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """The folder as a project, whose stack is stopped at the end."""
    shutil.copy(ROOT / "prefect.yaml", folder)
    shutil.copytree(ROOT / "flows/presets", folder / "flows/presets")
    yield folder
    millrace(folder, tmp_path / "home", "down")


@pytest.mark.slow
def test_the_stack_and_its_runs_import_nothing_from_the_project(project: Path, tmp_path: Path) -> None:
    ports = dict(zip(("PREFECT_SERVER_API_PORT", "MLFLOW_PORT"), free_ports(), strict=True))
    answer = millrace(project, tmp_path / "home", "up", **ports)
    assert answer.code == 0, answer.stderr
    stack = Up(tmp_path / "home")
    ended = stack.wait_for(stack.start_deployment("dataset/digits"))
    assert ended["state"]["type"] == "COMPLETED", ended["state"]
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
