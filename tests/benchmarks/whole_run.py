"""The digits preset against the same job written by hand with no promise kept: wall and CPU seconds, whole commands.

    python -m tests.benchmarks.whole_run

In turns, on a machine with nothing else to do: the bare script, `millrace run` in an empty home, the same again with
every stage from the store, a Prefect flow of tasks that do nothing with an MLflow run (`bare_platform.py`), and the
commands that only look. The bare script runs twice: its ratio is the noise. Then the time until a forked compute
process answers, and that of the imports which it does not repeat.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.threads import available_threads
from tasks.processes.workbench import Work
from tests.support.homes import DIGITS, MILLRACE, ROOT, surroundings

ROUNDS = 5
BARE, PLATFORM = (Path(__file__).with_name(f"bare_{name}.py") for name in ("digits", "platform"))
GOALS = {"millrace run": (1.1, 1.4), "from the store": (0.15, None)}
FORK_SECONDS = 0.7
"""Goal of a forked process."""
QUICK = {"--help": 0.25, "list": 0.5, "status": 0.5}
"""Commands that only look, and the goal of each in seconds."""


def timed(command: list[str], home: Path, where: Path = ROOT) -> tuple[float, float]:
    """Wall and CPU seconds of a command and all that it started in the folder `where`."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**surroundings(), "MILLRACE_HOME": str(home)}
    subprocess.run(command, cwd=where, env=environment, check=True, capture_output=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - started
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def answers(logs: Path) -> list[float]:
    """Return the seconds until a compute process, forked after the imports, has answered its first call."""
    launcher, seconds = ProcessLauncher(logs, available_threads()), []
    for _ in range(ROUNDS + 1):
        started = time.perf_counter()
        with launcher.gang("train") as gang:
            gang.call(Work(repr), None, logs / "journal", limits=Limits(), on_report=print)
            seconds.append(time.perf_counter() - started)
    return seconds[1:]  # the first waits for the imports


def main() -> None:
    """Five rounds; ratios to the bare script of the same round."""
    root = Path(tempfile.mkdtemp(prefix="millrace-benchmark-"))
    run = [str(MILLRACE), "run", "pipeline", str(DIGITS)]

    def bare() -> tuple[float, float]:
        shutil.rmtree(root / "bare", ignore_errors=True)
        return timed([sys.executable, str(BARE), str(root / "bare")], root, where=root)  # MLflow leaves files there

    def empty() -> tuple[float, float]:
        shutil.rmtree(root / "home", ignore_errors=True)
        return timed(run, root / "home")

    def again() -> tuple[float, float]:
        return timed(run, root / "home")

    def platform() -> tuple[float, float]:
        return timed([sys.executable, str(PLATFORM), str(root / "platform")], root, where=root)

    platform()  # makes the databases
    ways: dict[str, Callable[[], tuple[float, float]]] = {
        "bare": bare,
        "millrace run": empty,
        "from the store": again,
        "platform": platform,
        "bare again": bare,
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    quick: dict[str, list[float]] = {word: [] for word in QUICK}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            taken[name].append(way())
        for word in QUICK:
            quick[word].append(timed([str(MILLRACE), word], root / "home")[0])
    imports = [sys.executable, "-c", "import tensorflow, keras"]
    from_nothing = [timed(imports, root)[0] for _ in range(ROUNDS)]
    forked = answers(root / "logs")
    shutil.rmtree(root)
    print(f"{os.cpu_count()} cores, {ROUNDS} rounds, medians; ratios to the bare script of the same round [low, high]")
    for name, rows in taken.items():
        for place, clock in enumerate(("wall", "CPU")):
            ratios = [row[place] / base[place] for row, base in zip(rows, taken["bare"], strict=True)]
            goal = GOALS.get(name, (None, None))[place]
            spread = f"{statistics.median(ratios):.2f}x [{min(ratios):.2f}, {max(ratios):.2f}]"
            seconds = statistics.median(row[place] for row in rows)
            print(f"  {name:<16}{clock:<5}{seconds:>7.1f} s  {spread}{f'  goal {goal}x' if goal else ''}")
    for word, seconds in quick.items():
        print(f"  millrace {word:<12}{statistics.median(seconds):>6.2f} s  goal {QUICK[word]} s")
    spared = f"instead of {statistics.median(from_nothing):.1f} s of imports"
    print(f"  a forked process answers after {statistics.median(forked):.2f} s  goal {FORK_SECONDS} s, {spared}")


if __name__ == "__main__":
    main()
