"""The pyfunc model that MLflow stores with an export; it imports NumPy and TensorFlow alone."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class ExportedModel(PythonModel):
    """Calls the serving signature of the SavedModel, with the input name and dtype of the export."""

    def load_context(self, context: Any) -> None:
        """Load the SavedModel; the object is kept as long as its signature."""
        import tensorflow as tf

        folder = pathlib.Path(context.artifacts["export"])
        self._loaded = tf.saved_model.load(str(folder / "saved_model" / "saved_model"))
        self._serve = self._loaded.signatures["serving_default"]
        specs = self._serve.structured_input_signature[1]
        self._dtypes = {name: spec.dtype.as_numpy_dtype for name, spec in specs.items()}

    _skip_type_hint_validation = True  # arrays are checked by the signature; MLflow would advise other type hints

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        """Return the model's outputs for a batch: float32 logits [batch, classes] for a classifier.

        The batch is an array where the model has one input, else a mapping of arrays by the name of the input.
        """
        import tensorflow as tf

        given = model_input if isinstance(model_input, dict) else dict.fromkeys(self._dtypes, model_input)
        batch = {name: tf.constant(np.asarray(given[name], dtype)) for name, dtype in self._dtypes.items()}
        return next(iter(self._serve(**batch).values())).numpy()


set_model(ExportedModel())
