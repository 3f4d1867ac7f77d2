"""Batches for the compiled calls, gathered one call ahead by a thread while the devices compute."""

from __future__ import annotations

import queue
import threading
import time

from tasks.data.pipeline import SnapshotReader
from tasks.training.engines import Arrays
from tasks.training.plan import Plan


class Feed:
    """The train split's examples, call by call: arrays [n, batch_size / replicas, ...] with `row` and `weight`."""

    def __init__(self, snapshot: SnapshotReader, plan: Plan, seed: int, replica: int = 0, replicas: int = 1) -> None:
        """`replica` of `replicas` is fed its contiguous slice of every global batch."""
        self.plan = plan
        self._reader = snapshot.reader(
            "train", plan.batch_size, seed=seed, epochs=plan.epochs, replica=replica, replicas=replicas
        )
        self.arrays = self._reader.arrays
        self.waited = 0.0
        self._queue: queue.Queue[tuple[int, int, Arrays] | BaseException] = queue.Queue(maxsize=2)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def seek(self, step: int) -> None:
        """Begin at this global step: arithmetic, whatever was fed before."""
        self.close()
        self._queue, self._stopped = queue.Queue(maxsize=2), threading.Event()
        arguments = (step, self._queue, self._stopped)
        self._thread = threading.Thread(target=self._fill, args=arguments, name="feed", daemon=True)
        self._thread.start()

    def take(self, n: int) -> Arrays:
        """The examples of the next n steps; what the wait for them took is added to `waited`."""
        started = time.perf_counter()
        found = self._queue.get()
        self.waited += time.perf_counter() - started
        if isinstance(found, BaseException):
            raise found
        start, stop, arrays = found
        assert stop - start == n, f"the loop asks for {n} steps, the plan gave {start} to {stop}"
        return arrays

    def close(self) -> None:
        """Let the thread go."""
        self._stopped.set()
        if self._thread is not None:
            while self._thread.is_alive():
                with_room = self._queue
                try:
                    with_room.get_nowait()
                except queue.Empty:
                    self._thread.join(0.01)
            self._thread = None

    def _fill(
        self, step: int, room: queue.Queue[tuple[int, int, Arrays] | BaseException], stop: threading.Event
    ) -> None:
        try:
            for first, last in self.plan.stops(step):
                room.put((first, last, self._reader.read(first, last)))
                if stop.is_set():
                    return
        except BaseException as error:
            room.put(error)
