"""Processes of Millrace import what is installed, and nothing from the working directory or `PYTHONPATH`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.homes import DIGITS, MILLRACE, ROOT, SMALL, Answer, surroundings

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
