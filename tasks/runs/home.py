"""The home, in which all state is stored: `MILLRACE_HOME`, or `.millrace` beside the nearest `prefect.yaml` upward."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tasks.environment.secrets import address_in
from tasks.errors import Refused


@dataclass(frozen=True)
class Home:
    """The folders of a home."""

    root: Path

    @property
    def store(self) -> Path:
        """Folder of the artifacts."""
        return self.root / "store"

    @property
    def runs(self) -> Path:
        """Folder of the runs."""
        return self.root / "runs"

    @property
    def studies(self) -> Path:
        """Folder of the studies of tunings, `<digest>.db`."""
        return self.root / "studies"

    @property
    def prefect(self) -> Path:
        """Folder of Prefect."""
        return self.root / "prefect"

    @property
    def prefect_file(self) -> Path:
        """Path of Prefect's database."""
        return self.prefect / "prefect.db"

    @property
    def mlflow_file(self) -> Path:
        """Path of MLflow's database."""
        return self.root / "mlflow.db"

    @property
    def stack_file(self) -> Path:
        """Path of the layout and the processes of `millrace up`."""
        return self.root / "stack.json"

    @property
    def mlflow_uri(self) -> str:
        """Address of MLflow: that in the environment, or the local database."""
        return address_in("MLFLOW_TRACKING_URI") or f"sqlite:///{self.mlflow_file}"

    def owns(self, address: str) -> bool:
        """Return whether `millrace up` started the MLflow server at an address for this home."""
        try:
            layout = json.loads(self.stack_file.read_bytes())["layout"]
        except (OSError, ValueError, KeyError):
            return False
        host, port = urlsplit(address).hostname or "", urlsplit(address).port
        return port == layout["mlflow_port"] and (is_local(host) or host == layout["host"])

    def has_registry(self) -> bool:
        """Return whether there is a registry; a local one is created by the first run."""
        return bool(os.environ.get("MLFLOW_TRACKING_URI")) or (self.root / "mlflow.db").exists()

    @property
    def mlartifacts(self) -> Path:
        """Folder of MLflow's artifacts."""
        return self.root / "mlartifacts"

    def readable(self) -> Home:
        """Return the home; raise `Refused` if it exists and cannot be read."""
        for folder in (self.root, self.store, self.runs):
            try:
                is_folder = stat.S_ISDIR(folder.stat().st_mode)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._unusable(folder, error.strerror, "read") from None
            if not is_folder or not os.access(folder, os.R_OK | os.X_OK):
                raise self._unusable(folder, "not readable" if is_folder else "not a folder", "read")
        return self

    def make(self) -> Home:
        """Create the home; raise `Refused` if it cannot be written."""
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
        """Write a temporary file; raise `OSError` if that fails."""
        with tempfile.TemporaryFile(dir=self.root) as file:
            file.write(bytes(1 << 16))
            file.flush()
            os.fsync(file.fileno())

    def _unusable(self, folder: str | Path, saw: str | None, what: str) -> Refused:
        rule = f"the home must be a folder that can be {what}"
        return Refused(str(folder), saw, rule, "fix it, or set MILLRACE_HOME to another folder")


def is_local(host: str) -> bool:
    """Return whether a host is this machine."""
    return host in ("localhost", socket.gethostname()) or host.startswith("127.")


def find_home(start: Path | None = None) -> Home:
    """Return the home of the environment or of the working directory."""
    if path := os.environ.get("MILLRACE_HOME"):
        return Home(Path(path).expanduser().resolve())
    return local_home(start)


def local_home(start: Path | None = None) -> Home:
    """Return the home that the working directory leads to."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "prefect.yaml").is_file():
            return Home(folder / ".millrace")
    return Home(start / ".millrace")


def find_project(start: Path | None = None) -> Path:
    """Return the folder of the nearest prefect.yaml upward, or else of the installed project."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "prefect.yaml").is_file():
            return folder
    return Path(__file__).resolve().parents[2]
