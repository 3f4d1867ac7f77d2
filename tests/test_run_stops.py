"""A signal saves and leaves with the right code; the same command goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.homes import DIGITS, CommandHome

LONG = ["--train.steps", "1500", "--train.checkpoint.every", "500"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_in_training_saves_and_the_next_run_goes_on(number: int, code: int, tmp_path: Path) -> None:
    home = CommandHome(tmp_path)
    process = home.start("run", "training", DIGITS, *LONG, "--json")
    deadline = time.monotonic() + 120
    while not any(tmp_path.glob("store/.staging/model/*/checkpoints/*.npz")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)
    time.sleep(0.3)  # some steps past the checkpoint
    asked = time.monotonic()
    if number == signal.SIGINT:  # a terminal's Ctrl-C goes to the whole group
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert time.monotonic() - asked < 30
    assert '"status": "stopped"' in stdout
    assert "Traceback" not in stderr
    assert home.newest_run()["status"] == "stopped"
    saved = {int(path.stem[5:]) for path in tmp_path.glob("store/.staging/model/*/checkpoints/*.npz")}
    assert max(saved) > 500, f"only the regular checkpoint: {saved}"

    answer = home("run", "training", DIGITS, *LONG, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["attempt"] == 2
    assert home("show", answer.json["run_id"], "--json").json["ledger"]["wrong"] == []
