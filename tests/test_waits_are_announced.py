"""A command that waits longer than `terminal.SILENCE` says what it waits for, also where stderr is no terminal."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tasks.view import terminal
from tests.support.homes import DIGITS, ROOT, Answer, CommandHome
from tests.support.shared import shared_server

IMPATIENT = "from tasks.view import terminal; terminal.SILENCE = 0.01; from flows.__main__ import main; main()"
"""The command, which announces nearly every wait."""


def waits_of(answer: Answer) -> list[str]:
    """What a command waited for, one after the other."""
    assert answer.code == 0, answer.stderr
    waits = [line.removeprefix("  … ") for line in answer.stderr.splitlines() if line.startswith("  … ")]
    return [text for text, _ in groupby(wait.rpartition(",")[0] for wait in waits)]


def test_predict_names_the_registry_and_then_tensorflow(
    finished: CommandHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, picture = finished.copied_to(tmp_path / "home"), tmp_path / "picture.png"
    Image.fromarray(np.full((8, 8), 90, np.uint8)).save(picture)
    monkeypatch.setattr(terminal, "SILENCE", 0.01)
    waits = waits_of(home.here("predict", "digits@champion", picture))
    registry = f"connecting to the registry at sqlite:///{home.root}/mlflow.db"
    assert waits[-2:] == [registry, "loading TensorFlow and the model"]


@pytest.mark.slow
def test_a_run_names_prefect_and_the_end_of_its_work(prepared: Callable[[str], CommandHome]) -> None:
    home, address = prepared("home"), shared_server()
    done = subprocess.run(
        [sys.executable, "-P", "-c", IMPATIENT, "run", "dataset", DIGITS],
        cwd=ROOT,
        env=home.variables("run"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    waits = waits_of(Answer(done.returncode, done.stdout, done.stderr))
    assert waits[0] == f"connecting to Prefect at {address}"
    assert waits[-1] == "writing the run's page, sending the rest to MLflow"


def test_an_inner_wait_interrupts_the_outer_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "SILENCE", 0.05)

    def lines() -> list[str]:
        time.sleep(0.2)
        return capsys.readouterr().err.splitlines()

    with terminal.waiting("the outer"):
        assert lines() == ["  … the outer, 0 s"]
        with terminal.waiting("the inner"):
            assert lines() == ["  … the inner, 0 s"]
        assert lines() == ["  … the outer, 0 s"]
    assert lines() == []
