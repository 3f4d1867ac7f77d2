"""Transforms as operations of TensorFlow, whose results have the bits of those of `tasks.reader`.

TensorFlow treats subnormal numbers as zero, and regroups sums, products and quotients with constants before it computes
them. So numbers are rounded to float32 here, and formulas have no two constants that meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import tensorflow as tf

Graph = Callable[[Any], Any]
"""Takes the values of columns of one kind and shape as a tensor: numbers float64 [n, columns, *shape] that float32
holds, NaN where missing; categories and texts string [n, columns], UTF-8; times int64 [n, columns], as
`tasks.reader.values` says. Returns what the reader's `Apply` does of each column, [n, columns, ...]; unsigned
integers may be int32. A table of thousands of columns has few of them: each operation costs milliseconds wherever the
graph is written, converted, checked and loaded."""

NORMAL, STEP = 2.0**-126, 2.0**-149
"""The smallest normal float32, and the distance of the numbers below it."""


def nearest_float32(numbers: tf.Tensor) -> tf.Tensor:
    """Round float64 numbers to those that float32 holds, still as float64."""
    import tensorflow as tf

    subnormal = tf.math.rint(numbers * (1 / STEP)) * STEP
    return tf.where(tf.abs(numbers) < NORMAL, subnormal, tf.cast(tf.cast(numbers, tf.float32), tf.float64))


def as_float32(numbers: tf.Tensor) -> tf.Tensor:
    """Convert float64 numbers to the nearest float32."""
    import tensorflow as tf

    small = tf.abs(numbers) < NORMAL
    steps = tf.cast(tf.math.rint(tf.abs(tf.where(small, numbers, 0.0)) * (1 / STEP)), tf.int32)
    sign = tf.where(tf.bitcast(numbers, tf.int64) < 0, tf.int32.min, 0)
    return tf.where(small, tf.bitcast(tf.bitwise.bitwise_or(steps, sign), tf.float32), tf.cast(numbers, tf.float32))


def frexp(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the mantissa in [0.5, 1) and the exponent of 2 of positive normal float64 numbers, both float64."""
    import tensorflow as tf

    bits = tf.bitcast(numbers, tf.int64)
    exponent = tf.bitwise.right_shift(bits, tf.constant(52, tf.int64)) - 1022
    mantissa = tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(bits, (1 << 52) - 1), 1022 << 52)
    return tf.bitcast(mantissa, tf.float64), tf.cast(exponent, tf.float64)


def stacked(rows: Sequence[Sequence[float]], padding: float) -> NDArray[np.float64]:
    """Return lists of numbers as float64 [rows, longest + 1]; what is after the end of a list is `padding`."""
    table = np.full((len(rows), max(map(len, rows)) + 1), padding, np.float64)
    for own, row in zip(table, rows, strict=True):
        own[: len(row)] = row
    return table


def filling(states: Sequence[dict[str, Any]], change: Graph) -> Graph:
    """Return transforms that fill missing numbers, and then change them, as `tasks.reader.numbers` does."""
    shape, indicator = states[0]["shape"], states[0]["indicator"]
    fill = np.array([state["fill"] for state in states], np.float64).reshape(-1, *shape)

    def apply(numbers: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        missing = tf.math.is_nan(numbers)
        changed = as_float32(change(tf.where(missing, fill, numbers)))
        if shape:
            return changed
        return tf.stack([changed, tf.cast(missing, tf.float32)] if indicator else [changed], axis=2)

    return apply


BLOCK, WORDS = 128, 16
"""Bytes and words of a block."""

IV = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    np.uint64,
)

SIGMA = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
ROUNDS = (*SIGMA, *SIGMA[:2])


TOGETHER = 64
"""Columns that are hashed at once: a text has the memory of `blocks` blocks meanwhile."""


def digest8(texts: tf.Tensor, blocks: int, together: int = TOGETHER) -> tf.Tensor:
    """Return the 8-byte digests of strings [n, columns] of at most `blocks` blocks, as little-endian uint64."""
    import tensorflow as tf

    compress = tf.function(_compress, autograph=False)
    parts = [texts[:, first : first + together] for first in range(0, texts.shape[1], together)]
    hashed = [tf.reshape(_digest8(tf.reshape(part, [-1]), blocks, compress), tf.shape(part)) for part in parts]
    return tf.concat(hashed, axis=1)


def _digest8(texts: tf.Tensor, blocks: int, compress: Callable[..., tf.Tensor]) -> tf.Tensor:
    """Return the digests of strings [n]."""
    import tensorflow as tf

    lengths = tf.strings.length(texts)
    padded = tf.io.decode_raw(texts, tf.uint8, fixed_length=blocks * BLOCK)
    words = tf.bitcast(tf.reshape(padded, [-1, blocks, WORDS, 8]), tf.uint64)
    parameters = np.array([0x01010000 ^ 8, 0, 0, 0, 0, 0, 0, 0], np.uint64)
    state = tf.broadcast_to(tf.constant(IV ^ parameters), [tf.shape(texts)[0], 8])
    for block in range(blocks):
        begin, end = block * BLOCK, (block + 1) * BLOCK
        hashed = compress(state, words[:, block], tf.minimum(lengths, end), lengths <= end)
        state = tf.where(((lengths > begin) | (block == 0))[:, tf.newaxis], hashed, state)
    return state[:, 0]


def _compress(state: tf.Tensor, words: tf.Tensor, counter: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """Return the state after a block [n, 16], of which `counter` bytes end the texts so far."""
    import tensorflow as tf

    xor = tf.bitwise.bitwise_xor

    def rotated(numbers: tf.Tensor, bits: int) -> tf.Tensor:
        right = tf.bitwise.right_shift(numbers, tf.constant(bits, tf.uint64))
        return tf.bitwise.bitwise_or(right, tf.bitwise.left_shift(numbers, tf.constant(64 - bits, tf.uint64)))

    def mix(rows: list[tf.Tensor], first: tuple[int, ...], second: tuple[int, ...]) -> list[tf.Tensor]:
        a, b, c, d = rows
        for chosen, turns in ((first, (32, 24)), (second, (16, 63))):
            a = a + b + tf.gather(words, chosen, axis=1)
            d = rotated(xor(d, a), turns[0])
            c = c + d
            b = rotated(xor(b, c), turns[1])
        return [a, b, c, d]

    def turned(rows: list[tf.Tensor], step: int) -> list[tf.Tensor]:
        return [tf.roll(row, step * place, axis=1) for place, row in enumerate(rows)]

    zero = tf.zeros_like(counter, tf.uint64)
    flags = tf.stack([tf.cast(counter, tf.uint64), zero, tf.where(last, ~zero, zero), zero], axis=1)
    rows = [state[:, :4], state[:, 4:], tf.zeros_like(state[:, :4]) + IV[:4], xor(flags, IV[4:])]
    for order in ROUNDS:
        rows = mix(rows, order[0:8:2], order[1:8:2])
        rows = turned(mix(turned(rows, -1), order[8::2], order[9::2]), 1)
    return xor(state, tf.concat([xor(rows[0], rows[2]), xor(rows[1], rows[3])], axis=1))
