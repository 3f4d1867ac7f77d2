"""A model's view of a snapshot's features: its input, its classes, its targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.task import LABEL, SERVED_AS, TARGET, is_input
from tasks.errors import Failed

TOKENS = "tokens"
"""Name of the input of a language model."""
LOGITS = "logits"
"""Name of the output layer."""

Arrays = dict[str, NDArray[Any]]
"""A batch of a model's inputs by name, first axis the example."""


@dataclass(frozen=True)
class Input:
    """A feature that is a model's input; `shape` and `dtype` are those of one example."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    statistics: tuple[list[float], list[float]] | None = None
    """Mean and variance of each value over the train split; None where the snapshot has none."""
    sizes: tuple[int, ...] = ()
    """Of ids, the number of different ones in each position; of tokens one number, that of the vocabulary."""
    padded: bool = False
    """Whether it is a text's tokens, followed by `PADDING` up to the shape's length; a model takes any length."""


class InputArrays:
    """The inputs of a split by row: indexed by rows, it reads those of every input."""

    def __init__(self, inputs: list[Input], arrays: Mapping[str, Any]) -> None:
        self.inputs = {each.name: each for each in inputs}
        self._arrays = {name: arrays[name] for name in self.inputs}

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values())))

    def __getitem__(self, rows: Any, /) -> Arrays:
        return {name: self._read(name, rows) for name in self.inputs}

    def _read(self, name: str, rows: Any) -> NDArray[Any]:
        values = np.asarray(self._arrays[name][rows])
        if name == TOKENS:  # the last token is a target only
            values = values[..., :-1]
        return np.ascontiguousarray(values, dtype=self.inputs[name].dtype)


def model_inputs(features: dict[str, Any]) -> list[Input]:
    """Return the features that are inputs, in order of name.

    Raises:
        Failed: there are none.
    """
    names = sorted(filter(is_input, features))
    if not names:
        raise Failed("features", ", ".join(features), "a model reads at least one input", "choose another snapshot")
    return [_input(name, features[name]) for name in names]


def padded_inputs(features: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the inputs that are texts followed by padding."""
    return tuple(each.name for each in model_inputs(features) if each.padded)


def single_input(features: dict[str, Any]) -> Input:
    """Return the only input; raises `Failed` where there are several."""
    inputs = model_inputs(features)
    if len(inputs) > 1:
        names = ", ".join(each.name for each in inputs)
        raise Failed("features", names, "this architecture reads one input", "use model.kind mlp, or fewer columns")
    return inputs[0]


def _input(name: str, feature: dict[str, Any]) -> Input:
    shape = tuple(feature["shape"])
    if name == TOKENS:
        return Input(TOKENS, (shape[0] - 1,), "int32")
    statistics = (feature["mean"], feature["variance"]) if "mean" in feature else None
    sizes = tuple(feature["sizes"]) if "sizes" in feature else ()
    if "vocabulary" in feature:
        sizes = (feature["vocabulary"],)
    dtype = SERVED_AS.get(feature["dtype"], feature["dtype"])
    return Input(name, shape, dtype, statistics, sizes, padded="padding" in feature)


def input_arrays(features: dict[str, Any], arrays: Mapping[str, Any]) -> InputArrays:
    """Return the model's inputs of a split from its arrays by feature name."""
    return InputArrays(model_inputs(features), arrays)


def positions(features: dict[str, Any]) -> int:
    """Return the tokens of an example whose next one is predicted; 0 where there is no language model."""
    return int(features[TOKENS]["shape"][0]) - 1 if TOKENS in features else 0


def output_size(features: dict[str, Any]) -> int:
    """Return the number of outputs for an example; of a language model block * vocabulary, of tags length * classes."""
    if TOKENS in features:
        return int(features[TOKENS]["vocabulary"]) * (int(features[TOKENS]["shape"][0]) - 1)
    if LABEL in features:
        return len(features[LABEL]["classes"]) * math.prod(features[LABEL]["shape"])
    return int(features[TARGET]["shape"][0])


def classes(features: dict[str, Any]) -> list[str]:
    """Return the class names in the order of the labels 0, 1, ...

    Raises:
        Failed: there are fewer than two.
    """
    names = [str(name) for name in features.get(LABEL, {}).get("classes", ())]
    if len(names) < 2:
        raise Failed(f"features.{LABEL}.classes", names, "a classifier needs two classes", "check the source's labels")
    return names


def targets(features: dict[str, Any]) -> list[str]:
    """Return the names of the targets.

    Raises:
        Failed: the features have no target.
    """
    feature = features.get(TARGET)
    if feature is None:
        rule = "multilabel and regression need a feature target"
        raise Failed(
            "features", ", ".join(features), rule, "choose a source that has one, or model.task: classification"
        )
    return [str(name) for name in feature.get("names") or (f"target{i}" for i in range(feature["shape"][0]))]
