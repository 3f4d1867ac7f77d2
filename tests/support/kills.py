"""Runs that are killed, stopped and interrupted in a stage or at a random time, and checks of the results."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flows.drill import home as drill_home
from flows.drill.home import DrillHome
from tasks.artifacts import STAGES
from tests.support.homes import CommandHome


@dataclass(frozen=True)
class Unbroken:
    """A command, and a home in which it ran once and was not disturbed."""

    command: tuple[str | Path, ...]
    home: CommandHome

    def seconds(self, stage: str) -> float:
        """How long the stage took."""
        return sum(row["seconds"] for row in self.home.newest_run()["stages"][stage])

    def same_in(self, home: CommandHome) -> int:
        """Finish it where it was killed: one run, the same bytes, every example in its turn; gives its attempts."""
        if home.newest_run()["exit_code"] != 0:
            answer = CommandHome(home.root).here(*self.command)
            assert answer.code == 0, answer.stderr
        run = home.newest_run()
        assert run["exit_code"] == 0
        flows = [json.loads(path.read_bytes())["flow"] for path in home.root.glob("runs/*/run.json")]
        assert flows.count(run["flow"]) == 1
        assert home.artifacts() == self.home.artifacts()
        ledger = home.here("show", run["run_id"], "--json").json["ledger"]
        assert (ledger["missing"], ledger["repeated"], ledger["wrong"]) == (0, 0, [])
        return len(run["attempts"])


def at_work(home: CommandHome, stage: str) -> Callable[[], bool]:
    """Whether the stage has begun and left at least one finished piece."""
    return lambda: drill_home.at_work(DrillHome(home.root, ()), stage)


def later(due: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """Whether it has been due for so long."""
    since: list[float] = []

    def over() -> bool:
        if not since and due():
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] >= seconds

    return over


def stop(home: CommandHome, due: Callable[[], bool], number: int, *words: str | Path) -> str:
    """Send the signal as soon as `due`, and see the command end as stopped, in time and in order; its stderr."""
    code = {signal.SIGTERM: 75, signal.SIGINT: 130}[signal.Signals(number)]
    process = home.start(*words)
    deadline = time.monotonic() + 400
    while not due():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)
    if number == signal.SIGINT:  # a terminal's Ctrl-C goes to the whole group
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == code, stderr
    assert '"status": "stopped"' in stdout
    assert "Traceback" not in stderr
    assert "error: " not in stderr
    record = home.newest_run()
    assert (record["status"], record["exit_code"], record["error"]) == ("stopped", code, None)
    return stderr


def disturbed_in_each_stage(
    unbroken: Unbroken, home: CommandHome, numbers: Iterable[int], stages: Sequence[str] = STAGES
) -> None:
    """Run a command to its end in attempts, one for each stage, which gets a signal once it has a finished piece."""
    hit = []
    for stage, number in zip(stages, numbers, strict=False):
        due = at_work(home, stage)
        if number == signal.SIGKILL:
            assert home.kill_when(due, *unbroken.command), f"{stage}: ended before the kill"
        else:
            stop(home, due, number, *unbroken.command, "--json")
        if stage not in home.newest_run()["stages"] or stage == "compress":
            hit.append(stage)
    assert len(hit) >= len(stages) - 2, f"most of the stages were done before the signal: only {hit}"
    assert unbroken.same_in(home) == len(stages) + 1


def killed_in_each_stage(unbroken: Unbroken, home: CommandHome, seed: int) -> None:
    """Run a command to its end in attempts that are killed: one before the first stage, and one in each stage.

    That is at a moment from a fixed seed after the stage's first finished piece, in this stage or, if it was quicker,
    in a later one; prints what was hit. The first has servers of its own, whose database is new.
    """
    chance, kills = random.Random(seed), 0
    for stage in ("start", *STAGES):
        if stage in home.newest_run()["stages"]:
            continue  # the kill before came later than that
        delay = chance.uniform(0.5, 5) if stage == "start" else chance.uniform(0, unbroken.seconds(stage) / 2)
        due = (lambda: True) if stage == "start" else at_work(home, stage)
        if not replace(home, own_processes=stage == "start").kill_when(later(due, delay), *unbroken.command):
            break  # it was quicker
        kills += 1
        print(f"killed {delay:.2f} s into {stage}, after {', '.join(home.newest_run()['stages']) or 'nothing'}")
    unbroken.same_in(home)
    assert kills >= 6
