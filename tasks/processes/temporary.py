"""Folders for temporary files of compute processes: removed with them, and by the next run where nobody was left to.

A folder has a file that is locked while its owner lives; the kernel releases the lock of a process that was killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "millrace-"
OWNED = ".owned"
"""The locked file; a folder without it is being made."""


class Temporary:
    """A folder in that for temporary files."""

    def __init__(self, stage: str) -> None:
        self.name = tempfile.mkdtemp(prefix=f"{PREFIX}{stage}-")
        made = Path(self.name, f"{OWNED}.new")
        self._owned = os.open(made, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._owned, fcntl.LOCK_EX)
        made.rename(made.with_name(OWNED))

    def cleanup(self) -> None:
        """Remove it."""
        shutil.rmtree(self.name, ignore_errors=True)
        if self._owned >= 0:
            os.close(self._owned)
        self._owned = -1


def remove_left() -> None:
    """Remove the folders of owners that were killed."""
    for file in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{OWNED}"):
        try:
            descriptor = os.open(file, os.O_RDWR)
        except OSError:  # another user's, or gone
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(file.parent, ignore_errors=True)
        except OSError:  # its owner lives
            pass
        finally:
            os.close(descriptor)
