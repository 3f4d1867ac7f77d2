"""Any form of a model as a function on NumPy batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.exporting import FILES, LITERT, OUTPUT, SAVED_MODEL

Runner = Callable[[npt.NDArray], npt.NDArray[np.float32]]
"""[B, *shape] of the input's dtype to float32 logits [B, classes], for any B."""


def open_variant(folder: Path, form: str, threads: int = 1) -> Runner:
    """Load the variant of this format in `folder`.

    `threads` is for LiteRT; a SavedModel runs with the threads of the process (`tasks.processes.threads.pin`).
    """
    path = folder / FILES[form]
    return LiteRT(path, threads) if form == LITERT else SavedModel(path)


def float_model(export: Path) -> Runner:
    """The float model in an export: LiteRT where there is one, since it starts at once."""
    form = LITERT if (export / LITERT).is_dir() else SAVED_MODEL
    return open_variant(export / form, form)


class SavedModel:
    """A SavedModel's default signature."""

    def __init__(self, path: Path) -> None:
        import tensorflow as tf

        self._constant = tf.constant
        # The loaded object owns the variables, and they die with it.
        self._loaded = tf.saved_model.load(str(path))
        self._signature = self._loaded.signatures["serving_default"]
        self._input = next(iter(self._signature.structured_input_signature[1]))

    def __call__(self, batch: npt.NDArray) -> npt.NDArray[np.float32]:
        outputs: npt.NDArray[np.float32] = self._signature(**{self._input: self._constant(batch)})[OUTPUT].numpy()
        return outputs


class LiteRT:
    """A `.tflite` file; TensorFlow is not needed."""

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
