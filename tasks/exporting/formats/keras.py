"""The model as a `.keras` file: the architecture and the weights, for Keras alone."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any, ClassVar

from .format import Format


class KerasFile(Format):
    """A `.keras` file: the architecture and the weights. It has no signature for raw columns."""

    kind = "keras"
    about = "a `.keras` file, for Keras alone"
    file = "model.keras"
    libraries: ClassVar[tuple[str, ...]] = ("keras", "tensorflow")
    packages: ClassVar[tuple[str, ...]] = ("keras", "tensorflow")
    runtimes: ClassVar[tuple[str, ...]] = ("tensorflow", "keras")

    code = """\
import keras
import numpy as np

model = keras.models.load_model("$file", compile=False)


def predict(inputs):
    return np.asarray(model(inputs if len(inputs) > 1 else next(iter(inputs.values())), training=False))

"""

    @staticmethod
    def write(model: Any, preprocess: Any, parent: Path | None, target: Path, functions: Any = ()) -> None:
        """Write the file that the model's artifact has as well, byte for byte.

        Raises:
            NotImplementedError: a class of the user's has no `get_config`.
        """
        from tasks.models.keras_file import canonicalise

        saved = target.with_name("as_saved.keras")
        model.save(saved)
        canonicalise(saved, target)
        saved.unlink()

    @staticmethod
    def check(path: Path) -> None:
        """Raise `Failed` for names outside of the archive, and for more than a model has."""
        from tasks.models.keras_archive import check_archive

        with zipfile.ZipFile(path) as archive:
            check_archive(archive, str(path), KerasFile.file)

    def __init__(self, path: Path, threads: int) -> None:
        import tensorflow as tf

        self.model = model = self.read(path)
        names = [source.name for source in model.inputs]
        signature = {source.name: tf.TensorSpec(source.shape, source.dtype) for source in model.inputs}
        self._constant = tf.constant
        self._call = tf.function(
            lambda batch: model(batch[names[0]] if len(names) == 1 else batch, training=False),
            input_signature=[signature],
            autograph=False,
        )

    @staticmethod
    def read(path: Path) -> Any:
        """Return the model of a file, read in Keras' safe mode."""
        import keras

        return keras.models.load_model(path, compile=False, safe_mode=True)

    @property
    def interface(self) -> dict[str, Any]:
        """The only signature; shape and dtype of inputs and outputs by name; the hash of the weights."""
        outputs = {tensor._keras_history.operation.name: tensor for tensor in self.model.outputs}
        inputs = {tensor.name: tensor for tensor in self.model.inputs}
        described = {
            side: {name: [list(tensor.shape), tensor.dtype] for name, tensor in tensors.items()}
            for side, tensors in (("inputs", inputs), ("outputs", outputs))
        }
        return {"signatures": ["call"], **described, "weights_sha256": weights_sha256(self.model)}

    def __call__(self, batch: Any) -> Any:
        return self._call({name: self._constant(array) for name, array in batch.items()}).numpy()


def weights_sha256(model: Any) -> str:
    """Return the hash that `tasks.models.keras_file.weights_sha256` puts into the model's manifest."""
    import numpy as np

    total = hashlib.sha256()
    for weight in sorted(model.weights, key=lambda weight: weight.path):
        values = np.asarray(weight.value)
        values = values.astype(values.dtype.newbyteorder("<"), copy=False)  # `tobytes` is in order C
        described = [weight.path, values.dtype.name, list(values.shape)]
        total.update(json.dumps(described, separators=(",", ":"), ensure_ascii=False).encode())
        total.update(values.tobytes())
    return total.hexdigest()
