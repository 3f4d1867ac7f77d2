"""One writer at a time: an flock that dies with its holder, a heartbeat, and a token that only grows.

The lock file names its holder (`pid`, `started`, `host`) and the token; its modification time is the heartbeat. A
holder that releases the lock erases its name and leaves the token, so the file names either the present holder, or a
process that died, or nobody; never a process that lives and holds nothing. The next token is larger: a process that
still works under an older one, because it was stopped and woken, finds itself superseded.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tasks.errors import Failed, Superseded

BEAT = 5.0
SILENCE = 60.0
"""Seconds that a waiter itself watches a holder without a beat before it takes the holder for stopped."""
LOOK, MOST = 0.2, 1.0
"""Seconds between a waiter's looks, and what one may add: a waiter that slept saw nothing meanwhile."""
OWNER = 256
"""Bytes of the lock file: a process that is killed leaves it whole, since one page is written at once."""


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
    path: Path, waiting: Callable[[str], None] = lambda line: None, raise_if_stopped: Callable[[], None] = lambda: None
) -> Iterator[Lock]:
    """Hold the lock; wait for a living holder, end one on this host that shows no beat, name one elsewhere.

    `heed` is called while it waits, and ends the wait by raising.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
        _acquire(file.fileno(), path, waiting, raise_if_stopped)
        token = _last_token(path) + 1
        me = psutil.Process()
        _sign(file.fileno(), token=token, pid=me.pid, started=me.create_time(), host=socket.gethostname())
        done = threading.Event()
        heart = threading.Thread(target=_beat, args=(path, done), name="heartbeat", daemon=True)
        heart.start()
        try:
            yield Lock(path, token)
        finally:
            done.set()
            heart.join()
            if _read(path).get("token") == token:  # a newer attempt's name is not ours to erase
                _sign(file.fileno(), token=token)


def _acquire(descriptor: int, path: Path, waiting: Callable[[str], None], raise_if_stopped: Callable[[], None]) -> None:
    watch: Watch | None = None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if watch is None:
                watch = Watch(path)
                name = "process {pid} on {host}".format_map(watch.owner) if "pid" in watch.owner else "another process"
                waiting(f"waiting for {name}, which works on the same")
            elif watch.look() > SILENCE:
                _end(watch, waiting)
            raise_if_stopped()
            time.sleep(LOOK)


class Watch:
    """What a waiter has itself seen of a lock's holder, on its own clock."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self._clock = path, clock
        self._seen, self._looked, self._silent = self._state(), clock(), 0.0

    @property
    def owner(self) -> dict[str, Any]:
        """Who signed last, as of the last look; empty between a release and the next signature."""
        return _parsed(self._seen[0])

    def look(self) -> float:
        """Look again; return the seconds for which owner and beat have been seen to stand still."""
        state, now = self._state(), self._clock()
        self._silent = self._silent + min(now - self._looked, MOST) if state == self._seen else 0.0
        self._seen, self._looked = state, now
        return self._silent

    def _state(self) -> tuple[bytes, int]:
        return self.path.read_bytes(), self.path.stat().st_mtime_ns


def _end(watch: Watch, waiting: Callable[[str], None]) -> None:
    """Kill a holder that shows no beat: it may be stopped, and would otherwise hold the lock for ever."""
    owner, name = watch.owner, watch.path.stem
    if "pid" not in owner:
        raise Failed(
            name,
            f"held for {SILENCE:.0f} s by a process that has not signed",
            "a holder signs at once; this one is stopped",
            f"end it (`fuser {watch.path}` names it), then run again",
        )
    if owner["host"] != socket.gethostname():
        raise Failed(
            name,
            f"held by process {owner['pid']} on {owner['host']}, silent for {SILENCE:.0f} s",
            "a holder on another host cannot be ended from here",
            "end it there, then run again",
        )
    try:
        holder = psutil.Process(owner["pid"])
        # Under this number another process may live by now; and this one may have gone on since the last look.
        if abs(holder.create_time() - owner["started"]) < 1 and watch.look() > 0:
            waiting(f"process {holder.pid} shows no sign of life for {SILENCE:.0f} s: ending it and taking over")
            holder.send_signal(signal.SIGKILL)
            holder.wait(10)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        pass


def _sign(descriptor: int, **owner: Any) -> None:
    os.pwrite(descriptor, json.dumps(owner).encode().ljust(OWNER), 0)
    os.fsync(descriptor)


def _last_token(path: Path) -> int:
    """The token of the last holder, 0 for a new lock. Tokens never begin anew: unreadable ones raise `Failed`."""
    content = path.read_bytes()
    token = _parsed(content).get("token")
    if content and not isinstance(token, int):
        rule = "it holds the token of the last attempt"
        raise Failed(str(path), "cannot be read", rule, "remove it when no run works in this home")
    return token or 0


def _beat(path: Path, done: threading.Event) -> None:
    while not done.wait(BEAT):
        with suppress(OSError):  # one beat that the disk refuses must not be the last
            os.utime(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        return _parsed(path.read_bytes())
    except OSError:
        return {}


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(content))
    except (ValueError, TypeError):
        return {}
