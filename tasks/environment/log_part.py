"""What a process that was just started has written to its log."""

from __future__ import annotations

import re
from pathlib import Path

EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Exit|Warning|NotFound|Refused)\b.*")
"""The line of a traceback that names the error; a server may log another one after it."""

LONGEST = 200


class LogPart:
    """The end of a log from now on, which is appended to by each start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = path.stat().st_size if path.exists() else 0

    def cause(self) -> str:
        """Return the last error that it names, or else its last line."""
        with open(self.path, "rb") as log:
            log.seek(self._begin)
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if EXCEPTION.fullmatch(line)]
        return (errors or lines or ["nothing"])[-1][:LONGEST]
