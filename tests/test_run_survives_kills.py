"""A preset killed at any time, any number of times, and run again, makes the bytes of an uninterrupted run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.tracking.runs import connect
from tests.support.homes import DIGITS, SMALL, CommandHome
from tests.support.kills import Unbroken, at_work, killed_in_each_stage


@pytest.fixture
def unbroken(finished: CommandHome) -> Unbroken:
    return Unbroken(("run", "pipeline", DIGITS, *SMALL), finished)


def test_a_database_whose_creation_was_killed_is_created_again(tmp_path: Path) -> None:
    """MLflow's migrations, cut off, can neither go on nor begin again."""
    uri, draft = f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "mlflow.db.draft"
    without_template = "from tasks.tracking import runs; runs.copy_template = lambda *_: False; "
    making = subprocess.Popen([sys.executable, "-c", f"{without_template} runs.connect({uri!r})"])
    while not draft.exists() or draft.stat().st_size < 300_000:  # a third of what it will be
        assert making.poll() is None
        time.sleep(0.001)
    making.kill()
    making.wait()
    assert not (tmp_path / "mlflow.db").exists()
    client = connect(uri)
    client.create_registered_model("digits")
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


@pytest.mark.slow
def test_killed_at_a_random_moment_of_each_stage(unbroken: Unbroken, tmp_path: Path) -> None:
    killed_in_each_stage(unbroken, CommandHome(tmp_path), seed=7)


def test_killed_in_training_it_goes_on_to_the_same_bytes(
    prepared: Callable[[str], CommandHome], finished: CommandHome
) -> None:
    """Command and compute process at once."""
    home, words = prepared("home"), ("run", "training", DIGITS, *SMALL)
    assert home.kill_when(at_work(home, "train"), *words)
    answer = home.here(*words, "--json")
    assert answer.code == 0 and answer.json["attempt"] == 2, answer.stderr
    assert home.here("show", answer.json["run_id"], "--json").json["ledger"]["wrong"] == []
    made = home.artifacts()
    assert any(name.startswith("report/") for name in made) and made.items() <= finished.artifacts().items()
