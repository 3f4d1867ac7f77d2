"""The attempts of a run: when each began and ended, what it took, and what its stages took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tasks.view import seconds


@dataclass(frozen=True)
class Attempt:
    """An attempt of a run; one that has no end was killed."""

    attempt: int
    started: str
    host: str
    git_commit: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    prefect_flow_run_id: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Of each result that it made, by stage and name."""
    ended: str = ""
    status: str = "killed"

    @property
    def began(self) -> float:
        """When it began, in seconds since 1970."""
        return datetime.fromisoformat(self.started).timestamp()


@dataclass(frozen=True)
class TimedAttempt:
    """An attempt with the seconds that it took."""

    of: Attempt
    seconds: float | None
    """None where nothing tells when it was killed."""
    at_least: bool
    """Whether it was killed, after the last point of its curves."""

    @property
    def took(self) -> str:
        """The seconds as text."""
        if self.seconds is None:
            return "not known"
        return f"{'at least ' if self.at_least else ''}{seconds(self.seconds)}"


def timed(attempts: Iterable[Attempt], signs: Iterable[float]) -> list[TimedAttempt]:
    """Return the attempts with their seconds; `signs` are times of the journal's points: one that was killed had run
    until the last of them, at least."""
    listed, points = list(attempts), sorted(signs)
    found = []
    for number, each in enumerate(listed):
        if each.ended:
            took = datetime.fromisoformat(each.ended).timestamp() - each.began
            found.append(TimedAttempt(each, max(took, 0.0), at_least=False))
            continue
        next_one = listed[number + 1].began if number + 1 < len(listed) else float("inf")
        own = [point for point in points if each.began <= point < next_one]
        found.append(TimedAttempt(each, own[-1] - each.began if own else None, at_least=True))
    return found


@dataclass(frozen=True)
class Cost:
    """The seconds of a stage, or of one of its results, over all attempts."""

    name: str
    seconds: float
    percent: float
    """Of the longest."""
    attempts: tuple[int, ...]
    """Those that spent them."""


def costs(attempts: Iterable[Attempt], parts: Sequence[str]) -> list[Cost]:
    """Return the cost of each result: those of the last attempt in their order (`parts`), then others by name."""
    total: dict[str, float] = {}
    spent_by: dict[str, list[int]] = {}
    for each in attempts:
        for name, took in each.seconds.items():
            total[name] = total.get(name, 0.0) + took
            spent_by.setdefault(name, []).append(each.attempt)
    longest = max(total.values(), default=0.0) or 1.0
    names = [*(name for name in parts if name in total), *sorted(total.keys() - set(parts))]
    return [Cost(name, total[name], 100 * total[name] / longest, tuple(spent_by[name])) for name in names]
