"""References to secrets, `env:NAME` or `file:PATH`, which are resolved only where the secret is used."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tasks.errors import Refused

PATTERN = r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"
RULE = "a secret must be a reference"
REMEDY = "store it in a variable or a file, and use env:NAME or file:PATH"

INSTEAD = {
    "PREFECT_API_URL": "PREFECT_API_AUTH_STRING",
    "MLFLOW_TRACKING_URI": "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (of a database, by PGPASSWORD)",
}
"""The variables for a server's password, which must not be in its address, as messages and logs show that."""


class Missing(Refused):
    """A reference to a variable or file that does not exist."""


def _missing(reference: str, saw: str) -> Missing:
    return Missing(reference, saw, "a reference names an existing variable or file", "set it, or correct the reference")


def unreferenced(value: Any) -> bool:
    """Return whether a value is no reference."""
    return isinstance(value, str) and re.match(PATTERN, value) is None


def resolve(reference: str) -> str:
    """Return the secret of a reference.

    Raises:
        Missing: no such variable or file, or it is empty.
    """
    kind, _, name = reference.partition(":")
    if kind == "env":
        secret = os.environ.get(name, "")
    else:
        try:
            secret = Path(name).expanduser().read_text().strip()
        except OSError as error:
            raise _missing(reference, str(error.strerror).lower()) from None
        except (UnicodeDecodeError, RuntimeError):  # the latter: ~ of an unknown user
            raise _missing(reference, "no text file") from None
    if not secret:
        raise _missing(reference, "empty or not set")
    return secret


def address_in(variable: str) -> str | None:
    """Return the server address in a variable. Raises `Refused` if it has a password."""
    address = os.environ.get(variable) or None
    if address and "@" in address and urlsplit(address).password is not None:
        rule = "addresses are shown in messages and logs"
        raise Refused(variable, "an address with a password in it", rule, f"use {INSTEAD[variable]}")
    return address
