"""Exclusive locks: an flock that the kernel releases with its holder, a heartbeat, and an increasing fencing token.

The lock file has its holder (`pid`, `started`, `host`) and the token; its modification time is the heartbeat. A holder
that releases the lock erases its name and leaves the token, so that the file names the holder, a dead process, or
nobody, and never a living process without the lock. The next holder's token is larger, so that a suspended process
that continues later with an older one is recognised as superseded.
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
from tasks.store.files import ABSENT, retried

BEAT = 5.0
SILENCE = 60.0
"""Seconds without a heartbeat, as observed by the waiter itself, after which a holder counts as suspended."""
LOOK, MOST = 0.2, 1.0
"""Seconds between two observations, and the most that one adds to the silence, as a waiter may itself be suspended."""
HOSTS_OWN = 0xEFFF_FFFC
"""The number of a host's first namespace of process ids (PROC_PID_INIT_INO of Linux)."""
OWNER = 256
"""Bytes of the lock file, less than a page, so that a write is complete even if the process is killed."""


@dataclass(frozen=True)
class Lock:
    """A held lock; small and picklable, so that a child process can check it."""

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
                "nothing is lost: the newer attempt continues with the finished pieces",
            )


@contextmanager
def locked(
    path: Path,
    waiting: Callable[[str], None] = lambda line: None,
    raise_if_stopped: Callable[[], None] = lambda: None,
    silence: float = SILENCE,
) -> Iterator[Lock]:
    """Acquire a lock for the block: wait for a living holder, and kill a suspended one on this host.

    Args:
        waiting: called with a line for the user when the wait begins, and when a holder is killed.
        raise_if_stopped: called while waiting; ends the wait by raising.
        silence: seconds after which a holder counts as suspended.

    Raises:
        Failed: the holder is suspended, and is on another host or unknown.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
        _acquire(file.fileno(), path, waiting, raise_if_stopped, silence)
        token = _last_token(path) + 1
        me = psutil.Process()
        _sign(file.fileno(), token=token, pid=me.pid, started=me.create_time(), host=place())
        done = threading.Event()
        heart = threading.Thread(target=_beat, args=(path, done), name="heartbeat", daemon=True)
        heart.start()
        try:
            yield Lock(path, token)
        finally:
            done.set()
            heart.join()
            if _read(path).get("token") == token:  # a newer attempt may have signed since
                _sign(file.fileno(), token=token)


def _acquire(
    descriptor: int, path: Path, waiting: Callable[[str], None], raise_if_stopped: Callable[[], None], silence: float
) -> None:
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
            elif watch.look() > silence:
                _end(watch, waiting, silence)
            raise_if_stopped()
            time.sleep(LOOK)


class Watch:
    """A waiter's own observations of a lock's holder, by its own clock."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self._clock = path, clock
        self._seen, self._looked, self._silent = self._state(), clock(), 0.0

    @property
    def owner(self) -> dict[str, Any]:
        """The holder as of the last observation; empty between a release and the next signature."""
        return _parsed(self._seen[0])

    def look(self) -> float:
        """Observe again; return the seconds for which holder and heartbeat have not changed."""
        state, now = self._state(), self._clock()
        self._silent = self._silent + min(now - self._looked, MOST) if state == self._seen else 0.0
        self._seen, self._looked = state, now
        return self._silent

    def _state(self) -> tuple[bytes, int]:
        return self.path.read_bytes(), self.path.stat().st_mtime_ns


def _end(watch: Watch, waiting: Callable[[str], None], silence: float) -> None:
    """Kill a holder without heartbeat; raise `Failed` where that is not possible."""
    owner, name = watch.owner, watch.path.stem
    if "pid" not in owner:
        raise Failed(
            name,
            f"held for {silence:.0f} s by a process that has not signed",
            "a holder signs at once; this one is stopped",
            f"end it (`fuser {watch.path}` names it), then run again",
        )
    if owner["host"] != place():
        raise Failed(
            name,
            f"held by process {owner['pid']} on {owner['host']}, silent for {silence:.0f} s",
            "a holder on another host cannot be ended from here",
            "end it there, then run again",
        )
    try:
        holder = psutil.Process(owner["pid"])
        # The pid may belong to another process by now, and the holder may have continued since.
        if abs(holder.create_time() - owner["started"]) < 1 and watch.look() > 0:
            waiting(f"process {holder.pid} shows no sign of life for {silence:.0f} s: ending it and taking over")
            holder.send_signal(signal.SIGKILL)
            holder.wait(10)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        pass


def place() -> str:
    """Return where a process id means one process: the host, and of a container its own number, as names repeat."""
    number = Path("/proc/self/ns/pid").stat().st_ino
    return socket.gethostname() if number == HOSTS_OWN else f"{socket.gethostname()} (container {number})"


def _sign(descriptor: int, **owner: Any) -> None:
    os.pwrite(descriptor, json.dumps(owner).encode().ljust(OWNER), 0)
    os.fsync(descriptor)


def _last_token(path: Path) -> int:
    """Return the token of the last holder, 0 for a new lock; raises `Failed` where it is unreadable."""
    content = path.read_bytes()
    token = _parsed(content).get("token")
    if content and not isinstance(token, int):
        rule = "it holds the token of the last attempt"
        raise Failed(str(path), "cannot be read", rule, "remove it when no run works in this home")
    return token or 0


def _beat(path: Path, done: threading.Event) -> None:
    while not done.wait(BEAT):
        with suppress(OSError):  # continue after an error of the disk
            os.utime(path)


def _read(path: Path) -> dict[str, Any]:
    """Return the owner; nothing where the lock is not there. Raises `OSError` where it cannot be read now."""
    try:
        return _parsed(retried(path, Path.read_bytes))
    except ABSENT:
        return {}


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(content))
    except (ValueError, TypeError):
        return {}
