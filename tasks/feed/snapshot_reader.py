"""Reading a published snapshot: memory maps, batches in NumPy, a tf.data.Dataset, and the records of each row.

The order is that of `tasks.feed.orders`: without shuffle buffer or state, starting at any step. Only
`SnapshotReader.dataset` imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.task import WEIGHT
from tasks.draws import Rows
from tasks.errors import Failed, Refused
from tasks.feed.orders import (
    ORDERS,
    Order,
    Ordered,
    Weights,
    batch_epochs,
    batch_rows,
    replica_share,
    steps_of,
    unknown_lengths,
)
from tasks.records.arrays import Array, Shards, open_array
from tasks.records.reading import RecordsReader, read_manifest
from tasks.snapshots import LENGTHS, RECORD_HASHES

if TYPE_CHECKING:
    import tensorflow as tf


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


Gather = Callable[["tf.Tensor"], "tf.Tensor"]
"""From rows, int64 of any shape, to their values [*rows.shape, ...]."""


def tensor_of(array: Array) -> Gather:
    """Return a function that gathers rows of the array, which stays memory-mapped: pages are read on use."""
    import tensorflow as tf

    if not isinstance(array, Shards):
        whole = _mapped(array)
        return lambda rows: tf.gather(whole, rows)
    shards = [_mapped(part) for part in array.parts]

    def gather(rows: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(rows, [-1])
        shard = tf.cast(flat // array.rows_per_shard, tf.int32)
        positions = tf.dynamic_partition(tf.range(tf.size(flat)), shard, len(shards))
        parts = [
            tf.gather(values, tf.gather(flat, of_shard) - number * array.rows_per_shard)
            for number, (values, of_shard) in enumerate(zip(shards, positions, strict=True))
        ]
        return tf.reshape(tf.dynamic_stitch(positions, parts), tf.concat([tf.shape(rows), array.shape[1:]], 0))

    return gather


def _mapped(array: np.memmap) -> tf.Tensor:
    """Return a memory map as a tensor, without a copy; DLPack needs a writable array, so the map is copy-on-write."""
    import tensorflow as tf

    assert array.filename is not None
    private: np.memmap = np.memmap(array.filename, array.dtype, "c", array.offset, array.shape)
    return tf.experimental.dlpack.from_dlpack(private.__dlpack__())


VALID = ".valid"
"""Internal feature of a batch in stored order: the number of its rows with a weight."""


class SnapshotReader:
    """Reads a snapshot folder. `features`: dtype, shape and classes of each feature; `counts`: rows of each split."""

    def __init__(self, path: Path) -> None:
        """Open a folder.

        Raises:
            Refused: it is not a published snapshot.
            Failed: files are missing or have another size.
        """
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
                raise Failed(str(file), saw, f"must have {row['bytes']} bytes", "run again, which makes a new one")

    def arrays(self, split: str) -> dict[str, Array]:
        """Return the examples in stored order by feature, [rows, ...]: read-only, memory-mapped."""
        return {name: self._array(split, name) for name in self.features}

    def reader(self, split: str, batch_size: int, **options: Any) -> BatchReader:
        """Return a reader of the split's batches in NumPy; `options` are those of `BatchReader`."""
        return BatchReader(self.arrays(split), split, batch_size, lengths=lambda: self.lengths(split), **options)

    def lengths(self, split: str) -> Array:
        """Return the length of each row, int32 [rows]: the largest number of tokens of a text.

        Raises:
            Refused: no array has texts that are padded.
        """
        if LENGTHS not in {name for _, name in self._files}:
            rule = f"needs texts as tokens or ids of words, and the snapshot has {', '.join(self.features)}"
            raise Refused("order", LENGTHS, rule, "use another order, or the transform tokens")
        return self._array(split, LENGTHS)

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
        """Create a dataset of the batches of the global steps [start, stop).

        Elements are dicts of [batch_size / replicas, ...] by feature, and `row`, int64. Shuffled order has no end where
        `stop` is None; stored order is one epoch, whose last batch may be smaller (of a replica: empty).

        Raises:
            Refused: the split does not exist, or the batch size does not divide by the number of replicas.
        """
        import tensorflow as tf

        options = {"seed": seed, "order": order, "replica": replica, "replicas": replicas}
        reader = self.reader(split, batch_size, **options)
        last, group = reader.end(stop), reader.steps_per_call
        tensors = {name: tensor_of(array) for name, array in reader.arrays.items()}

        def rows_of(step: np.int64) -> tuple[Rows, NDArray[np.int64]]:
            rows, weights = reader.rows(int(step), min(int(step) + group, last))
            return rows, weights.sum(axis=1).astype(np.int64)

        def fetch(step: tf.Tensor) -> dict[str, tf.Tensor]:
            rows, valid = tf.numpy_function(rows_of, [step], [tf.int64, tf.int64], stateful=False)
            rows.set_shape([None, reader.share])
            valid.set_shape([None])
            batches = {**{name: gather(rows) for name, gather in tensors.items()}, "row": rows}
            return batches if order != "stored" else {**batches, VALID: valid}

        def cut(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            valid = batch.pop(VALID)
            return {name: values[:valid] for name, values in batch.items()}

        # Prefetch before unbatching: the thread wakes up once for many batches.
        dataset = tf.data.Dataset.range(start, max(start, last), group).map(fetch).prefetch(1).unbatch()
        if order == "stored":
            dataset = dataset.map(cut)
        if last < NO_END:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(max(0, last - start)))
        sharding = tf.data.Options()
        sharding.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return dataset.with_options(sharding)

    def pieces(self, split: str, row: int) -> NDArray[np.int64]:
        """Return what a row is made of, int64 [pieces, 4]: record, begin in the record, length, column in the row."""
        first, number = (int(value) for value in self._array(split, "origin")[row])
        return np.asarray(self._array(split, "pieces")[first : first + number])

    def lineage(self, split: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return a split's `origin` [rows, 2] (first piece, number of pieces) and `pieces` [pieces, 4]."""
        return np.asarray(self._array(split, "origin")), np.asarray(self._array(split, "pieces"))

    def record_hashes(self, split: str) -> NDArray[np.uint64]:
        """Return the hash of each record of a split, uint64 [records], by its number in `pieces`."""
        if split not in self.counts:
            raise self._unknown(split)
        hashes: NDArray[np.uint64] = np.load(self.path / split / RECORD_HASHES)
        return hashes

    def keys(self, split: str, rows: NDArray[np.int64] | list[int], records: str | Path) -> list[str]:
        """Return the key of the (first) record of each row; `records` is the folder of the snapshot's parent."""
        reader = RecordsReader(Path(records))
        return [reader.key(split, int(self.pieces(split, int(row))[0, 0])) for row in rows]

    def _array(self, split: str, name: str) -> Array:
        if split not in self.counts:
            raise self._unknown(split)
        if (split, name) not in self._opened:
            self._opened[split, name] = open_array(self._files[split, name])
        return self._opened[split, name]

    def _unknown(self, split: str) -> Refused:
        return Refused("split", split, f"this snapshot has {', '.join(self.counts)}", "name one of them")

    @cached_property
    def _files(self) -> dict[tuple[str, str], list[Path]]:
        """Shard files in order by split and array name, as listed in the manifest."""
        files: dict[tuple[str, str], list[Path]] = {}
        for path in sorted(row["path"] for row in self.manifest["files"] if row["path"].endswith(".npy")):
            split, _, file = path.partition("/")
            files.setdefault((split, file.rsplit("-", 3)[0]), []).append(self.path / path)
        return files


def document_of_targets(snapshot: SnapshotReader, split: str) -> NDArray[np.int64]:
    """Return the record of each target of a split, int64 [rows, block] in stored order; -1 for padding.

    Target `c` of a row is its token `c + 1`. A BOS belongs to the record that it begins.
    """
    origin, pieces = snapshot.lineage(split)
    width = int(snapshot.features["tokens"]["shape"][0])
    record, _, length, column = pieces.T
    row = np.repeat(np.arange(len(origin)), origin[:, 1])
    first = row * width + column
    positions = np.repeat(first - (np.cumsum(length) - length), length) + np.arange(length.sum())
    records = np.full(len(origin) * width, -1, np.int64)
    records[positions] = np.repeat(record, length)
    return records.reshape(len(origin), width)[:, 1:]
