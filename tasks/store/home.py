"""Where state lives: `MILLRACE_HOME`, by default `.millrace` beside the nearest `prefect.yaml` upward."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import Refused


@dataclass(frozen=True)
class Home:
    """The folders of one home."""

    root: Path

    @property
    def store(self) -> Path:
        """Artifacts."""
        return self.root / "store"

    @property
    def runs(self) -> Path:
        """One folder per run."""
        return self.root / "runs"

    @property
    def prefect(self) -> Path:
        """Prefect's own home."""
        return self.root / "prefect"

    @property
    def mlflow_uri(self) -> str:
        """Where tracking goes: the server in the environment, or the local file."""
        return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.root / 'mlflow.db'}"

    @property
    def mlartifacts(self) -> Path:
        """What MLflow keeps of a run when no server says otherwise."""
        return self.root / "mlartifacts"

    def make(self) -> Home:
        """Create the home, or refuse one that cannot be written."""
        try:
            for folder in (self.store, self.runs, self.prefect, self.mlartifacts):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error.strerror) from None
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise self._unwritable("not writable")
        return self

    def _unwritable(self, saw: str | None) -> Refused:
        return Refused(
            str(self.root), saw, "the home must be a folder that can be written", "set MILLRACE_HOME to one that can"
        )


def find_home(start: Path | None = None) -> Home:
    """The home that the environment or the place in the file tree gives."""
    if given := os.environ.get("MILLRACE_HOME"):
        return Home(Path(given).expanduser().resolve())
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "prefect.yaml").is_file():
            return Home(folder / ".millrace")
    return Home(start / ".millrace")
