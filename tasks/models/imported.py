"""A model that a function of the user's returns: Sequential, Functional, or of a class of their own.

Random numbers are seeded before the function is called, and Keras' counters of names begin at 0, so that the same
function gives the same weights under the same names in every process.
"""

from __future__ import annotations

import inspect
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
from keras.src.backend.common import global_state
from keras.src.random import seed_generator

from tasks.config.models import ImportedModel
from tasks.config.task import LABEL, TASKS
from tasks.environment.user_code import raised_at
from tasks.errors import Failed
from tasks.models.features import TOKENS, Input, classes, model_inputs, targets
from tasks.models.layers import layer_seed
from tasks.reader.function import imported

NAMES = "object_name_uids"
"""Keras' counters of names, which number unnamed layers by process."""
RULE = "is called with model.arguments, and returns a Keras model"


def build(config: ImportedModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model: inputs by the names of the features to float32 logits or outputs.

    Raises:
        Failed: the function raises an error, returns no model, or one with other outputs than the task needs.
    """
    outputs = output_count(config.task, features)
    function = attempt(config, lambda: imported(config.target, Path(config.folder)), features)

    def make() -> keras.Model:
        offered = {"features": features, "outputs": outputs, "seed": seed}
        named = inspect.signature(function).parameters
        given = {name: value for name, value in offered.items() if name in named and name not in config.arguments}
        return function(**given, **in_order(config.arguments))

    with repeatable(seed):
        model = attempt(config, make, features)
        if not isinstance(model, keras.Model):
            raise failed(config, f"returned a {type(model).__name__}", features)
        return finished(config, model, features, outputs)


def in_order(value: Any) -> Any:
    """Return a JSON value with its mappings in order of their keys, as digests and the store have them."""
    if isinstance(value, dict):
        return {key: in_order(item) for key, item in sorted(value.items())}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def finished(config: Any, model: keras.Model, features: dict[str, Any], outputs: int) -> keras.Model:
    """Return a model that reads the features by name, and whose output is a float32 tensor of the task's shape."""
    inputs = {
        each.name: keras.Input(shape_of(each), dtype=each.dtype, name=each.name) for each in model_inputs(features)
    }
    given = inputs if len(inputs) > 1 else next(iter(inputs.values()))
    if reads_by_name(model, inputs):
        given, result = model.input, model.output
    else:
        result = attempt(config, lambda: model(given), features)
    result = joined(config, result, features)
    expected = (None, None, outputs) if TASKS[config.task].of_tokens else (None, outputs)
    if len(result.shape) != len(expected) or result.shape[-1] != outputs:
        saw = f"returned a model with outputs {list(result.shape)}"
        rule = f"the task {config.task} needs {list(expected)}: {counted(config.task, outputs)}"
        raise Failed(field_of(config), saw, rule, "give its last layer so many units")
    refuse_probabilities(config, model)
    result = keras.layers.Activation("linear", dtype="float32", name="outputs")(result)
    return keras.Model(given, result, name="brought")


def reads_by_name(model: keras.Model, inputs: dict[str, Any]) -> bool:
    """Return whether a model is a graph from exactly these inputs, so that nothing must be put around it."""
    own = getattr(model, "inputs", None)
    if not own or not isinstance(getattr(model, "output", None), keras.KerasTensor):
        return False
    return {each.name: (each.dtype, each.shape) for each in own} == {
        name: (each.dtype, each.shape) for name, each in inputs.items()
    }


def joined(config: Any, result: Any, features: dict[str, Any]) -> keras.KerasTensor:
    """Return a single output: the only one, or those of several targets side by side."""
    if isinstance(result, keras.KerasTensor):
        return result
    names = targets(features) if TASKS[config.task].target == "target" else []
    parts = [result[name] for name in names] if isinstance(result, dict) and set(result) == set(names) else result
    if isinstance(parts, list | tuple) and len(parts) == len(names) > 0:
        return keras.layers.Concatenate(name="targets")(list(parts))
    saw = f"returned a model with {len(result)} outputs"
    rule = "one output is trained, or one for each of several targets, in their order or by name"
    raise Failed(field_of(config), saw, rule, f"the targets are {', '.join(names)}" if names else "return a single one")


def refuse_probabilities(config: Any, model: keras.Model) -> None:
    """Raise `Failed` where the last layer has an activation: outputs are logits."""
    layers = [layer for layer in getattr(model, "layers", []) if not isinstance(layer, keras.layers.InputLayer)]
    activation = getattr(getattr(layers[-1], "activation", None), "__name__", None) if layers else None
    if activation in ("softmax", "sigmoid") and config.task != "regression":
        saw = f"its last layer {layers[-1].name} has the activation {activation}"
        rule = "outputs are logits: the loss and the exported model have the activation"
        raise Failed(field_of(config), saw, rule, "leave the activation out")


def output_count(task: str, features: dict[str, Any]) -> int:
    """Return the size of the last axis of a model's outputs."""
    if task == "language_model":
        return int(features[TOKENS]["vocabulary"])
    return len(classes(features)) if TASKS[task].target == LABEL else len(targets(features))


def counted(task: str, outputs: int) -> str:
    """Return what the outputs are."""
    return f"{outputs} {({None: 'tokens', LABEL: 'classes'}).get(TASKS[task].target, 'targets')}"


def shape_of(feature: Input) -> tuple[int | None, ...]:
    """Return the shape of an input, whose length is free where it is a text."""
    return (None,) if feature.padded or feature.name == TOKENS else feature.shape


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Seed the random numbers of Python, NumPy and Keras, and count names from 0, within the context.

    Keras takes the seeds of what has none from Python's generator, which all threads and imports of a process share;
    here it has one of its own. Private attributes of Keras are replaced.
    """
    names, number = global_state.get_global_attribute(NAMES), layer_seed(seed, "model") % 2**31
    keras.utils.set_random_seed(number)
    global_state.set_global_attribute(NAMES, defaultdict(int))
    shared, seed_generator.python_random = seed_generator.python_random, random.Random(number)
    try:
        yield
    finally:
        seed_generator.python_random = shared
        global_state.set_global_attribute(NAMES, names)


def attempt(config: Any, make: Callable[[], Any], features: dict[str, Any]) -> Any:
    """Return what the user's code returns; raises `Failed` with file and line where it fails."""
    try:
        return make()
    except Failed:
        raise
    except Exception as error:  # whatever the user's code raises
        folder = Path(getattr(config, "folder", "."))
        said = (str(error).strip() or "no message").splitlines()[0][:300]
        where = raised_at(error, folder)
        raise failed(config, f"{f'{where}: ' if where else ''}{type(error).__name__}: {said}", features) from error


def failed(config: Any, saw: str, features: dict[str, Any]) -> Failed:
    """Return the error of a model that cannot be built; it names the features of the snapshot."""
    known = ", ".join(f"{name} {list(feature['shape'])}" for name, feature in features.items())
    saw = f"{getattr(config, 'target', '')} {saw}".strip()
    return Failed(field_of(config), saw, RULE, f"correct it; the features are {known}")


def field_of(config: Any) -> str:
    """Return the setting that names a brought model."""
    return "model.target" if config.kind == "import" else "model.path"
