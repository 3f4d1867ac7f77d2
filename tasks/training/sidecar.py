"""Evaluation by another process while the training goes on.

The chief sends copies of the weights, and gets the scores of the validation split. A checkpoint is committed when the
scores of all evaluations up to its step are in it, so that a training that is resumed has lost none.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge

from tasks.errors import Lost
from tasks.training.checkpoints import pack, unpack
from tasks.training.engines import Arrays, Engine
from tasks.training.meter import Meter

log = logging.getLogger(__name__)

CONNECT_SECONDS = 60.0
"""Seconds in which the process that evaluates must have built its model."""

BACKLOG = 16
"""Connections that may wait to be taken in."""
GREETING_SECONDS = 10
"""Seconds in which the other end of a connection must show that it has the key."""
TIME = struct.Struct("@ll")
"""A `timeval` of the system: seconds, microseconds."""

OnScores = Callable[[int, dict[str, float], Callable[[], Arrays]], None]
"""Called with step, scores and a function that returns the weights, of each evaluation in order."""


@dataclass
class Sidecar:
    """The chief's end: sends weights, and hands on scores in the order of the steps."""

    address: str
    key: str
    """That of the call, by which the other process knows this one."""
    every: int
    on_scores: OnScores
    _waiting: queue.Queue[tuple[int, Arrays]] = field(default_factory=lambda: queue.Queue(maxsize=2))
    _unscored: list[int] = field(default_factory=list)
    """Steps of evaluations without scores."""
    _thread: threading.Thread | None = None
    _error: BaseException | None = None

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        """Send the weights at a step; waits where two earlier ones are not scored yet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sidecar", daemon=True)
            self._thread.start()
        self._unscored.append(step)
        while self._error is None:
            try:
                return self._waiting.put((step, engine.weights()), timeout=1.0)
            except queue.Full:
                continue
        raise self._error

    def settle(self, step: int) -> None:
        """Wait until all evaluations up to a step have their scores; raise an error of the other process."""
        while any(unscored <= step for unscored in [*self._unscored]) and self._error is None:
            time.sleep(0.005)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with connected(self.address, self.key) as connection:
                while True:
                    step, weights = self._waiting.get()
                    connection.send_bytes(pack(step, {}, weights))  # without pickle: who connects may be a stranger
                    scores = json.loads(connection.recv_bytes())
                    self.on_scores(step, scores, lambda weights=weights: weights)  # type: ignore[misc]
                    self._unscored.remove(step)
        except BaseException as error:
            rule = "the process that evaluates must answer"
            lost = Lost("train.evaluate", f"{type(error).__name__}: {error}", rule, "run again: it continues")
            self._error = lost if isinstance(error, EOFError | OSError) else error


def serve(address: str, key: str, score: Callable[[Arrays], dict[str, float]], stopping: Callable[[], int]) -> None:
    """Score the weights that the chief sends, until this process is killed; signals are the chief's affair.

    Raises:
        Lost: the chief's end of the connection is closed.
    """
    with taken_in(address, key, stopping) as connection:
        try:
            while True:
                while not connection.poll(0.5):
                    stopping()  # it is asked, so that a signal does not interrupt this process
                _, _, weights = unpack(connection.recv_bytes())
                scores = score(weights)
                connection.send_bytes(json.dumps(scores).encode())
        except (EOFError, ConnectionError) as error:
            saw, rule = "the chief has closed the connection", "the process that trains must answer"
            raise Lost("train.evaluate", saw, rule, "run again: it continues") from error


def taken_in(address: str, key: str, stopping: Callable[[], int]) -> Connection:
    """Return the first connection whose other end has the key; those of strangers are closed, and hold up nobody."""
    host, _, port = address.partition(":")
    known: queue.Queue[Connection] = queue.Queue()
    with socket.create_server((host, int(port)), backlog=BACKLOG) as listener:
        listener.settimeout(0.1)
        while known.empty():
            stopping()
            with contextlib.suppress(OSError):  # the time is over, or the other end has given up
                connection, _ = listener.accept()
                threading.Thread(target=greet, args=(connection, key.encode(), known.put), daemon=True).start()
        return known.get()


def greet(stranger: socket.socket, key: bytes, known: Callable[[Connection], None]) -> None:
    """Call `known` with a connection whose other end shows that it has the key, in time; else close it."""
    with stranger:
        stranger.setblocking(True)
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIME.pack(GREETING_SECONDS, 0))
        connection = Connection(os.dup(stranger.fileno()))
        try:
            deliver_challenge(connection, key)
            answer_challenge(connection, key)
        except (AuthenticationError, EOFError, OSError, AssertionError):
            connection.close()
            return
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIME.pack(0, 0))
    known(connection)


def connected(address: str, key: str) -> Connection:
    """Connect to the process that evaluates, as soon as it listens."""
    host, _, port = address.partition(":")
    until = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return Client((host, int(port)), authkey=key.encode())
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
