"""The float LiteRT (formerly TensorFlow Lite) file, converted from the SavedModel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILE = "model.tflite"
PARENT = "saved_model"
EXTRA = None
LIBRARIES = ("tensorflow", "ai-edge-litert")
PACKAGES = ("ai-edge-litert",)
RUNTIMES = ("ai_edge_litert.interpreter",)
SHARES_THREADS = False
SIGNATURE = "serving_default"


def write(model: Any, preprocess: Any, parent: Path | None, target: Path) -> None:
    """Convert the SavedModel folder `parent` to a `.tflite` file, which has no signature for raw columns.

    Input and output keep their names, shapes and dtypes; the batch size is 1 until the runtime resizes it.
    """
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(str(parent), signature_keys=[SIGNATURE])
    target.write_bytes(converter.convert())


def check(path: Path) -> None:
    """Raise `Failed` for an invalid flatbuffer, operators that are not built in, and tensors beyond any memory."""
    from tasks.exporting import litert_check

    litert_check.check(path)


def load(path: Path, threads: int) -> tuple[LiteRT, dict[str, Any]]:
    """Load a `.tflite` file, float or quantised, for a number of threads; return the model and its interface."""
    model = LiteRT(path, threads)
    return model, model.interface


class LiteRT:
    """Runs a `.tflite` file, without TensorFlow, on batches by name, each [B, *shape]."""

    def __init__(self, path: Path, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(str(path), num_threads=threads)
        runner = self._interpreter.get_signature_runner(SIGNATURE)
        self._inputs, self._outputs = runner.get_input_details(), runner.get_output_details()
        self._shapes: dict[str, tuple[int, ...]] = {}

    @property
    def interface(self) -> dict[str, Any]:
        """The names of the signatures; shape and dtype of inputs and outputs by name."""
        described = {
            side: {
                name: [[int(size) for size in details["shape_signature"]], details["dtype"].__name__]
                for name, details in tensors.items()
            }
            for side, tensors in (("inputs", self._inputs), ("outputs", self._outputs))
        }
        return {"signatures": sorted(self._interpreter.get_signature_list()), **described}

    def __call__(self, batch: Any) -> Any:
        shapes = {name: array.shape for name, array in batch.items()}
        if shapes != self._shapes:
            for name, shape in shapes.items():
                self._interpreter.resize_tensor_input(self._inputs[name]["index"], shape)
            self._interpreter.allocate_tensors()
            self._shapes = shapes
        for name, array in batch.items():
            self._interpreter.set_tensor(self._inputs[name]["index"], array)
        self._interpreter.invoke()
        (output,) = self._outputs.values()
        return self._interpreter.get_tensor(output["index"])


README = """\
import numpy as np
from ai_edge_litert.interpreter import Interpreter

model = Interpreter("$file", num_threads=1)
details = model.get_signature_runner("serving_default").get_input_details()
result = model.get_output_details()[0]["index"]


def predict(inputs):
    for name, array in inputs.items():
        model.resize_tensor_input(details[name]["index"], array.shape)
    model.allocate_tensors()
    for name, array in inputs.items():
        model.set_tensor(details[name]["index"], array)
    model.invoke()
    return model.get_tensor(result)

"""
