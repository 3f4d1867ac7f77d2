"""Two runs at once, a suspended run, a full disk, missing permissions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flows.drill.home import WORKPLACES
from tasks.processes.fork_server import SHARED
from tasks.store import lock
from tests.support.disks import fill
from tests.support.homes import DIGITS, PLAIN, ROOT, SMALL, CommandHome
from tests.support.kills import at_work
from tests.support.shared import shared_fork_servers


@pytest.mark.slow
def test_two_runs_of_one_preset_in_an_empty_home_both_end_well(tmp_path: Path) -> None:
    """One works and one waits; they share their databases, which each finds missing."""
    home = CommandHome(tmp_path, own_processes=True, given={SHARED: shared_fork_servers()})
    alike = ["run", "dataset", DIGITS, "--json"]
    processes = [home.start(*alike), home.start(*alike)]
    answers = [process.communicate(timeout=300) for process in processes]
    for process, (stdout, stderr) in zip(processes, answers, strict=True):
        print(process.returncode, stdout, stderr, sep="\n")  # whole: pytest shortens what an assertion compares
    assert [process.returncode for process in processes] == [0, 0]
    assert len(list(tmp_path.glob("runs/*/run.json"))) == 2
    assert sorted("from the store" in stderr for _, stderr in answers) == [False, True]
    assert len(list(tmp_path.glob("store/snapshot/*"))) == 1
    assert not any("Traceback" in stderr for _, stderr in answers)


IMPATIENT = """
from functools import partial
from tasks.store import lock
lock.locked = partial(lock.locked, silence=5.0)
from flows.__main__ import main
main()
"""
"""The command, which waits for a silent holder of a lock not for a minute."""


@pytest.mark.slow
def test_a_frozen_run_is_ended_and_taken_over(finished: CommandHome, prepared: Callable[[str], CommandHome]) -> None:
    """SIGSTOP to the whole group; the next run waits for a heartbeat that does not come, then goes on."""
    assert lock.SILENCE == 60
    home = replace(prepared("home"), own_processes=True)  # all of its processes are frozen
    words = ["run", "training", str(DIGITS), *SMALL]
    process = home.start(*words)
    deadline = time.monotonic() + 400
    while not any(home.root.glob("store/.staging/model/*/checkpoints/*.npz")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        next_one = [sys.executable, "-P", "-c", IMPATIENT, *words, "--json"]
        variables = CommandHome(home.root).variables("run")
        done = subprocess.run(next_one, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=400)
    finally:
        os.killpg(process.pid, signal.SIGCONT)
        process.communicate(timeout=60)
    assert done.returncode == 0, done.stderr
    assert "no sign of life for 5 s: ending it and taking over" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["attempt"] == 2
    assert process.returncode != 0
    made = home.artifacts()
    assert any(name.startswith("report/") for name in made) and made.items() <= finished.artifacts().items()


def failed_in_one_line(home: CommandHome, stdout: str, stderr: str, code: int, says: str) -> None:
    assert code == 1, stderr
    assert "Traceback" not in stderr
    [line] = [line for line in stderr.splitlines() if line.startswith("error: ")]
    assert says in line
    assert json.loads(stdout.splitlines()[-1])["status"] == "failed"
    assert CommandHome(home.root).here("verify", "--all").code == 0


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_a_disk_that_fills_up_in_any_stage_is_one_error_and_goes_on_when_there_is_room(
    finished: CommandHome, tmp_path: Path, disk: Path
) -> None:
    """Store and run folder on one small disk, filled to the last byte once in each stage."""
    home = CommandHome(tmp_path / "home")
    home.root.mkdir()
    for name in ("store", "runs"):
        (disk / name).mkdir()
        (home.root / name).symlink_to(disk / name)
    filler, attempts = disk / "filler", 1
    for stage in [*WORKPLACES, "promote"]:
        due = at_work(home, stage)
        if due():  # the stage before was so fast that the disk was full in this one already
            continue
        attempts += 1
        process = home.start("run", "pipeline", DIGITS, *SMALL, "--json")
        deadline = time.monotonic() + 400
        while not due():
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.002)
        fill(filler)
        stdout, stderr = process.communicate(timeout=300)
        filler.unlink()
        failed_in_one_line(home, stdout, stderr, process.returncode, "No space left on device")
    answer = home.here("run", "pipeline", DIGITS, *SMALL, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["attempt"] == attempts >= 6
    assert home.artifacts() == finished.artifacts()


@pytest.mark.slow
def test_a_home_on_a_full_disk_is_one_error_too(tmp_path: Path, disk: Path) -> None:
    """There Prefect's database cannot be written either."""
    home = CommandHome(disk / "home", own_processes=True, given={SHARED: shared_fork_servers()})
    words = ["run", "dataset", DIGITS, "--json"]
    for _ in range(2):
        fill(disk / "filler")
        answer = home(*words)
        (disk / "filler").unlink()
        failed_in_one_line(home, answer.stdout, answer.stderr, answer.code, "No space left on device")
        answer = home(*words)
        assert answer.code == 0, answer.stderr


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_no_permission_is_one_error_and_is_resumed_when_it_is_fixed(finished: CommandHome, tmp_path: Path) -> None:
    """A folder that may not be written: where a stage publishes, the workplace of one that trains and of one that asks
    another process to verify what it made, the run's own."""
    home = CommandHome(tmp_path, PLAIN)
    for place in ("store/records", "store/.staging/model", "store/.staging/export"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place).chmod(0o555)
        answer = home("run", "pipeline", DIGITS, *SMALL, "--json", timeout=400)
        (tmp_path / place).chmod(0o755)
        failed_in_one_line(home, answer.stdout, answer.stderr, answer.code, f"{place}")
        assert "Permission denied" in answer.stderr
    process = home.start("run", "pipeline", DIGITS, *SMALL, "--json")
    while len((record := home.newest_run())["attempts"]) < 4 or "export" not in record["stages"]:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    [folder] = tmp_path.glob("runs/2*")
    folder.chmod(0o555)
    stdout, stderr = process.communicate(timeout=300)
    folder.chmod(0o755)
    failed_in_one_line(home, stdout, stderr, process.returncode, str(folder))
    answer = CommandHome(home.root).here("run", "pipeline", DIGITS, *SMALL, "--json")
    assert answer.code == 0, answer.stderr
    assert answer.json["attempt"] == 5
    assert home.artifacts() == finished.artifacts()
