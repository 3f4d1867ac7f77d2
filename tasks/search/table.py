"""The table of a tuning's trials, `trials.json` in the run's folder: pages and commands read it without a database."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tasks.search.config import TuneConfig
from tasks.store.files import pretty, write

FILE = "trials.json"
RUNNING, COMPLETE, PRUNED, FAILED = "running", "complete", "pruned", "failed"
"""The states of a trial."""
STATES = (RUNNING, COMPLETE, PRUNED, FAILED)


@dataclass(frozen=True)
class Trial:
    """A trial of a study."""

    number: int
    state: str
    values: dict[str, Any]
    """Its values by key of the config."""
    value: float | None
    """The score on the validation split; of a pruned trial the last one."""
    steps: int
    """The step of the last score."""
    seconds: float | None
    model: str | None
    """The digest of its model."""
    cached: bool
    """Whether the model was in the store already."""
    reason: str | None
    """Why it failed."""


@dataclass(frozen=True)
class Table:
    """All trials of a study, and what they show."""

    study: str
    """The digest that names the study."""
    metric: str
    higher_is_better: bool
    trials: list[Trial]
    importances: dict[str, float] = field(default_factory=dict)
    """Each key's share of the variance of the scores, by key; empty before the end."""

    @property
    def shares(self) -> list[tuple[str, float]]:
        """The importances, the largest first."""
        return sorted(self.importances.items(), key=lambda pair: -pair[1])

    @property
    def best(self) -> Trial | None:
        """The complete trial with the best score, of equal ones the first."""
        return best_of(self.trials, self.higher_is_better)

    def covers(self, config: TuneConfig) -> bool:
        """Return whether all trials that a config asks for have ended; where minutes limit it, whether any have."""
        ended = len(self.trials) - self.count(RUNNING)
        return ended >= config.most or (config.minutes is not None and ended > 0)

    def count(self, state: str) -> int:
        """Return the number of trials in a state."""
        return sum(trial.state == state for trial in self.trials)

    def save(self, folder: Path) -> None:
        """Write the table into a run's folder."""
        write(folder / FILE, pretty(asdict(self)))


def read(folder: Path) -> Table | None:
    """Return the table of a run; None where the run is no tuning, or has not come so far."""
    path = folder / FILE
    if not path.exists():
        return None
    content = json.loads(path.read_bytes())
    return Table(**{**content, "trials": [Trial(**row) for row in content["trials"]]})


def best_of(trials: Iterable[Trial], higher_is_better: bool) -> Trial | None:
    """Return the complete trial with the best score, of equal ones the first; None without any."""
    complete = [(trial.value, trial) for trial in trials if trial.state == COMPLETE and trial.value is not None]
    sign = -1 if higher_is_better else 1
    return min(complete, key=lambda pair: (sign * pair[0], pair[1].number))[1] if complete else None
