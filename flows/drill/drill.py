"""The drill itself: a pipeline unbroken, then with faults until there were enough of them, each continued by the same
command; what was made is compared byte for byte, the ledger is proven, and tracking is counted."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flows.drill import faults
from flows.drill.faults import WHOLE, Fault, Target
from flows.drill.home import WORKPLACES, DrillHome, Moment, artifacts, at_work, drawn_moment
from tasks.errors import Failed
from tasks.runs.home import Home
from tasks.runs.runs import Run

LOOK = 0.001
"""Seconds between two looks for a moment."""

HANGS = 1800.0
"""Seconds after which an attempt counts as hanging."""

Say = Callable[[str], None]


@dataclass
class Struck:
    """A fault that has struck, and what it cost."""

    fault: str
    where: str
    """The moment."""
    hit: str
    """The process or file."""
    stage: str
    """The stage that was at work."""
    exit_code: int
    """Of the attempt; the number of a signal is negative."""
    seconds: float
    """From the fault to the end of the attempt."""
    step: int = 0
    """The last step in the journal."""
    saved: int | None = None
    """The step that was saved; None where no training was under way."""
    again: int = 0
    """Steps that are computed once more."""
    wrong: str = ""
    """What must not have happened."""


@dataclass
class Verdict:
    """What the drill has found."""

    struck: list[Struck] = field(default_factory=list)
    pipelines: int = 0
    """Pipelines that came to their end with faults."""
    compared: int = 0
    """Files that were compared."""
    differing: list[str] = field(default_factory=list)
    """Those that were not as in the unbroken run, and those that one of both lacks."""
    wrong: list[str] = field(default_factory=list)
    """What else was wrong: the ledger, tracking, an exit code, a step lost."""
    points: int = 0
    """Points of metrics in MLflow, each of which was there once."""
    seconds: float = 0.0
    unbroken_seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether nothing was wrong."""
        return not (self.differing or self.wrong)

    def line(self) -> str:
        """Return the verdict in one line."""
        again = sum(each.again for each in self.struck)
        done = f"{many(len(self.struck), 'fault')} in {many(self.pipelines, 'pipeline')}"
        done += f", {many(again, 'step')} computed once more"
        if self.holds:
            return f"holds: {done}; all {self.compared:,} files as in the unbroken run, ledger and tracking whole"
        first = [*self.wrong, *(f"{name} differs" for name in self.differing)]
        more = f", and {len(first) - 1} more" if len(first) > 1 else ""
        return f"DOES NOT HOLD: {first[0]}{more}; {done}"

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {**asdict(self), "holds": self.holds, "line": self.line()}


