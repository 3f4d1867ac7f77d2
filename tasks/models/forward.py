"""Inference with a Keras model on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tasks.models.features import Arrays

if TYPE_CHECKING:
    import keras

BATCH = 256
MAX_OUTPUTS = 1 << 23
"""Outputs of a batch, at most, so that the batches of several forms of a model fit into memory."""


@dataclass(frozen=True)
class Function:
    """A function over a model's variables, to be a signature of an export."""

    name: str

    inputs: list[keras.KerasTensor]
    """Its symbolic inputs, with names, dtypes and free sizes."""

    call: Callable[[Mapping[str, Any]], dict[str, Any]]
    """From tensors by name to tensors by name."""

    graph: keras.Model
    """The same on the inputs in their order, with variables of its own."""

    outputs: list[str]
    """The names of the graph's outputs."""

    own: list[keras.Variable] = field(default_factory=list)
    """The variables that it has beside those of the model."""


class Examples(Protocol):
    """Inputs by row, of which only the indexed ones are read."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Arrays: ...


Call = Callable[[Arrays], npt.NDArray[np.float32]]
"""A model in any form: a function from a batch of inputs by name to float32 outputs."""


def max_batch_size(values: int) -> int:
    """Return how many examples fit into a batch, at most `BATCH`, where each has `values` outputs."""
    return max(1, min(BATCH, MAX_OUTPUTS // values))


def predict(model: keras.Model, examples: Examples, batch_size: int = BATCH) -> npt.NDArray[np.float32]:
    """Run the model in inference mode on all examples, batch by batch; return float32 [N, classes]."""
    call = inference_function(model)
    return np.concatenate([call(examples[at : at + batch_size]) for at in range(0, len(examples), batch_size)])


def inference_function(model: keras.Model) -> Call:
    """Return the model in inference mode as one compiled function on arrays of any batch size and length."""
    import tensorflow as tf

    signature = {source.name: tf.TensorSpec(source.shape, source.dtype) for source in model.inputs}
    compiled = tf.function(
        lambda batch: model(arguments(model, batch), training=False), input_signature=[signature], autograph=False
    )

    def call(batch: Arrays) -> npt.NDArray[np.float32]:
        outputs: npt.NDArray[np.float32] = compiled({name: tf.constant(array) for name, array in batch.items()}).numpy()
        return outputs

    return call


def arguments(model: keras.Model, batch: Mapping[str, Any]) -> Any:
    """Return the inputs of a model from tensors by name: the only one, or all by name."""
    names = [source.name for source in model.inputs]
    return batch[names[0]] if len(names) == 1 else {name: batch[name] for name in names}


class Batch:
    """Inputs in memory as `Examples`."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, rows: Any, /) -> Arrays:
        return {name: np.ascontiguousarray(array[rows]) for name, array in self.arrays.items()}
