"""Arrays of a snapshot as TensorFlow's own tensors, so that it gathers rows without coming back to Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tasks.data.arrays import Array, Shards

Gather = Callable[[tf.Tensor], tf.Tensor]
"""Rows int64 of any shape to their values, [*rows.shape, ...]."""


def tensor_of(array: Array) -> Gather:
    """A function that gathers rows of this array, mapped and not copied: pages are read when a row is asked for."""
    if not isinstance(array, Shards):
        whole = _mapped(array)
        return lambda rows: tf.gather(whole, rows)
    shards = [_mapped(part) for part in array.parts]

    def gather(rows: tf.Tensor) -> tf.Tensor:
        wanted = tf.reshape(rows, [-1])
        shard = tf.cast(wanted // array.each, tf.int32)
        places = tf.dynamic_partition(tf.range(tf.size(wanted)), shard, len(shards))
        parts = [
            tf.gather(values, tf.gather(wanted, place) - number * array.each)
            for number, (values, place) in enumerate(zip(shards, places, strict=True))
        ]
        return tf.reshape(tf.dynamic_stitch(places, parts), tf.concat([tf.shape(rows), array.shape[1:]], 0))

    return gather


def _mapped(array: np.memmap) -> tf.Tensor:
    """The same pages as a tensor. DLPack lends only what may be written: a private mapping, which no file sees."""
    assert array.filename is not None
    private: np.memmap = np.memmap(array.filename, array.dtype, "c", array.offset, array.shape)
    return tf.experimental.dlpack.from_dlpack(private.__dlpack__())
