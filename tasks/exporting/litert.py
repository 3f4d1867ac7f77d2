"""The float LiteRT (formerly TensorFlow Lite) file, converted from the SavedModel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILE = "model.tflite"
PARENT = "saved_model"
RUNTIME = "ai_edge_litert.interpreter"
PACKAGE = "ai-edge-litert"
SIGNATURE = "serving_default"


def write(model: Any, parent: Path | None, target: Path) -> None:
    """Convert the SavedModel folder `parent` to a `.tflite` file.

    Input and output keep their names, shapes and dtypes; the batch size is 1 until the runtime resizes it.
    """
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(str(parent), signature_keys=[SIGNATURE])
    target.write_bytes(converter.convert())


def load(path: Path, threads: int) -> tuple[LiteRT, dict[str, Any]]:
    """Load a `.tflite` file, float or quantised, for a number of threads; return the model and its interface."""
    model = LiteRT(path, threads)
    return model, model.interface


class LiteRT:
    """Runs a `.tflite` file, without TensorFlow, on batches [B, *shape]."""

    def __init__(self, path: Path, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(str(path), num_threads=threads)
        self._input = self._interpreter.get_input_details()[0]
        self._output = self._interpreter.get_output_details()[0]
        self._shape: tuple[int, ...] = ()

    @property
    def interface(self) -> dict[str, Any]:
        """The names of the signatures; shape and dtype of inputs and outputs by name."""
        signatures = self._interpreter.get_signature_list()
        (name,), (output,) = (signatures[SIGNATURE][side] for side in ("inputs", "outputs"))
        described = [
            [[int(size) for size in details["shape_signature"]], details["dtype"].__name__]
            for details in (self._input, self._output)
        ]
        return {"signatures": sorted(signatures), "inputs": {name: described[0]}, "outputs": {output: described[1]}}

    def __call__(self, batch: Any) -> Any:
        if batch.shape != self._shape:
            self._interpreter.resize_tensor_input(self._input["index"], batch.shape)
            self._interpreter.allocate_tensors()
            self._shape = batch.shape
        self._interpreter.set_tensor(self._input["index"], batch)
        self._interpreter.invoke()
        return self._interpreter.get_tensor(self._output["index"])


README = """\
import numpy as np
from ai_edge_litert.interpreter import Interpreter

model = Interpreter("$file", num_threads=1)
entry, result = model.get_input_details()[0]["index"], model.get_output_details()[0]["index"]


def predict(inputs):
    model.resize_tensor_input(entry, inputs.shape)
    model.allocate_tensors()
    model.set_tensor(entry, inputs)
    model.invoke()
    return model.get_tensor(result)

"""
