"""Python for processes of our own, which import only what is installed.

Neither the working directory nor `PYTHONPATH` is on their import path: a `json.py` in a folder of data would be
executed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

PYTHON = (sys.executable, "-P")
"""Begins the command line of such a process."""

SAFE = {"PYTHONSAFEPATH": "1"}
"""Does for the processes that it starts what `-P` does for itself."""


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for such a process."""
    return {name: value for name, value in variables.items() if name != "PYTHONPATH"} | SAFE
