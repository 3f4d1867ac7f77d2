"""Where state lives: `MILLRACE_HOME`, by default `.millrace` beside the nearest `prefect.yaml` upward."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tasks.config.secrets import address_in
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
    def mlflow_file(self) -> Path:
        """MLflow's database."""
        return self.root / "mlflow.db"

    @property
    def mlflow_uri(self) -> str:
        """Where tracking goes: the server in the environment, or the local file."""
        return address_in("MLFLOW_TRACKING_URI") or f"sqlite:///{self.mlflow_file}"

    def owns(self, address: str) -> bool:
        """Whether the MLflow server at an address is the one that `millrace up` started for this home."""
        try:
            layout = json.loads((self.root / "stack.json").read_bytes())["layout"]
        except (OSError, ValueError, KeyError):
            return False
        host, port = urlsplit(address).hostname or "", urlsplit(address).port
        return port == layout["mlflow_port"] and (is_local(host) or host == layout["host"])

    def has_registry(self) -> bool:
        """Whether there is a registry to ask; a local one is made by the first run."""
        return bool(os.environ.get("MLFLOW_TRACKING_URI")) or (self.root / "mlflow.db").exists()

    @property
    def mlartifacts(self) -> Path:
        """What MLflow keeps of a run when no server says otherwise."""
        return self.root / "mlartifacts"

    def readable(self) -> Home:
        """Refuse a home that cannot be one: what cannot be looked into is not empty. One that is yet to be made is."""
        for folder in (self.root, self.store, self.runs):
            try:
                whole = stat.S_ISDIR(folder.stat().st_mode)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._unusable(folder, error.strerror, "read") from None
            if not whole or not os.access(folder, os.R_OK | os.X_OK):
                raise self._unusable(folder, "not readable" if whole else "not a folder", "read")
        return self

    def make(self) -> Home:
        """Create the home, or refuse one that cannot be written."""
        folders = (self.store, self.runs, self.prefect, self.mlartifacts)
        try:
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error.filename or self.root, error.strerror, "written") from None
        for folder in (self.root, *folders):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise self._unusable(folder, "not writable", "written")
        return self

    def probe(self) -> None:
        """Write a little, and raise `OSError` where that does not go."""
        with tempfile.TemporaryFile(dir=self.root) as file:
            file.write(bytes(1 << 16))
            file.flush()
            os.fsync(file.fileno())

    def _unusable(self, folder: str | Path, saw: str | None, what: str) -> Refused:
        rule = f"the home must be a folder that can be {what}"
        return Refused(str(folder), saw, rule, "mend that, or set MILLRACE_HOME to another folder")


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    return host in ("localhost", socket.gethostname()) or host.startswith("127.")


def find_home(start: Path | None = None) -> Home:
    """The home that the environment or the place in the file tree gives."""
    if given := os.environ.get("MILLRACE_HOME"):
        return Home(Path(given).expanduser().resolve())
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "prefect.yaml").is_file():
            return Home(folder / ".millrace")
    return Home(start / ".millrace")


def find_project(start: Path | None = None) -> Path:
    """The folder of the nearest prefect.yaml upward, else that of the installed project."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "prefect.yaml").is_file():
            return folder
    return Path(__file__).resolve().parents[2]
