"""The pyfunc model that MLflow stores with an export; it imports NumPy and TensorFlow alone, and runs one more file."""

from __future__ import annotations

import json
import pathlib
import runpy
from typing import Any

import numpy as np
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel


class ExportedModel(PythonModel):
    """Calls the serving signature of the SavedModel, and answers as `millrace predict` does."""

    def load_context(self, context: Any) -> None:
        """Load the SavedModel, kept as long as its signature, and what makes predictions of its outputs."""
        import tensorflow as tf

        folder = pathlib.Path(context.artifacts["export"])
        self._loaded = tf.saved_model.load(str(folder / "saved_model" / "saved_model"))
        self._serve = self._loaded.signatures["serving_default"]
        specs = self._serve.structured_input_signature[1]
        self._dtypes = {name: spec.dtype.as_numpy_dtype for name, spec in specs.items()}
        self._transform = json.loads(pathlib.Path(context.artifacts["transform"]).read_bytes())
        self._prediction = runpy.run_path(context.artifacts["prediction"])  # an import would write beside it

    _skip_type_hint_validation = True  # arrays are checked by the signature; MLflow would advise other type hints

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        """Return the prediction for each example of a batch: of a classifier `{"class", "confidence", "top"}`.

        The batch is an array where the model has one input, else a mapping of arrays by the name of the input.
        `params={"raw": True}` gives the model's outputs, float32 logits [batch, classes] of a classifier; a language
        model always does.
        """
        import tensorflow as tf

        given = model_input if isinstance(model_input, dict) else dict.fromkeys(self._dtypes, model_input)
        batch = {name: tf.constant(np.asarray(given[name], dtype)) for name, dtype in self._dtypes.items()}
        outputs = next(iter(self._serve(**batch).values())).numpy()
        if self._transform["task"] not in self._prediction["ROWS"] or (params or {}).get("raw"):
            return outputs
        return self._prediction["predictions"](outputs, self._transform, given)


set_model(ExportedModel())
