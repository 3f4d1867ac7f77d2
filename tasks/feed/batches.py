"""Batches of a split for one replica at any global step, as rows or gathered from the arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.task import WEIGHT
from tasks.draws import Rows
from tasks.feed.order import Weights, batch_epochs, batch_rows, replica_share, steps_of
from tasks.feed.orders import ORDERS, Order, Ordered, unknown_lengths
from tasks.records.arrays import Array

Batch = dict[str, NDArray[Any]]

CALL_STEPS = 64
CALL_BYTES = 8 << 20
"""Limits of the steps that are gathered at once, so that they fit into the processor's cache."""

NO_END = 2**62


class BatchReader:
    """Reads the batches of a split for one replica; it has no state. `share`: examples of the replica's slice.

    Where `epochs` is None, stored order is one epoch and other orders have no end.
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
        lengths: Callable[[], Any] = unknown_lengths,
    ) -> None:
        """Create a reader of a split's arrays by feature, first axis the row.

        Args:
            lengths: returns the length of each example, [N], for the order by length.

        Raises:
            Refused: the batch size does not divide by the number of replicas, or the order needs lengths.
        """
        self.arrays, self.split, self.batch_size = arrays, split, batch_size
        self.share = replica_share(batch_size, replicas)
        self.count = len(next(iter(arrays.values())))
        self.order = order
        self.epochs = 1 if order == "stored" and epochs is None else epochs
        self._seed, self._replica, self._replicas = seed, replica, replicas
        self._row_bytes = sum(int(np.prod(array.shape[1:])) * array.dtype.itemsize for array in arrays.values())
        self._epoch_order = ORDERS[order](Ordered(batch_size, self._row_bytes, lengths))

    @property
    def steps_per_call(self) -> int:
        """Number of steps to gather at once."""
        return max(1, min(CALL_STEPS, CALL_BYTES // max(1, self._row_bytes * self.share)))

    def end(self, stop: int | None) -> int:
        """Return the step to stop before: `stop`, but not after the last epoch."""
        last = NO_END if self.epochs is None else steps_of(self.epochs, self.count, self.batch_size)
        return last if stop is None else min(stop, last)

    def __len__(self) -> int:
        """Return the number of batches; of shuffled order without epochs there is no end."""
        assert self.epochs is not None
        return self.end(None)

    def __getitem__(self, number: int) -> Batch:
        """Return a batch of [share, ...] by feature, with `row` and `weight`."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        return {name: values[0] for name, values in self.read(number, number + 1).items()}

    def rows(self, start: int, stop: int) -> tuple[Rows, Weights]:
        """Return rows int64 and weights float32 of the steps [start, stop): [steps, share], weight 0 past the end."""
        return batch_rows(
            start, self.batch_size, self.count, self._seed, self.split,
            steps=stop - start, replica=self._replica, replicas=self._replicas, epochs=self.epochs,
            order=self._epoch_order,
        )  # fmt: skip

    def epochs_of(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Return the epoch of each row of the steps [start, stop), uint64 [steps, share]."""
        return batch_epochs(
            start, self.batch_size, self.count,
            steps=stop - start, replica=self._replica, replicas=self._replicas,
        )  # fmt: skip

    def read(self, start: int, stop: int) -> Batch:
        """Return the examples of these steps: [steps, share, ...] by feature, with `row` and `weight`."""
        rows, weights = self.rows(start, stop)
        features = {name: np.asarray(array[rows]) for name, array in self.arrays.items()}
        if WEIGHT in features and self.order != "stored":  # metrics, of stored order, are of examples without weights
            weights = weights * features[WEIGHT]
        return {**features, "row": rows, WEIGHT: weights}

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """Yield batches of [share, ...] by feature, with `row` and `weight`, which is 0 past the end."""
        last = self.end(stop)
        for first in range(start, last, self.steps_per_call):
            call = self.read(first, min(first + self.steps_per_call, last))
            for step in range(len(call["row"])):
                yield {name: values[step] for name, values in call.items()}
