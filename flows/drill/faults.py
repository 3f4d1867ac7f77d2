"""Faults: each kind is a class that strikes processes and files of the drill's own home, and no others."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sqlite3
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import psutil

from flows.drill.home import DrillHome, published
from tasks.config.base import subclasses

GONE = (2.0, 6.0)
"""Seconds for which a server is gone, at least and at most."""

WHOLE = frozenset({0, 3})
"""Exit codes of a run that has come to its end."""


@dataclass(frozen=True)
class Target:
    """The command that is running, and the home that it works in."""

    home: DrillHome
    flow: subprocess.Popen[bytes]
    chance: random.Random


class Fault(ABC):
    """A kind of fault."""

    name: ClassVar[str]
    ends: ClassVar[frozenset[int]] = WHOLE
    """The exit codes with which the command may end after it; the number of a signal is negative."""
    saves: ClassVar[bool] = False
    """Whether the training must have saved the step that it was at."""
    lasts: ClassVar[bool] = False
    """Whether the command does not end by itself after it, but is ended by the next one."""
    once: ClassVar[bool] = False
    """Whether it is drawn once at most, as it takes a minute."""
    least_processes: ClassVar[int] = 1
    """The processes of a training that it needs."""

    @abstractmethod
    def strike(self, target: Target) -> str | None:
        """Strike; return what was hit, or None where there was nothing to hit."""


class SignalFault(Fault):
    """A signal to the command's process, or to all processes of its group."""

    number: ClassVar[signal.Signals]
    to_group: ClassVar[bool] = False

    def strike(self, target: Target) -> str | None:
        """Send it."""
        (os.killpg if self.to_group else os.kill)(target.flow.pid, self.number)
        return f"process {'group ' if self.to_group else ''}{target.flow.pid}"


class KillFlow(SignalFault):
    """SIGKILL of the command's process; its compute processes end with it."""

    name, number = "kill of the flow", signal.SIGKILL
    ends = frozenset({-signal.SIGKILL})


class KillGroup(SignalFault):
    """SIGKILL of all processes at once, as where a machine is switched off."""

    name, number, to_group = "kill of all processes", signal.SIGKILL, True
    ends = frozenset({-signal.SIGKILL})


class KillComputing(Fault):
    """SIGKILL of the process that computes; the run starts it again by itself."""

    name = "kill of a compute process"
    rank: ClassVar[int] = 0

    def strike(self, target: Target) -> str | None:
        """Kill it, where a stage is computing."""
        processes = target.home.computing
        if len(processes) <= self.rank:
            return None
        process = processes[0] if self.rank == 0 else target.chance.choice(processes[self.rank :])
        with contextlib.suppress(psutil.Error):
            name = process.name()
            process.kill()
            return f"{name}, process {process.pid}"
        return None


class KillWorker(KillComputing):
    """SIGKILL of a process of a training by several that is not the first."""

    name = "kill of a worker"
    rank = 1
    least_processes = 2


class Terminate(SignalFault):
    """SIGTERM, as of a cluster's manager: the run saves and leaves."""

    name, number = "SIGTERM", signal.SIGTERM
    ends = WHOLE | {75}
    saves = True


class Interrupt(SignalFault):
    """Ctrl-C: SIGINT to all processes of the terminal; the run saves and leaves."""

    name, number, to_group = "Ctrl-C", signal.SIGINT, True
    ends = WHOLE | {130}
    saves = True


class Freeze(SignalFault):
    """SIGSTOP of the command's process, for ever: the next one finds it silent for a minute, and ends it."""

    name, number = "freeze of the flow", signal.SIGSTOP
    ends = WHOLE | {-signal.SIGKILL}
    lasts = once = True


class FullDisk(Fault):
    """A quota: no file of the process that computes grows any more."""

    name = "full disk"
    ends = WHOLE | {1}

    def strike(self, target: Target) -> str | None:
        """Limit it, where a stage is computing."""
        for process in target.home.computing[:1]:
            with contextlib.suppress(psutil.Error, OSError):
                process.rlimit(resource.RLIMIT_FSIZE, (4096, 4096))
                return f"{process.name()}, process {process.pid}: files of at most 4 KiB"
        return None


class FlipByte(Fault):
    """A byte of a published file is another one, and the command is killed: the next one must notice."""

    name = "flipped byte"
    ends = frozenset({-signal.SIGKILL})

    def strike(self, target: Target) -> str | None:
        """Kill the command, then change a file in place, where one is published."""
        files = [path for path in published(target.home.root) if path.stat().st_size and path.name != "manifest.json"]
        if not files:
            return None
        os.killpg(target.flow.pid, signal.SIGKILL)
        target.flow.wait()
        path = target.chance.choice(files)
        place = target.chance.randrange(path.stat().st_size)
        with open(path, "r+b") as file:
            file.seek(place)
            [before] = file.read(1)
            file.seek(place)
            file.write(bytes([before ^ 16]))
        kind, digest, *names = path.relative_to(target.home.root / "store").parts
        return f"{kind}/{digest[:12]}/{'/'.join(names)}, byte {place:,}"


class TrackingGone(Fault):
    """MLflow's database is locked by somebody else for a while."""

    name = "MLflow gone"

    def strike(self, target: Target) -> str | None:
        """Lock it in a thread, where it is made already."""
        database = target.home.root / "mlflow.db"
        if not database.exists():
            return None
        pause = target.chance.uniform(*GONE)

        def lock() -> None:
            with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(database, timeout=1)) as held:
                held.execute("BEGIN EXCLUSIVE")
                time.sleep(pause)
                held.rollback()

        threading.Thread(target=lock, daemon=True).start()
        return f"mlflow.db, for {pause:.1f} s"


class PrefectGone(Fault):
    """Prefect's server does not answer for a while."""

    name = "Prefect gone"

    def strike(self, target: Target) -> str | None:
        """Stop the server of the run, where there is one, and let it go on afterwards."""
        servers = [
            process
            for process in psutil.Process(target.flow.pid).children(recursive=True)
            if "infra.embedded" in " ".join(process.cmdline())
        ]
        if not servers:
            return None
        pause = target.chance.uniform(*GONE)

        def hold() -> None:
            with contextlib.suppress(psutil.Error):
                servers[0].suspend()
                time.sleep(pause)
                servers[0].resume()

        threading.Thread(target=hold, daemon=True).start()
        return f"process {servers[0].pid}, for {pause:.1f} s"


def kinds() -> list[type[Fault]]:
    """Return all kinds, in order of name."""
    every = subclasses(Fault)  # type: ignore[type-abstract]
    return sorted((kind for kind in every if "name" in vars(kind)), key=lambda kind: kind.name)


def drawn(chance: random.Random, count: int, workers: int) -> list[Fault]:
    """Draw so many faults: each kind in its turn, shuffled anew."""
    turn = [kind for kind in kinds() if kind.least_processes <= workers]
    taken: list[Fault] = []
    while len(taken) < count:
        chance.shuffle(turn)
        taken += [kind() for kind in turn]
        turn = [kind for kind in turn if not kind.once]
    return taken[:count]
