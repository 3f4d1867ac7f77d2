"""Inference with a Keras model on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import keras

BATCH = 256
MAX_OUTPUTS = 1 << 23
"""Outputs of a batch, at most, so that the batches of several forms of a model fit into memory."""


class Examples(Protocol):
    """An array of examples, or a lazy one of which only the indexed rows are read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


def max_batch_size(values: int) -> int:
    """Return how many examples fit into a batch, at most `BATCH`, where each has `values` outputs."""
    return max(1, min(BATCH, MAX_OUTPUTS // values))


def predict(model: keras.Model, examples: Examples, batch_size: int = BATCH) -> npt.NDArray[np.float32]:
    """Run the model in inference mode on all examples, batch by batch.

    Args:
        examples: [N, *shape] of the model's one input; a memory map is read a batch at a time.

    Returns:
        float32 [N, classes].
    """
    return predict_batches(inference_function(model), examples, batch_size)


def inference_function(model: keras.Model) -> Callable[[npt.NDArray], npt.NDArray[np.float32]]:
    """Return the model in inference mode as one compiled function on arrays of any batch size and length."""
    import tensorflow as tf

    source = model.inputs[0]
    signature = [tf.TensorSpec(source.shape, source.dtype, name=source.name)]
    compiled = tf.function(lambda batch: model(batch, training=False), input_signature=signature, autograph=False)

    def call(batch: npt.NDArray) -> npt.NDArray[np.float32]:
        outputs: npt.NDArray[np.float32] = compiled(tf.constant(batch)).numpy()
        return outputs

    return call


def predict_batches(
    call: Callable[[npt.NDArray], npt.NDArray[np.float32]], examples: Examples, batch_size: int = BATCH
) -> npt.NDArray[np.float32]:
    """Apply `call` to batches of at most `batch_size` examples and concatenate its outputs."""
    starts = range(0, len(examples), batch_size)
    return np.concatenate([call(np.ascontiguousarray(examples[start : start + batch_size])) for start in starts])
