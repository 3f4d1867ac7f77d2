"""The weights as a safetensors file, by the paths of Keras; its metadata hold the architecture."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

from .format import TRUST
from .keras import KerasFile

ARCHITECTURE = "keras_config"
"""The key of the metadata with the `config.json` of the `.keras` file."""


class Safetensors(KerasFile):
    """Weights by their paths, and the architecture of the `.keras` file that it is made from."""

    kind = "safetensors"
    about = "the weights by name, with the architecture"
    file = "model.safetensors"
    parent = "keras"
    extra = "safetensors"
    libraries = ("safetensors", "keras", "tensorflow")
    packages = ("safetensors", "keras", "tensorflow")
    runtimes = ("tensorflow", "keras", "safetensors.numpy")

    code = """\
import json

import keras
import numpy as np
from safetensors import safe_open

with safe_open("$file", "numpy") as file:
    model = keras.saving.deserialize_keras_object(json.loads(file.metadata()["keras_config"]))
    for weight in model.weights:
        weight.assign(file.get_tensor(weight.path))


def predict(inputs):
    return np.asarray(model(inputs if len(inputs) > 1 else next(iter(inputs.values())), training=False))

"""

    @staticmethod
    def write(model: Any, preprocess: Any, parent: Path | None, target: Path, functions: Any = ()) -> None:
        """Write the weights of the model and the architecture in the `.keras` file `parent`."""
        import keras
        import numpy as np
        from safetensors.numpy import save

        assert parent is not None
        with zipfile.ZipFile(parent) as archive:
            architecture = archive.read("config.json").decode()
        weights = {weight.path: np.asarray(weight.value, order="C") for weight in model.weights}
        metadata = {ARCHITECTURE: architecture, "keras_version": keras.__version__}
        target.write_bytes(canonical(save(weights, metadata)))

    @staticmethod
    def check(path: Path) -> None:
        """Raise `Failed` where the values of the header's tensors are not in the file; such a file runs no code."""
        from safetensors import SafetensorError, safe_open

        from tasks.errors import Failed

        try:
            with safe_open(path, "numpy") as file:
                json.loads(file.metadata()[ARCHITECTURE])
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            rule = "its header describes what follows, and the model"
            raise Failed(str(path), str(error), rule, TRUST) from error

    @staticmethod
    def read(path: Path) -> Any:
        """Return the model, built by the metadata's architecture, in Keras' safe mode, with the file's weights."""
        import keras
        from safetensors import safe_open

        with safe_open(path, "numpy") as file:
            architecture = json.loads(file.metadata()[ARCHITECTURE])
            model = keras.saving.deserialize_keras_object(architecture, safe_mode=True)
            assert sorted(weight.path for weight in model.weights) == sorted(file.keys()), "other weights"
            for weight in model.weights:
                weight.assign(file.get_tensor(weight.path))
        return model


def canonical(content: bytes) -> bytes:
    """Return a safetensors file with its header in the order of names: that of metadata differs by process."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    packed = json.dumps(dict(sorted(header.items())), separators=(",", ":")).encode()
    packed += b" " * (-len(packed) % 8)  # the tensors begin at a multiple of 8 bytes
    return struct.pack("<Q", len(packed)) + packed + content[8 + length :]
