"""The trained model as a function on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import keras

BATCH = 256
VALUES = 1 << 23
"""Outputs computed at once, at most: enough to keep the processor busy, few enough to hold several forms' at a time."""


class Examples(Protocol):
    """An array of examples, or what a snapshot gives in its place: only what is asked for is read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


def at_once(values: int) -> int:
    """Examples of a batch where each has so many outputs."""
    return max(1, min(BATCH, VALUES // values))


def predict(model: keras.Model, examples: Examples, batch_size: int = BATCH) -> npt.NDArray[np.float32]:
    """Outputs of the model for all examples, batch by batch, not training.

    Args:
        examples: [N, *shape] of the model's one input; a memory map is read a batch at a time.

    Returns:
        float32 [N, classes].
    """
    return batched(caller(model), examples, batch_size)


def caller(model: keras.Model) -> Callable[[npt.NDArray], npt.NDArray[np.float32]]:
    """The model, not training, as one compiled function on arrays of any batch size and length."""
    import tensorflow as tf

    source = model.inputs[0]
    signature = [tf.TensorSpec(source.shape, source.dtype, name=source.name)]
    compiled = tf.function(lambda batch: model(batch, training=False), input_signature=signature, autograph=False)

    def call(batch: npt.NDArray) -> npt.NDArray[np.float32]:
        answers: npt.NDArray[np.float32] = compiled(tf.constant(batch)).numpy()
        return answers

    return call


def batched(
    call: Callable[[npt.NDArray], npt.NDArray[np.float32]], examples: Examples, batch_size: int = BATCH
) -> npt.NDArray[np.float32]:
    """Join what `call` makes of each batch of at most `batch_size` examples."""
    starts = range(0, len(examples), batch_size)
    return np.concatenate([call(np.ascontiguousarray(examples[start : start + batch_size])) for start in starts])
