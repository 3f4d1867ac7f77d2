"""Secrets are named, never written down: `env:NAME` or `file:PATH`, resolved where they are read and nowhere before."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from tasks.errors import Refused

PATTERN = r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"
RULE = "a secret is given by reference"
REMEDY = "put it into a variable or a file, and write env:NAME or file:PATH"

INSTEAD = {
    "PREFECT_API_URL": "PREFECT_API_AUTH_STRING",
    "MLFLOW_TRACKING_URI": "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (of a database, by PGPASSWORD)",
}
"""By which variables a server's password is given; its address stands in messages and logs."""

Secret = Annotated[str, Field(json_schema_extra={"pattern": PATTERN})]
"""A reference. Prefect's form checks the pattern; in Python `unreferenced` does, so that no error repeats a secret."""


class Missing(Refused):
    """A reference that names nothing."""


def _missing(reference: str, saw: str) -> Missing:
    return Missing(reference, saw, "a reference names something that exists", "set it, or correct the reference")


def unreferenced(value: Any) -> bool:
    """Whether a secret was written out."""
    return isinstance(value, str) and re.match(PATTERN, value) is None


def resolve(reference: str) -> str:
    """The secret that a reference names.

    Raises:
        Missing: no such variable or file, or it is empty.
    """
    kind, _, name = reference.partition(":")
    if kind == "env":
        found = os.environ.get(name, "")
    else:
        try:
            found = Path(name).expanduser().read_text().strip()
        except OSError as error:
            raise _missing(reference, str(error.strerror).lower()) from None
        except (UnicodeDecodeError, RuntimeError):  # the latter: ~ of nobody
            raise _missing(reference, "no file of text") from None
    if not found:
        raise _missing(reference, "empty or not set")
    return found


def address_in(variable: str) -> str | None:
    """The address of a server that the environment gives. Raises `Refused` for one with a password in it."""
    given = os.environ.get(variable) or None
    if given and "@" in given and urlsplit(given).password is not None:
        rule = "an address is shown, a password is not"
        raise Refused(variable, "an address with a password in it", rule, f"give it by {INSTEAD[variable]}")
    return given
