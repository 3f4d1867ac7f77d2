"""A published snapshot, read: memory maps, batches in numpy, a tf.data.Dataset, and the way back to the records.

Everything here follows `tasks.data.order`: no buffer, no state, any step at once. TensorFlow is imported only by
`SnapshotReader.dataset`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.data.arrays import Array, open_array
from tasks.data.order import Order, batch_rows, replica_share, steps_of
from tasks.data.reading import RecordsReader, read_manifest
from tasks.errors import Failed, Refused

if TYPE_CHECKING:
    import tensorflow as tf

Batch = dict[str, NDArray[Any]]

CALL_STEPS = 8
CALL_BYTES = 64 << 20
"""Batches of one Python call: as many as these two allow; measured to halve the time of one call per batch."""

ENDLESS = 2**62


class SnapshotReader:
    """A snapshot folder. `features`: dtype, shape and, for a label, classes by name; `counts`: rows by split."""

    def __init__(self, path: Path) -> None:
        """Raises `Refused` for a folder that is no published snapshot, `Failed` where files are missing or cut."""
        self.path = path
        self.manifest = read_manifest(path, "snapshot")
        self.features: dict[str, dict[str, Any]] = self.manifest["features"]
        self.counts: dict[str, int] = self.manifest["counts"]
        self._opened: dict[tuple[str, str], Array] = {}
        for row in self.manifest["files"]:
            file = path / row["path"]
            size = file.stat().st_size if file.exists() else None
            if size != row["bytes"]:
                saw = "missing" if size is None else f"{size} bytes"
                raise Failed(str(file), saw, f"must have {row['bytes']} bytes", "run again: it will be made anew")

    def arrays(self, split: str) -> dict[str, Array]:
        """The examples in stored order, by feature: first axis the row, read-only, nothing loaded before its use."""
        return {name: self._array(split, name) for name in self.features}

    def dataset(
        self,
        split: str,
        batch_size: int,
        *,
        seed: int = 0,
        start: int = 0,
        stop: int | None = None,
        replica: int = 0,
        replicas: int = 1,
        order: Order = "shuffled",
    ) -> tf.data.Dataset:
        """Batches from global step `start` on, up to `stop`: dicts of [batch_size / replicas, ...] by feature, and
        `row`, int64.

        Shuffled, it goes on over epochs without end unless `stop` says otherwise. In stored order it is one pass,
        whose last batch holds what is left (of a replica: perhaps nothing). Raises `Refused` for an unknown split or
        a batch that does not divide by the replicas.
        """
        import tensorflow as tf

        share = replica_share(batch_size, replicas)
        arrays = self.arrays(split)
        count = self.counts[split]
        epochs = 1 if order == "stored" else None
        last = _last_step(count, batch_size, stop, epochs)
        group = _steps_per_call(arrays, share)

        def gather(step: np.int64) -> list[NDArray[Any]]:
            steps = min(group, last - int(step))
            rows, weights = batch_rows(
                int(step), batch_size, count, seed, split,
                steps=steps, replica=replica, replicas=replicas, epochs=epochs, order=order,
            )  # fmt: skip
            valid = weights.sum(axis=1).astype(np.int64)
            return [*(array[rows] for array in arrays.values()), rows, valid]

        types = [*(tf.as_dtype(array.dtype) for array in arrays.values()), tf.int64, tf.int64]

        def fetch(step: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
            *columns, rows, valid = tf.numpy_function(gather, [step], types, stateful=False)
            for column, array in zip(columns, arrays.values(), strict=True):
                column.set_shape([None, share, *array.shape[1:]])
            rows.set_shape([None, share])
            valid.set_shape([None])
            return {**dict(zip(arrays, columns, strict=True)), "row": rows}, valid

        dataset = tf.data.Dataset.range(start, max(start, last), group).map(fetch).unbatch()
        if order == "stored":
            dataset = dataset.map(lambda batch, valid: {name: values[:valid] for name, values in batch.items()})
        else:
            dataset = dataset.map(lambda batch, valid: batch)
        if last < ENDLESS:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(max(0, last - start)))
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return dataset.prefetch(2).with_options(options)

    def pieces(self, split: str, row: int) -> NDArray[np.int64]:
        """[pieces, 4]: record, begin, length and column of everything that this row is made of."""
        first, number = (int(value) for value in self._array(split, "origin")[row])
        return np.asarray(self._array(split, "pieces")[first : first + number])

    def lineage(self, split: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The whole split's `origin` [rows, 2], first piece and number of pieces, and `pieces` [pieces, 4]."""
        return np.asarray(self._array(split, "origin")), np.asarray(self._array(split, "pieces"))

    def keys(self, split: str, rows: NDArray[np.int64] | list[int], records: str | Path) -> list[str]:
        """For each row the key of the (first) record it was made from; `records` is the folder of its parent."""
        reader = RecordsReader(Path(records))
        return [reader.key(split, int(self.pieces(split, int(row))[0, 0])) for row in rows]

    def _array(self, split: str, name: str) -> Array:
        if split not in self.counts:
            raise Refused("split", split, f"this snapshot has {', '.join(self.counts)}", "name one of them")
        if (split, name) not in self._opened:
            self._opened[split, name] = open_array(self._files[split, name])
        return self._opened[split, name]

    @cached_property
    def _files(self) -> dict[tuple[str, str], list[Path]]:
        """Shard files in order, by split and name; from the manifest, so that nothing else is ever read."""
        found: dict[tuple[str, str], list[Path]] = {}
        for path in sorted(row["path"] for row in self.manifest["files"] if row["path"].endswith(".npy")):
            split, _, file = path.partition("/")
            found.setdefault((split, file.rsplit("-", 3)[0]), []).append(self.path / path)
        return found


def batches(
    snapshot: SnapshotReader,
    split: str,
    *,
    batch_size: int,
    start: int = 0,
    stop: int | None = None,
    seed: int = 0,
    order: Order = "shuffled",
    replica: int = 0,
    replicas: int = 1,
    epochs: int | None = None,
) -> Iterator[Batch]:
    """As `SnapshotReader.dataset`, in numpy, with `weight` float32 and every batch full: weight 0 past the end.

    The end is that of `epochs` passes; in stored order there is one pass unless `epochs` says otherwise.
    """
    share = replica_share(batch_size, replicas)
    arrays = snapshot.arrays(split)
    count = snapshot.counts[split]
    if order == "stored" and epochs is None:
        epochs = 1
    last = _last_step(count, batch_size, stop, epochs)
    group = _steps_per_call(arrays, share)
    for first in range(start, last, group):
        rows, weights = batch_rows(
            first, batch_size, count, seed, split,
            steps=min(group, last - first), replica=replica, replicas=replicas, epochs=epochs, order=order,
        )  # fmt: skip
        for row, weight in zip(rows, weights, strict=True):
            yield {**{name: array[row] for name, array in arrays.items()}, "row": row, "weight": weight}


def _last_step(count: int, batch_size: int, stop: int | None, epochs: int | None) -> int:
    """The step to end before: `stop`, but no batch past the last pass."""
    end = ENDLESS if epochs is None else steps_of(epochs, count, batch_size)
    return end if stop is None else min(stop, end)


def _steps_per_call(arrays: dict[str, Array], share: int) -> int:
    size = sum(int(np.prod(array.shape[1:])) * array.dtype.itemsize for array in arrays.values())
    return max(1, min(CALL_STEPS, CALL_BYTES // max(1, size * share)))
