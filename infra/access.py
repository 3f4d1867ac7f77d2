"""The logins of the stack: secrets that `up --auth` creates, in files that only their owner can read."""

from __future__ import annotations

import base64
import os
import re
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

USER = "millrace"
LENGTH = 24
"""Bytes of a secret."""


@dataclass(frozen=True)
class Access:
    """The secrets of one home, below `secrets/`, mode 700; each in a file of mode 600."""

    folder: Path

    @staticmethod
    def of(home: Path) -> Access:
        """Return the secrets of a home, which need not exist yet."""
        return Access(home / "secrets")

    def make(self) -> None:
        """Generate the secrets that do not exist yet."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        for name in ("prefect", "mlflow", "session"):
            if not (self.folder / name).exists():
                self._write(name, secrets.token_urlsafe(LENGTH))

    def mlflow_config(self, home: Path) -> Path:
        """Write the configuration of MLflow's basic-auth app and return its path."""
        database = f"sqlite:///{home / 'mlflow-auth.db'}"
        lines = {
            "default_permission": "READ",
            "database_uri": database,
            "admin_username": USER,
            "admin_password": self._read("mlflow"),
            "authorization_function": "mlflow.server.auth:authenticate_request_basic_auth",
        }
        self._write("mlflow.ini", "[mlflow]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items()))
        return self.folder / "mlflow.ini"

    @property
    def prefect(self) -> str:
        """The login of Prefect's API and pages, `user:password`."""
        return f"{USER}:{self._read('prefect')}"

    @property
    def mlflow_environment(self) -> dict[str, str]:
        """The variables with the login of an MLflow client."""
        return {"MLFLOW_TRACKING_USERNAME": USER, "MLFLOW_TRACKING_PASSWORD": self._read("mlflow")}

    @property
    def session(self) -> str:
        """The key with which MLflow signs forms."""
        return self._read("session")

    def headers(self, name: str) -> dict[str, str]:
        """Return the header with the login of `prefect` or `mlflow`."""
        return {"Authorization": "Basic " + base64.b64encode(f"{USER}:{self._read(name)}".encode()).decode()}

    def _read(self, name: str) -> str:
        return (self.folder / name).read_text().strip()

    def _write(self, name: str, content: str) -> None:
        new = self.folder / f".{name}.new"
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
        new.replace(self.folder / name)


def names_of(host: str) -> list[str]:
    """Return the names under which a bound address is reached; for 0.0.0.0 all those of this machine."""
    if host != "0.0.0.0":
        return [host]
    addresses = [
        address.address
        for interface in psutil.net_if_addrs().values()
        for address in interface
        if address.family == socket.AF_INET
    ]
    return sorted({*addresses, "localhost", socket.gethostname(), socket.getfqdn()})


def loopback(host: str) -> bool:
    """Return whether an address is a loopback address."""
    return bool(re.fullmatch(r"localhost|127(\.\d+){3}", host))
