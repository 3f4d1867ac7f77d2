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


def write(model: Any, preprocess: Any, parent: Path | None, target: Path, functions: Any = ()) -> None:
    """Convert the SavedModel folder `parent` to a `.tflite` file, which has no signature for raw columns.

    It has the serving signature and those of `functions`. Inputs and outputs keep their names, shapes and dtypes; the
    batch size is 1 until the runtime resizes it.
    """
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(parent), signature_keys=[SIGNATURE, *(each.name for each in functions)]
    )
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
        self._runners = {SIGNATURE: self._interpreter.get_signature_runner(SIGNATURE)}

    @property
    def interface(self) -> dict[str, Any]:
        """The names of the signatures; shape and dtype of inputs and outputs by name."""
        runner = self._runners[SIGNATURE]
        described = {
            side: {
                name: [[int(size) for size in details["shape_signature"]], details["dtype"].__name__]
                for name, details in tensors.items()
            }
            for side, tensors in (("inputs", runner.get_input_details()), ("outputs", runner.get_output_details()))
        }
        return {"signatures": sorted(self._interpreter.get_signature_list()), **described}

    def __call__(self, batch: Any) -> Any:
        (output,) = self._runners[SIGNATURE](**batch).values()
        return output

    def run(self, signature: str, arrays: Any) -> dict[str, Any]:
        """Return the outputs of a signature by name, for inputs by name."""
        if signature not in self._runners:
            self._runners[signature] = self._interpreter.get_signature_runner(signature)
        results: dict[str, Any] = self._runners[signature](**arrays)
        return results


README = """\
import numpy as np
from ai_edge_litert.interpreter import Interpreter

model = Interpreter("$file", num_threads=1)
serving = model.get_signature_runner("serving_default")


def predict(inputs):
    return serving(**inputs)["$output"]

"""
RUN = """\
def run(signature, inputs):
    return model.get_signature_runner(signature)(**inputs)

"""
