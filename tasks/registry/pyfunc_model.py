"""The code that MLflow keeps beside an export: answers `predict(array)` with NumPy and TensorFlow alone."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class ExportedModel(PythonModel):
    """The SavedModel's serving signature; the input has the name and dtype that the export was made with."""

    def load_context(self, context: Any) -> None:
        """Load once; the object must live as long as its signature does."""
        import tensorflow as tf

        folder = pathlib.Path(context.artifacts["export"])
        self._loaded = tf.saved_model.load(str(folder / "saved_model" / "saved_model"))
        self._serve = self._loaded.signatures["serving_default"]
        self._input, spec = next(iter(self._serve.structured_input_signature[1].items()))
        self._dtype = spec.dtype.as_numpy_dtype

    def predict(self, context: Any, model_input: Any, params: dict[str, Any] | None = None) -> np.ndarray:
        """The model's outputs for a batch: float32 logits [batch, classes] for a classifier."""
        import tensorflow as tf

        batch = tf.constant(np.asarray(model_input, self._dtype))
        return next(iter(self._serve(**{self._input: batch}).values())).numpy()


set_model(ExportedModel())
