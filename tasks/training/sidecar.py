"""Evaluation by another process while the training goes on.

The chief sends copies of the weights, and gets the scores of the validation split. A checkpoint is committed when the
scores of all evaluations up to its step are in it, so that a training that is resumed has lost none.
"""

from __future__ import annotations

import io
import json
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener

import numpy as np

from tasks.errors import Lost
from tasks.training.engines import Arrays, Engine
from tasks.training.meter import Meter

log = logging.getLogger(__name__)

CONNECT_SECONDS = 60.0
"""Seconds in which the process that evaluates must have built its model."""

OnScores = Callable[[int, dict[str, float], Callable[[], Arrays]], None]
"""Called with step, scores and a function that returns the weights, of each evaluation in order."""


@dataclass
class Sidecar:
    """The chief's end: sends weights, and hands on scores in the order of the steps."""

    address: str
    every: int
    on_scores: OnScores
    _waiting: queue.Queue[tuple[int, Arrays]] = field(default_factory=lambda: queue.Queue(maxsize=2))
    _thread: threading.Thread | None = None
    _error: BaseException | None = None

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        """Send the weights at a step; waits where two earlier ones are not scored yet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sidecar", daemon=True)
            self._thread.start()
        while self._error is None:
            try:
                return self._waiting.put((step, engine.weights()), timeout=1.0)
            except queue.Full:
                continue
        raise self._error

    def settle(self) -> None:
        """Wait until all evaluations so far have their scores; raise an error of the other process."""
        while self._waiting.unfinished_tasks and self._error is None:
            time.sleep(0.005)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with connected(self.address) as connection:
                while True:
                    step, weights = self._waiting.get()
                    connection.send_bytes(packed(weights))
                    scores = json.loads(connection.recv_bytes())
                    self.on_scores(step, scores, lambda weights=weights: weights)  # type: ignore[misc]
                    self._waiting.task_done()
        except BaseException as error:
            rule = "the process that evaluates must answer"
            lost = Lost("train.evaluate", f"{type(error).__name__}: {error}", rule, "run again: it continues")
            self._error = lost if isinstance(error, EOFError | OSError) else error


def serve(address: str, score: Callable[[Arrays], dict[str, float]], stopping: Callable[[], int]) -> None:
    """Score the weights that the chief sends, until this process is killed; signals are the chief's affair.

    Raises:
        Lost: the chief's end of the connection is closed.
    """
    host, _, port = address.partition(":")
    with Listener((host, int(port))) as listener, listener.accept() as connection:
        try:
            while True:
                while not connection.poll(0.5):
                    stopping()  # it is asked, so that a signal does not interrupt this process
                scores = score(unpacked(connection.recv_bytes()))
                connection.send_bytes(json.dumps(scores).encode())
        except (EOFError, ConnectionError) as error:
            saw, rule = "the chief has closed the connection", "the process that trains must answer"
            raise Lost("train.evaluate", saw, rule, "run again: it continues") from error


def connected(address: str) -> Connection:
    """Connect to the process that evaluates, as soon as it listens."""
    host, _, port = address.partition(":")
    until = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return Client((host, int(port)))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def packed(weights: Arrays) -> bytes:
    """Return arrays as bytes; without pickle, as a process of another user could connect."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **weights)
    return buffer.getvalue()


def unpacked(content: bytes) -> Arrays:
    """Return the arrays of `packed`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
