"""The pyfunc model that MLflow stores with an export; it imports nothing of Millrace, and runs two of the stored parts:
the export's reader and what makes predictions."""

from __future__ import annotations

import base64
import binascii
import importlib.util
import json
import pathlib
import runpy
import sys
from typing import Any

import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.pyfunc.model import PythonModel

FILES = ("image", "audio")
"""Types of columns whose values are files."""


class ExportedModel(PythonModel):
    """Calls the serving signature of the SavedModel, and answers as `millrace predict` does."""

    def load_context(self, context: Any) -> None:
        """Load the SavedModel, kept as long as its signature, what reads rows and what makes predictions of outputs."""
        import tensorflow as tf

        folder = pathlib.Path(context.artifacts["export"])
        self._loaded = tf.saved_model.load(str(folder / "saved_model" / "saved_model"))
        self._serve = self._loaded.signatures["serving_default"]
        specs = self._serve.structured_input_signature[1]
        self._dtypes = {name: spec.dtype.as_numpy_dtype for name, spec in specs.items()}
        self._transform = json.loads(pathlib.Path(context.artifacts["transform"]).read_bytes())
        self._prediction = runpy.run_path(context.artifacts["prediction"])  # an import would write beside it
        self._reader = _reader(folder / "transform") if (folder / "transform" / "reader").is_dir() else None

    _skip_type_hint_validation = True  # rows are checked by the reader; MLflow would advise other type hints

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        """Return the prediction for each row of a DataFrame: of a classifier `{"class", "confidence", "top"}`.

        Its columns are the raw ones, in any order: texts, numbers, times, lists; files are bytes, or their base64.
        What is missing is None or NaN. `params={"raw": True}` gives the model's outputs, float32 logits
        [batch, classes] of a classifier. A language model takes tokens [batch, length], and always gives its outputs.
        """
        import tensorflow as tf

        given = self._inputs(model_input)
        batch = {name: tf.constant(np.asarray(given[name], dtype)) for name, dtype in self._dtypes.items()}
        outputs = next(iter(self._serve(**batch).values())).numpy()
        if self._transform["task"] not in self._prediction["ROWS"] or (params or {}).get("raw"):
            return outputs
        further = {}
        if "further" in self._transform:
            results = self._loaded.signatures["further"](**batch)
            further = {name: tensor.numpy() for name, tensor in results.items()}
        return self._prediction["predictions"](outputs, self._transform, given, further)

    def _inputs(self, given: Any) -> Any:
        """Return the model's inputs by name."""
        if self._reader is None:
            return dict.fromkeys(self._dtypes, given)
        rows = given[list(self._reader.columns)].to_dict("records")
        try:
            return self._reader([_plain(row, self._reader.columns) for row in rows])
        except ValueError as reason:  # it names the value's place
            raise MlflowException(str(reason), INVALID_PARAMETER_VALUE) from None


def _plain(row: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    """Return a row as the reader takes it: pandas has NaN for what is missing of any type."""
    plain = {name: None if pd.isna(value) is True else value for name, value in row.items()}
    # A text is never a path, which would be that of a file of the server's.
    files = {name for name, kind in columns.items() if kind in FILES and isinstance(plain[name], str)}
    return plain | {name: _decoded(name, plain[name]) for name in files}


def _decoded(column: str, text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        rule = f"column {column}: {text[:40]!r}; must be the bytes of a file, or them in base64"
        raise ValueError(rule) from None


def _reader(transform: pathlib.Path) -> Any:
    """Load an export's reader: under a name of its own, as several models may be loaded, and without bytecode, which
    would be written into the export."""
    package = transform / "reader"
    name = f"millrace_reader_{abs(hash(str(transform.resolve())))}"
    spec = importlib.util.spec_from_file_location(
        name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None and spec.loader is not None, "the file of an export"
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module.Reader.open(transform)
    finally:
        sys.dont_write_bytecode = writes


set_model(ExportedModel())
