"""The trials of a tuning: each a run of its own, in the folder of the tuning's run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tasks.runs.runs import Run, identity_of, new_record
from tasks.store.files import pretty, write

if TYPE_CHECKING:
    from tasks.config.compose import Config

FLOW = "trial"


class TrialRun(Run):
    """The folder `runs/<run_id>/trials/<number>/`; its journal, logs, measurements and MLflow run are its own."""

    def __init__(self, parent: Run, folder: Path) -> None:
        super().__init__(parent.home, folder)
        self.parent = parent

    @property
    def run_id(self) -> str:
        """The path of its folder below that of all runs."""
        return self.folder.relative_to(self.home.runs).as_posix()

    @property
    def number(self) -> int:
        """The number of the trial."""
        return int(self.folder.name)

    @property
    def title(self) -> str:
        """The name of its MLflow run, which is shown below that of the tuning."""
        return f"trial {self.number}"


def folder_of(run: Run, number: int) -> Path:
    """Return the folder of a trial."""
    return run.folder / "trials" / f"{number:04d}"


def open_trial(parent: Run, number: int, config: Config) -> TrialRun:
    """Return the run of a trial with a new attempt, which is the parent's; it is created if needed."""
    folder = folder_of(parent, number)
    if not (folder / "run.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        record = new_record(f"{parent.run_id}/trials/{folder.name}", FLOW, config, identity_of(FLOW, config))
        write(folder / "run.json", pretty(record))
    run = TrialRun(parent, folder)
    attempt = {**parent.record["attempts"][-1], "attempt": run.attempt + 1}
    run.note(attempts=[*run.record["attempts"], attempt], stages={}, exit_code=None, status="running", sent=False)
    return run


def trials_of(run: Run) -> list[TrialRun]:
    """Return the trials of a run, in order; of one that is no tuning none."""
    return [TrialRun(run, path.parent) for path in sorted((run.folder / "trials").glob("*/run.json"))]
