"""A model whose architecture is in a `.keras` file, read in Keras' safe mode: layers of Keras alone, no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras

from tasks.config import KerasFileModel
from tasks.errors import Failed
from tasks.models.brought import architecture_of
from tasks.models.imported import finished, output_count, repeatable

MOST_WEIGHTS = 1 << 33
"""Weights of a model at most: a file of some bytes can name shapes that no memory holds."""


def build(config: KerasFileModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model of the file, with new weights by the seed, or those of the file.

    Raises:
        Failed: the file has layers that Keras does not know, a function, or shapes that do not fit.
    """
    path = Path(config.path)
    with repeatable(seed):
        model = made(config, path)
        return finished(config, model, features, output_count(config.task, features))


def made(config: KerasFileModel, path: Path) -> keras.Model:
    """Return the model as the file describes it."""
    try:
        description = json.loads(architecture_of(path))
        refuse_large(description)
        description.pop("compile_config", None)
        model = keras.saving.deserialize_keras_object(under_policy(description), safe_mode=True)
        if config.weights_file is not None:
            trained = keras.saving.load_model(path, compile=False, safe_mode=True)
            for variable, source in zip(model.variables, trained.variables, strict=True):
                variable.assign(source)
    except Failed:
        raise
    except Exception as error:  # of Keras, json, h5py or zipfile
        said = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        rule = "its layers are those of Keras; functions and classes of others are not run from a file"
        remedy = "use model.kind import with the code that makes it"
        raise Failed("model.path", f"{path.name}: {type(error).__name__}: {said}", rule, remedy) from error
    if not isinstance(model, keras.Model):
        raise Failed("model.path", f"{path.name}: a {type(model).__name__}", "must be a model", "save a whole model")
    return model


def under_policy(description: Any) -> Any:
    """Return the description with the dtype policy of the training in place of float32, which the file has saved."""
    if isinstance(description, list):
        return [under_policy(each) for each in description]
    if not isinstance(description, dict):
        return description
    if description.get("class_name") == "DTypePolicy" and description.get("config") == {"name": "float32"}:
        return {**description, "config": {"name": keras.config.dtype_policy().name}}
    return {key: under_policy(each) for key, each in description.items()}


def refuse_large(description: Any) -> None:
    """Raise `Failed` for numbers that could only be sizes beyond any memory."""
    waiting = [description]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [each for name, each in value.items() if name != "shared_object_id"]  # an address in memory
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > MOST_WEIGHTS:
            rule = f"no size in a model passes {MOST_WEIGHTS:,}"
            raise Failed("model.path", f"a number {value:,}", rule, "use a file from a source that you trust")