@dataclass
class Drill:
    """A drill in a folder, in which its two homes are."""

    folder: Path
    command: Sequence[str]
    kills: int
    minutes: float
    seed: int
    every: int
    """Steps between two checkpoints."""
    workers: int
    say: Say

    def run(self) -> Verdict:
        """Run it to its end.

        Raises:
            Failed: the unbroken run has not come to its end.
        """
        begun, verdict = time.monotonic(), Verdict()
        unbroken = DrillHome(self.folder / "unbroken", self.command)
        self.say("running the pipeline once, unbroken")
        code = unbroken.start().wait()
        verdict.unbroken_seconds = time.monotonic() - begun
        if code not in WHOLE:
            error = unbroken.record.get("error") or {}
            saw = error.get("saw", f"exit code {code}")
            raise Failed(
                error.get("field", "the unbroken run"), saw, "a drill needs a run that ends", f"see {unbroken.log}"
            )
        seconds = {stage: sum(row["seconds"] for row in rows) for stage, rows in unbroken.record["stages"].items()}
        chance = random.Random(self.seed)
        waiting = faults.drawn(chance, self.kills, self.workers)
        until = begun + 60 * self.minutes
        while waiting and time.monotonic() + verdict.unbroken_seconds < until:
            broken = DrillHome(self.folder / f"broken{verdict.pipelines + 1}", self.command)
            code = self._pipeline(broken, waiting, seconds, chance, until, verdict)
            self._compare(unbroken, broken, code, verdict)
            if not verdict.holds:  # its home is the evidence
                break
            shutil.rmtree(broken.root)
        verdict.seconds = time.monotonic() - begun
        if waiting and not verdict.struck:
            verdict.wrong.append(f"no fault has struck within {self.minutes:g} minutes")
        return verdict

    def _pipeline(
        self,
        home: DrillHome,
        waiting: list[Fault],
        seconds: dict[str, float],
        chance: random.Random,
        until: float,
        verdict: Verdict,
    ) -> int:
        """Run the command again and again until it has come to its end; return the exit code."""
        misses = 0
        while True:
            late = time.monotonic() + verdict.unbroken_seconds > until
            fault = None if late or not waiting or misses > 2 else waiting[0]
            process = home.start()
            struck = (
                None if fault is None else self._strike(fault, drawn_moment(chance, seconds), home, process, chance)
            )
            code = self._end_of(process, home, fault if struck else None)
            if struck is None:
                misses += 1
            else:
                assert fault is not None
                misses = 0
                waiting.pop(0)
                self._note(struck, fault, code, home, verdict)
            if code in WHOLE:
                return code
            if struck is None:
                verdict.wrong.append(f"an attempt without a fault ended with exit code {code}, see {home.log}")
                return code

    def _strike(
        self, fault: Fault, moment: Moment, home: DrillHome, process: Any, chance: random.Random
    ) -> Struck | None:
        """Wait for the moment, and strike; None where the run has ended before."""
        while process.poll() is None:
            if moment.due(home):
                stage = self._stage(home)
                hit = fault.strike(Target(home, process, chance))
                if hit is not None:
                    return Struck(fault.name, str(moment), hit, stage, 0, time.monotonic(), home.step, home.saved)
            time.sleep(LOOK)
        return None

    def _stage(self, home: DrillHome) -> str:
        """Return the stage that is at work, by what it has left."""
        done = home.record["stages"]
        begun = [stage for stage in WORKPLACES if stage not in done and at_work(home, stage)]
        return begun[-1] if begun else ("promote" if "export" in done else "between stages")

    def _end_of(self, process: Any, home: DrillHome, fault: Fault | None) -> int:
        """Wait for the end of the command; a frozen one is ended by a second command, which is waited for, too."""
        if fault is not None and fault.lasts:
            second = home.start()
            code = self._end_of(second, home, None)
            process.kill()  # it was ended already, where the second one has taken over
            process.wait()
            return code
        begun = time.monotonic()
        while process.poll() is None:
            if time.monotonic() - begun > HANGS:
                process.kill()
            time.sleep(0.05)
        return int(process.returncode)

    def _note(self, struck: Struck, fault: Fault, code: int, home: DrillHome, verdict: Verdict) -> None:
        """Note how the attempt has ended, and what is computed once more."""
        struck.seconds, struck.exit_code = time.monotonic() - struck.seconds, code
        if code not in fault.ends:
            struck.wrong = f"{fault.name} {struck.where} ended with exit code {code}"
        if struck.stage == "train" and code not in WHOLE:
            struck.step, struck.saved = max(struck.step, home.step), home.saved
            kept = struck.saved or 0
            struck.again = max(0, struck.step - kept)
            if fault.saves and kept < struck.step:
                struck.wrong = f"{fault.name} {struck.where}: step {kept} was saved, and {struck.step} computed"
            if struck.again >= 2 * self.every:
                struck.wrong = f"{fault.name} {struck.where}: step {kept} was saved of {struck.step}"
        if struck.wrong:
            verdict.wrong.append(struck.wrong)
        verdict.struck.append(struck)
        cost = f", {struck.again:,} steps again" if struck.again else ""
        self.say(f"{len(verdict.struck)} of {self.kills}: {struck.fault} {struck.where} ({struck.hit}){cost}")

    def _compare(self, unbroken: DrillHome, broken: DrillHome, code: int, verdict: Verdict) -> None:
        """Compare what was made, prove the ledger and count what MLflow has."""
        if code not in WHOLE:
            return
        verdict.pipelines += 1
        own, theirs = artifacts(unbroken.root), artifacts(broken.root)
        verdict.compared += len(own.keys() | theirs.keys())
        verdict.differing += sorted(name for name in own.keys() | theirs.keys() if own.get(name) != theirs.get(name))
        home = Home(broken.root)
        runs = [Run(home, path.parent) for path in sorted(home.runs.glob("*/run.json"))]
        if len(runs) != 1:
            verdict.wrong.append(f"{len(runs)} runs instead of one")
        verdict.wrong += proven(runs[-1])
        points, wrong = counted(runs[-1])
        verdict.points += points
        verdict.wrong += wrong


def many(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def proven(run: Run) -> list[str]:
    """Return what the ledgers of a run's trainings say that is wrong."""
    from tasks.training.ledger import LEDGER, prove

    wrong = []
    for rows in run.record["stages"].values():
        for row in rows:
            if row["kind"] == "model" and (Path(row["path"]) / LEDGER).exists():
                snapshot = next(each for each in run.record["stages"]["snapshot"])
                proof = prove(Path(row["path"]), Path(snapshot["path"]))
                if proof["wrong"] or proof["missing"] or proof["repeated"]:
                    wrong.append(f"the ledger of {row['name']}: {proof['text']}")
    return wrong


def counted(run: Run) -> tuple[int, list[str]]:
    """Return how many points of the journal MLflow has, and what of them it lacks or has twice."""
    from tasks.store.journal import FILE, read
    from tasks.tracking.runs import points_of

    wanted = {(name, point.step) for point in read(run.folder / FILE) for name in point.metrics}
    own = f"sqlite:///{run.home.mlflow_file}"  # MLflow names the last one that was opened in the environment
    found = points_of(own, run.record["mlflow_run_id"], sorted({name for name, _ in wanted}))
    wrong = []
    if lacking := sorted(wanted - set(found)):
        wrong.append(
            f"MLflow lacks {len(lacking)} of {len(wanted)} points, such as {lacking[0][0]} at step {lacking[0][1]}"
        )
    if twice := sorted(point for point, times in Counter(found).items() if times > 1):
        wrong.append(f"MLflow has {many(len(twice), 'point')} twice, such as {twice[0][0]} at step {twice[0][1]}")
    return len(wanted & set(found)), wrong
