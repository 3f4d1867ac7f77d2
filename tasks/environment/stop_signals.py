"""The signals that stop a command: SIGTERM, Ctrl-C, and the SIGHUP of a terminal that is closed."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], None]


def install(handler: Handler) -> dict[int, Any]:
    """Install a handler, and return the previous ones. Where SIGHUP is ignored, as by `nohup`, it stays ignored."""
    previous = {}
    for number in STOP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            previous[int(number)] = signal.signal(number, handler)
    return previous


def leave_terminal() -> None:
    """Discard output to the terminal from now on; to write to one that was closed is an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)
