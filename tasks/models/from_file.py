"""A model whose architecture is in a `.keras` file, read in Keras' safe mode: layers of Keras alone, no code."""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
from keras.src.backend.common import global_state

from tasks.config.models import KerasFileModel
from tasks.errors import Failed, UserError
from tasks.models.imported import finished, output_count, repeatable
from tasks.models.keras_archive import FIELD, MOST_BYTES, TRUST, WEIGHTS, architecture_of, weights_in

MOST_NUMBER = 1 << 33
"""The largest number in a description; a file of some bytes can name sizes that no memory holds."""
MOST_LAYERS = 20_000
"""Objects in a description: each is built before any size is known."""
MOST_VALUE = 1 << 30
"""Bytes of a layer's output for one example."""


def build(config: KerasFileModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model of the file, with new weights by the seed, or those of the file.

    It is built without memory first, so that its size is known before there is a need for it.

    Raises:
        Failed: the file has layers that Keras does not know, a function, or shapes that do not fit; or its variables,
            its weights or the values between its layers are too large.
    """
    path = Path(config.path)
    outputs = output_count(config.task, features)

    def make() -> keras.Model:
        with repeatable(seed):
            return finished(config, described(path, FIELD), features, outputs)

    size = bytes_of(make, FIELD, path.name)
    if config.weights_file is None:
        return make()
    with repeatable(seed):
        model = described(path, FIELD)
        load_weights(model, path, FIELD, size)
        return finished(config, model, features, outputs)


def load(path: Path, field: str) -> keras.Model:
    """Return the model of a file as it was saved, with its weights, for the field that names it; raises `Failed`."""
    size = bytes_of(lambda: described(path, field), field, path.name)
    model = described(path, field)
    load_weights(model, path, field, size)
    return model


def load_weights(model: keras.Model, path: Path, field: str, size: int) -> None:
    """Load the weights of a `.keras` or `.weights.h5` file into a model of `size` bytes; raises `Failed`."""
    try:
        with weights_in(path, field, size) as weights:
            if path.suffix == ".h5":  # of a `.keras` file the model is that of the weights
                refuse_other_weights(model, path, field)
            model.load_weights(weights)
    except Failed:
        raise
    except Exception as error:  # of Keras, h5py or zipfile
        raise unreadable(field, path, error) from error


def refuse_other_weights(model: keras.Model, path: Path, field: str) -> None:
    """Raise `Failed` where a `.weights.h5` has layers or shapes that this model has not: Keras takes weights by their
    place, whatever the layers are called."""
    try:
        found = layers_of(path)
        with tempfile.TemporaryDirectory(prefix="weights-") as folder:
            own = Path(folder) / WEIGHTS
            model.save_weights(own)
            expected = layers_of(own)
    except OSError as error:  # of h5py
        raise unreadable(field, path, error) from error
    for place in (place for place in [*expected, *found] if found.get(place) != expected.get(place)):
        rule = f"this model has {expected.get(place, 'no such layer')} there, and weights are taken by their place"
        remedy = "name weights of this model, or the whole model (.keras), whose layers train.init maps by name"
        raise Failed(field, f"{path.name}: {place} is {found.get(place, 'not there')}", rule, remedy)


def layers_of(path: Path) -> dict[str, str]:
    """Return name and shapes of each layer with weights by its place in a `.weights.h5`, without states of random
    numbers and of optimizers. Numbers that Keras gave to names are left out: they count the layers of a process."""
    import h5py

    layers: dict[str, str] = {}

    def add(place: str, group: Any) -> None:
        if place.rpartition("/")[2] != "vars" or "seed_generator" in place or place.startswith("optimizer/"):
            return
        if isinstance(group, h5py.Group) and len(group):
            shapes = ", ".join(str(list(group[key].shape)) for key in sorted(group, key=int))
            name = re.sub(r"_\d+$", "", str(group.attrs.get("name", "")))
            layers[place.removesuffix("/vars")] = f"{name} {shapes}"

    with h5py.File(path, "r") as file:
        file.visititems(add)
    return layers


def described(path: Path, field: str) -> keras.Model:
    """Return the model that a file describes, with new weights; raises `Failed`."""
    try:
        description = json.loads(architecture_of(path, field))
        refuse_large(description, field)
        description.pop("compile_config", None)
        model = keras.saving.deserialize_keras_object(under_policy(description), safe_mode=True)
    except UserError:
        raise
    except Exception as error:  # of Keras or json
        raise unreadable(field, path, error) from error
    if not isinstance(model, keras.Model):
        raise Failed(field, f"{path.name}: a {type(model).__name__}", "must be a model", "save a whole model")
    return model


def unreadable(field: str, path: Path, error: Exception) -> Failed:
    """Return the error of a file that Keras does not read."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
    rule = "its layers are those of Keras; functions and classes of others are not run from a file"
    remedy = "use model.kind import with the code that makes it"
    return Failed(field, f"{path.name}: {type(error).__name__}: {said}", rule, remedy)


def under_policy(description: Any) -> Any:
    """Return the description with the dtype policy of the training in place of float32, which the file has saved."""
    if isinstance(description, list):
        return [under_policy(each) for each in description]
    if not isinstance(description, dict):
        return description
    if description.get("class_name") == "DTypePolicy" and description.get("config") == {"name": "float32"}:
        return {**description, "config": {"name": keras.config.dtype_policy().name}}
    return {key: under_policy(each) for key, each in description.items()}


def refuse_large(description: Any, field: str) -> None:
    """Raise `Failed` for numbers that could only be sizes beyond any memory, and for more layers than a model has."""
    waiting, layers = [description], 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            layers += "class_name" in value
            waiting += [each for name, each in value.items() if name != "shared_object_id"]  # an address in memory
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > MOST_NUMBER:
            raise Failed(field, f"a number {value:,}", f"no size in a model passes {MOST_NUMBER:,}", TRUST)
    if layers > MOST_LAYERS:
        raise Failed(field, f"{layers:,} layers and their parts", f"a model has {MOST_LAYERS:,} at most", TRUST)


def bytes_of(make: Callable[[], keras.Model], field: str, name: str) -> int:
    """Return the bytes of the variables of a model, which is made without memory for them.

    In a scope without state Keras keeps the shapes of new variables, and would make them at its end; private attributes
    of Keras are used to forget them.

    Raises:
        Failed: the variables, or the output of a layer for one example, are too large.
    """
    before = global_state.get_global_attribute("uninitialized_variables")
    global_state.set_global_attribute("uninitialized_variables", [])
    try:
        with keras.StatelessScope(initialize_variables=False):
            model = make()
    finally:
        global_state.set_global_attribute("uninitialized_variables", before or [])
    size = size_of(model)
    remedy = "use a file that you trust, or model.kind import with the code that makes it"
    if size > MOST_BYTES:
        raise Failed(field, f"{name}: variables of {size:,} bytes", f"{MOST_BYTES:,} at most", remedy)
    for tensor in values_of(model):
        if (needed := math.prod(tensor.shape[1:] if None not in tensor.shape[1:] else [0]) * 4) > MOST_VALUE:
            saw = f"{name}: a value {list(tensor.shape)} between layers, {needed:,} bytes for each example"
            raise Failed(field, saw, f"{MOST_VALUE:,} at most", remedy)
    return size


def size_of(model: keras.Model) -> int:
    """Return the bytes of the variables of a model."""
    return sum(math.prod(variable.shape) * itemsize(variable.dtype) for variable in model.variables)


def values_of(model: keras.Model) -> Iterator[Any]:
    """Yield the symbolic values of the graphs of a model and of the models in it."""
    for layer in model._flatten_layers():
        graph = getattr(layer, "_functional", None) or layer  # of a Sequential model
        for operation in getattr(graph, "operations", ()):
            for node in operation._inbound_nodes:
                yield from node.outputs


def itemsize(dtype: str) -> int:
    """Return the bytes of a value of a Keras dtype, as `float32`."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else 8
