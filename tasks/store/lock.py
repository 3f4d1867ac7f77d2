"""One writer at a time: an flock that dies with its holder, a heartbeat, and a token that only grows.

The lock file holds who has it (`pid`, `started`, `host`, `token`); its modification time is the heartbeat. The
content outlives the holder, so that the next one's token is larger: whoever still works under an older token,
because it was stopped and woken, finds itself superseded.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tasks.errors import Failed, Superseded

BEAT = 5.0
SILENCE = 60.0
"""Seconds without a beat after which a holder is taken for stopped."""


@dataclass(frozen=True)
class Lock:
    """A held lock; small and picklable, so that a child process can ask whether it still counts."""

    path: Path
    token: int

    def check(self, what: str) -> None:
        """Raise `Superseded` if a newer attempt holds the lock."""
        owner = _read(self.path).get("token")
        if owner != self.token:
            raise Superseded(
                what,
                f"attempt token {self.token}, the lock holds {owner}",
                "only the newest attempt may write",
                "nothing is lost: the newer attempt goes on with what lies finished",
            )


@contextmanager
def locked(
    path: Path, waiting: Callable[[str], None] = lambda line: None, heed: Callable[[], None] = lambda: None
) -> Iterator[Lock]:
    """Hold the lock; wait for a living holder, end one on this host that shows no beat, name one elsewhere.

    `heed` is called while it waits, and ends the wait by raising.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
        _acquire(file.fileno(), path, waiting, heed)
        token = _read(path).get("token", 0) + 1
        me = psutil.Process()
        owner = {"token": token, "pid": me.pid, "started": me.create_time(), "host": socket.gethostname()}
        content = json.dumps(owner).encode()
        os.pwrite(file.fileno(), content.ljust(256), 0)
        os.fsync(file.fileno())
        done = threading.Event()
        heart = threading.Thread(target=_beat, args=(path, done), name="heartbeat", daemon=True)
        heart.start()
        try:
            yield Lock(path, token)
        finally:
            done.set()
            heart.join()


def _acquire(descriptor: int, path: Path, waiting: Callable[[str], None], heed: Callable[[], None]) -> None:
    said = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            owner = _read(path)
            if not said:
                waiting(f"waiting for process {owner.get('pid')} on {owner.get('host')}, which works on the same")
                said = True
            if time.time() - path.stat().st_mtime > SILENCE:
                _end(owner, path, waiting)
            heed()
            time.sleep(0.2)


def _end(owner: dict[str, Any], path: Path, waiting: Callable[[str], None]) -> None:
    """Kill a holder that has shown no beat: it may be stopped, and would otherwise hold the lock for ever."""
    if owner.get("host") != socket.gethostname():
        raise Failed(
            path.stem,
            f"held by process {owner.get('pid')} on {owner.get('host')}, silent for {SILENCE:.0f} s",
            "a holder on another host cannot be ended from here",
            "end it there, then run again",
        )
    try:
        holder = psutil.Process(owner["pid"])
        if abs(holder.create_time() - owner["started"]) < 1:
            waiting(f"process {holder.pid} shows no sign of life for {SILENCE:.0f} s: ending it and taking over")
            holder.send_signal(signal.SIGKILL)
            holder.wait(10)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        pass


def _beat(path: Path, done: threading.Event) -> None:
    while not done.wait(BEAT):
        os.utime(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
