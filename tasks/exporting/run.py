"""Any deployable form of a model as a function on NumPy batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.exporting import FILES, LITERT, OUTPUT, SAVED_MODEL

Runner = Callable[[npt.NDArray], npt.NDArray[np.float32]]
"""From [B, *shape] in the input's dtype to float32 outputs [B, classes], for any B."""


def open_variant(folder: Path, format_name: str, threads: int = 1) -> Runner:
    """Load the variant in `folder`; `format_name` is its format.

    `threads` applies to LiteRT; a SavedModel uses the threads of the process (`tasks.processes.threads.pin`).
    """
    path = folder / FILES[format_name]
    return LiteRT(path, threads) if format_name == LITERT else SavedModel(path)


def float_model(export: Path) -> Runner:
    """Load the float model of an export: LiteRT where there is one, as it starts faster."""
    format_name = LITERT if (export / LITERT).is_dir() else SAVED_MODEL
    return open_variant(export / format_name, format_name)


class SavedModel:
    """Runs the default signature of a SavedModel."""

    def __init__(self, path: Path) -> None:
        import tensorflow as tf

        self._constant = tf.constant
        # The signature does not keep the variables alive; the loaded object does.
        self._loaded = tf.saved_model.load(str(path))
        self._signature = self._loaded.signatures["serving_default"]
        self._input = next(iter(self._signature.structured_input_signature[1]))

    def __call__(self, batch: npt.NDArray) -> npt.NDArray[np.float32]:
        outputs: npt.NDArray[np.float32] = self._signature(**{self._input: self._constant(batch)})[OUTPUT].numpy()
        return outputs


class LiteRT:
    """Runs a `.tflite` file, without TensorFlow."""

    def __init__(self, path: Path, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(str(path), num_threads=threads)
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._output = self._interpreter.get_output_details()[0]["index"]
        self._shape: tuple[int, ...] = ()

    def __call__(self, batch: npt.NDArray) -> npt.NDArray[np.float32]:
        if batch.shape != self._shape:
            self._interpreter.resize_tensor_input(self._input, batch.shape)
            self._interpreter.allocate_tensors()
            self._shape = batch.shape
        self._interpreter.set_tensor(self._input, batch)
        self._interpreter.invoke()
        outputs: npt.NDArray[np.float32] = self._interpreter.get_tensor(self._output)
        return outputs
