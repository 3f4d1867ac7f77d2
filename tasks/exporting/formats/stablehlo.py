"""The model as StableHLO in JAX's serialised form; batch size and length stay free.

TensorFlow's own ways to StableHLO fix the batch size. So Keras builds the model of the `.keras` file once more on JAX,
in a process of its own, and JAX exports it. To run it, JAX alone is needed.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from .format import TRUST, Format

PLATFORMS = ("cpu", "cuda", "tpu")
"""What the file can run on."""
OUTPUT = "logits"
CALLS = {"shape_assertion"}
"""What an exported function calls besides: JAX's check of free sizes."""
TIMEOUT = 1800.0
"""Seconds after which the process is ended."""


class StableHlo(Format):
    """An exported function of JAX, which uses the threads of the process; compiled once for each shape."""

    kind = "stablehlo"
    about = "for JAX"
    file = "model.stablehlo"
    parent = "keras"
    extra = "jax"
    libraries = ("jax", "jaxlib", "keras")
    packages = ("jax",)
    runtimes = ("jax",)

    code = """\
import jax
import numpy as np

with open("$file", "rb") as file:
    model = jax.jit(jax.export.deserialize(bytearray(file.read())).call)


def predict(inputs):
    return np.asarray(model(inputs)["$output"])

"""

    @staticmethod
    def write(model: Any, preprocess: Any, parent: Path | None, target: Path, functions: Any = ()) -> None:
        """Convert the `.keras` file `parent`; inputs and output keep their names, shapes and dtypes.

        Raises:
            RuntimeError: an operation has no counterpart in JAX, or a class is not of Keras.
        """
        import subprocess

        script = str(Path(__file__).parent.with_name("verify.py"))
        settings = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(
            [sys.executable, "-I", script, "convert", __file__, "StableHlo", str(parent), str(target)],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])

    @staticmethod
    def convert(source: Path, target: Path) -> None:
        """Do the work of `write` in a process whose Keras is on JAX."""
        import jax
        import keras
        from jax import export

        model = keras.models.load_model(source, compile=False, safe_mode=True)
        names = [each.name for each in model.inputs]
        scope = export.SymbolicScope()
        inputs = {}
        for each in model.inputs:
            sizes = ["batch", *(size or f"length{axis}" for axis, size in enumerate(each.shape[1:], 1))]
            shape = export.symbolic_shape(", ".join(map(str, sizes)), scope=scope)
            inputs[each.name] = jax.ShapeDtypeStruct(shape, each.dtype)

        def call(batch: Any) -> Any:
            return {OUTPUT: model(batch[names[0]] if len(names) == 1 else batch, training=False)}

        target.write_bytes(export.export(jax.jit(call), platforms=PLATFORMS)(inputs).serialize())

    @staticmethod
    def check(path: Path) -> None:
        """Raise `Failed` for calls of what the process has registered, such as functions in Python; nothing is run."""
        from jax import export

        from tasks.errors import Failed

        try:
            text = export.deserialize(bytearray(path.read_bytes())).mlir_module()
        except Exception as error:  # of flatbuffers, MLIR and JAX
            raise Failed(
                str(path), f"{type(error).__name__}: {error}", "it is an exported function of JAX", TRUST
            ) from error
        for name in sorted({*re.findall(r"custom_call\s*@(\S+?)\(", text)} - CALLS):
            raise Failed(str(path), f"a call of {name}", "operations are those of StableHLO", TRUST)

    def __init__(self, path: Path, threads: int) -> None:
        import jax
        from jax import export

        self._exported = export.deserialize(bytearray(path.read_bytes()))
        self._call = jax.jit(self._exported.call)
        self._unflatten = jax.tree.unflatten

    @property
    def interface(self) -> dict[str, Any]:
        """The only signature; shape and dtype of inputs and outputs by name."""
        (inputs,), _ = self._unflatten(self._exported.in_tree, self._exported.in_avals)
        outputs = self._unflatten(self._exported.out_tree, self._exported.out_avals)
        described = {
            side: {
                name: [[size if isinstance(size, int) else None for size in value.shape], value.dtype.name]
                for name, value in values.items()
            }
            for side, values in (("inputs", inputs), ("outputs", outputs))
        }
        return {"signatures": ["call"], **described}

    def __call__(self, batch: Any) -> Any:
        import numpy as np

        (output,) = self._call(dict(batch)).values()
        return np.asarray(output)
