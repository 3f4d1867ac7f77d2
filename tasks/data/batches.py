"""The one reader of the order: what a replica is fed at any global steps, as rows or gathered from the arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.data.arrays import Array
from tasks.data.order import Order, Rows, Weights, batch_rows, replica_share, steps_of

Batch = dict[str, NDArray[Any]]

CALL_STEPS = 64
CALL_BYTES = 8 << 20
"""Steps that are gathered at once: as many as these two allow. More of them would leave the processor's cache."""

ENDLESS = 2**62


class BatchReader:
    """The batches of one split for one replica. `share`: examples of its slice of a global batch; state: none.

    Stored order is one pass, unless `epochs` says otherwise; shuffled order goes on without end unless it does.
    """

    def __init__(
        self,
        arrays: Mapping[str, Array],
        split: str,
        batch_size: int,
        *,
        seed: int = 0,
        order: Order = "shuffled",
        replica: int = 0,
        replicas: int = 1,
        epochs: int | None = None,
    ) -> None:
        """`arrays`: the split's features, first axis the row. `Refused` for a batch that the replicas do not divide."""
        self.arrays, self.split, self.batch_size = arrays, split, batch_size
        self.share = replica_share(batch_size, replicas)
        self.count = len(next(iter(arrays.values())))
        self.order = order
        self.epochs = 1 if order == "stored" and epochs is None else epochs
        self._seed, self._replica, self._replicas = seed, replica, replicas

    @property
    def steps_per_call(self) -> int:
        """Steps that are well gathered at once."""
        size = sum(int(np.prod(array.shape[1:])) * array.dtype.itemsize for array in self.arrays.values())
        return max(1, min(CALL_STEPS, CALL_BYTES // max(1, size * self.share)))

    def end(self, stop: int | None) -> int:
        """The step to end before: `stop`, but no batch past the last pass."""
        last = ENDLESS if self.epochs is None else steps_of(self.epochs, self.count, self.batch_size)
        return last if stop is None else min(stop, last)

    def rows(self, start: int, stop: int) -> tuple[Rows, Weights]:
        """Rows int64 and weights float32 of the global steps [start, stop): [steps, share], weight 0 past the end."""
        return batch_rows(
            start, self.batch_size, self.count, self._seed, self.split,
            steps=stop - start, replica=self._replica, replicas=self._replicas, epochs=self.epochs, order=self.order,
        )  # fmt: skip

    def read(self, start: int, stop: int) -> Batch:
        """The examples of these steps: [steps, share, ...] by feature, with `row` and `weight`."""
        rows, weights = self.rows(start, stop)
        features = {name: np.asarray(array[rows]) for name, array in self.arrays.items()}
        return {**features, "row": rows, "weight": weights}

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """Batch by batch, [share, ...], every one full: weight 0 past the end."""
        last = self.end(stop)
        for first in range(start, last, self.steps_per_call):
            call = self.read(first, min(first + self.steps_per_call, last))
            for step in range(len(call["row"])):
                yield {name: values[step] for name, values in call.items()}
