"""The float LiteRT (formerly TensorFlow Lite) file, converted from the SavedModel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .format import Format

SIGNATURE = "serving_default"


class LiteRT(Format):
    """A `.tflite` file, float or quantised, run without TensorFlow. It has no signature for raw columns."""

    kind = "litert"
    place = 2
    about = "formerly TensorFlow Lite"
    file = "model.tflite"
    parent = "saved_model"
    libraries = ("tensorflow", "ai-edge-litert")
    packages = ("ai-edge-litert",)
    runtimes = ("ai_edge_litert.interpreter",)
    shares_threads = False

    code = """\
import numpy as np
from ai_edge_litert.interpreter import Interpreter

model = Interpreter("$file", num_threads=1)
serving = model.get_signature_runner("serving_default")


def predict(inputs):
    return serving(**inputs)["$output"]

"""
    run_code = """\
def run(signature, inputs):
    return model.get_signature_runner(signature)(**inputs)

"""

    @staticmethod
    def write(model: Any, preprocess: Any, parent: Path | None, target: Path, functions: Any = ()) -> None:
        """Convert the SavedModel folder `parent` to a `.tflite` file.

        It has the serving signature and those of `functions`. Inputs and outputs keep their names, shapes and dtypes;
        the batch size is 1 until the runtime resizes it.
        """
        import tensorflow as tf

        converter = tf.lite.TFLiteConverter.from_saved_model(
            str(parent), signature_keys=[SIGNATURE, *(each.name for each in functions)]
        )
        target.write_bytes(converter.convert())

    @staticmethod
    def check(path: Path) -> None:
        """Raise `Failed` for an invalid flatbuffer, operators that are not built in, and tensors beyond any memory."""
        from tasks.exporting.checks import check_litert

        check_litert(path)

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
