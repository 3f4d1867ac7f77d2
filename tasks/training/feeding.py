"""The batches of a training's steps, and the names of their examples for an error."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from tasks.artifacts import Snapshot
from tasks.feed.augmentations import AugmentConfig
from tasks.feed.augmenter import Augmenter
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.training.engines import Arrays
from tasks.training.loop import Plan


class Feed:
    """Prefetches the train split: arrays [steps, batch_size / replicas, ...] by feature, with `row` and `weight`."""

    def __init__(
        self,
        snapshot: SnapshotReader,
        plan: Plan,
        seed: int,
        replica: int = 0,
        replicas: int = 1,
        augment: Sequence[AugmentConfig] = (),
    ) -> None:
        """Create a feed; `replica` of `replicas` gets its contiguous slice of every global batch.

        Raises:
            Refused: an augmentation does not fit the inputs.
        """
        self._plan = plan
        self.examples = plan.batch_size // replicas
        """Examples of a global step that the replica gets."""
        self._reader = snapshot.reader(
            "train",
            plan.batch_size,
            seed=seed,
            epochs=plan.epochs,
            replica=replica,
            replicas=replicas,
            order=plan.order,
        )
        arrays = self._reader.arrays
        self._augment = Augmenter(augment, snapshot.features, arrays, seed) if augment else None
        layout = {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}
        self.layout = self._augment.layout(layout) if self._augment else layout
        """Shape and dtype of an example's arrays by name."""
        self.waited = 0.0
        self._queue: queue.Queue[Arrays | BaseException] = queue.Queue(maxsize=2)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._rest: Arrays | None = None
        """Prefetched steps that `take` has not returned yet."""

    def seek(self, step: int) -> None:
        """Continue at this global step; the order of examples depends on the step alone."""
        self.close()
        self._rest = None
        self._queue, self._stopped = queue.Queue(maxsize=2), threading.Event()
        arguments = (step, self._queue, self._stopped)
        self._thread = threading.Thread(target=self._fill, args=arguments, name="feed", daemon=True)
        self._thread.start()

    def take(self, n: int) -> Arrays:
        """Return the examples of the next n steps; the seconds of waiting for them are added to `waited`."""
        started = time.perf_counter()
        parts: list[Arrays] = []
        while n:
            part = self._rest or self._next()
            steps = min(n, len(part["weight"]))
            parts.append({name: values[:steps] for name, values in part.items()})
            left = {name: values[steps:] for name, values in part.items()}
            self._rest = left if len(left["weight"]) else None
            n -= steps
        self.waited += time.perf_counter() - started
        if len(parts) == 1:  # the usual case: the thread reads the steps of one call of the loop
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _read(self, start: int, stop: int) -> Arrays:
        batch = self._reader.read(start, stop)
        return self._augment(batch, self._reader.epochs_of(start, stop)) if self._augment else batch

    def _next(self) -> Arrays:
        gathered = self._queue.get()
        if isinstance(gathered, BaseException):
            raise gathered
        return gathered

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not None:
            while self._thread.is_alive():
                try:
                    self._queue.get_nowait()
                except queue.Empty:
                    self._thread.join(0.01)
            self._thread = None

    def _fill(self, step: int, target_queue: queue.Queue[Arrays | BaseException], stopped: threading.Event) -> None:
        try:
            while step < self._plan.steps and not stopped.is_set():
                until = self._plan.next_stop(step)
                target_queue.put(self._read(step, until))
                step = until
        except BaseException as error:
            target_queue.put(error)


MOST = 4
"""Examples that are named."""


def names_of(examples: Snapshot, snapshot: SnapshotReader, plan: Plan, seed: int) -> Callable[[int], str]:
    """Return a function that names the examples of a step: by key, or by row where the records are not in the store."""

    def names(step: int) -> str:
        reader = snapshot.reader("train", plan.batch_size, seed=seed, epochs=plan.epochs, order=plan.order)
        fed, weights = reader.rows(step, step + 1)
        rows = fed[weights > 0].tolist()
        records = examples.path.parents[1] / "records" / dict(examples.manifest["parents"]).get("records", "")
        if (records / "manifest.json").exists():
            named = snapshot.keys("train", rows[:MOST], records)
        else:
            named = [f"row {row}" for row in rows[:MOST]]
        rest = len(rows) - len(named)
        return ", ".join(named) + (f" and {rest} more" if rest else "")

    return names
