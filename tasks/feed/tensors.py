"""Arrays of a snapshot as TensorFlow tensors, so that rows are gathered without Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tasks.records.arrays import Array, Shards

Gather = Callable[[tf.Tensor], tf.Tensor]
"""From rows, int64 of any shape, to their values [*rows.shape, ...]."""


def tensor_of(array: Array) -> Gather:
    """Return a function that gathers rows of the array, which stays memory-mapped: pages are read on use."""
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
    assert array.filename is not None
    private: np.memmap = np.memmap(array.filename, array.dtype, "c", array.offset, array.shape)
    return tf.experimental.dlpack.from_dlpack(private.__dlpack__())
