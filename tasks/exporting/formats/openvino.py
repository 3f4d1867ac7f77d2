"""The model in OpenVINO's format, converted from the SavedModel; it computes in float32."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .format import TRUST, Format

GRAPH = "model.xml"
"""The architecture; the weights are beside it in `model.bin`."""

EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
"""Without it OpenVINO computes in bfloat16 where the processor can, and outputs differ in the third digit."""


class OpenVino(Format):
    """A folder of OpenVINO with the architecture and the weights."""

    kind = "openvino"
    file = "openvino"
    parent = "saved_model"
    extra = "openvino"
    libraries = ("openvino",)
    packages = ("openvino",)
    runtimes = ("openvino",)
    shares_threads = False

    code = """\
import numpy as np
import openvino

options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}  # not bfloat16
model = openvino.Core().compile_model("$file/model.xml", "CPU", options)


def predict(inputs):
    return model(inputs)[0].copy()

"""

    @staticmethod
    def write(model: Any, preprocess: Any, parent: Path | None, target: Path, functions: Any = ()) -> None:
        """Convert the SavedModel folder `parent` to a folder with `model.xml` and `model.bin`, float32.

        Inputs and output keep their names, shapes and dtypes. `openvino.convert_model`, which would do the same,
        reports its use to the makers of OpenVINO.

        Raises:
            RuntimeError: OpenVINO has no counterpart of an operation.
        """
        import openvino

        converted = openvino.Core().read_model(str(parent))
        for number, operation in enumerate(converted.get_ordered_ops()):
            if re.fullmatch(r"[A-Za-z]+_\d+", operation.get_friendly_name()):  # a number that counts up in the process
                operation.set_friendly_name(f"{operation.get_type_name()}_{number}")
        target.mkdir()
        openvino.save_model(converted, target / GRAPH, compress_to_fp16=False)

    @staticmethod
    def check(path: Path) -> None:
        """Raise `Failed` for other files than the graph and its weights, for links, and for definitions in the XML."""
        from tasks.errors import Failed

        names = sorted(each.name for each in path.iterdir())
        if names != ["model.bin", GRAPH] or any(each.is_symlink() or not each.is_file() for each in path.iterdir()):
            raise Failed(str(path), ", ".join(names), f"it holds the files model.bin and {GRAPH}", TRUST)
        text = (path / GRAPH).read_bytes()
        if (found := re.search(rb"<!(DOCTYPE|ENTITY)", text)) is not None:
            raise Failed(str(path / GRAPH), found[0].decode(), "a graph has no definitions of its own", TRUST)

    def __init__(self, path: Path, threads: int) -> None:
        import openvino

        options = {**EXACT, "INFERENCE_NUM_THREADS": threads}
        self._model = openvino.Core().compile_model(path / GRAPH, "CPU", options)

    @property
    def interface(self) -> dict[str, Any]:
        """The only signature; shape and dtype of inputs and outputs by name."""
        described = {
            side: {
                port.get_any_name(): [
                    [None if size.is_dynamic else size.get_length() for size in port.partial_shape],
                    port.element_type.to_dtype().name,
                ]
                for port in ports
            }
            for side, ports in (("inputs", self._model.inputs), ("outputs", self._model.outputs))
        }
        return {"signatures": ["serving_default"], **described}

    def __call__(self, batch: Any) -> Any:
        return self._model(dict(batch))[0].copy()  # the next call may write to the same memory
