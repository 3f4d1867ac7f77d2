"""A model's view of a snapshot's features: its input, its classes, its targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.task import LABEL, TARGET
from tasks.errors import Failed

TOKENS = "tokens"


@dataclass(frozen=True)
class Input:
    """The feature that is a model's input; `shape` and `dtype` are those of one example."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    statistics: tuple[list[float], list[float]] | None = None
    """Mean and variance of each value over the train split; None where the snapshot has none."""


class Contexts:
    """Rows of tokens as a language model's inputs: int32 [rows, block], without the last token, a target only."""

    def __init__(self, tokens: Any) -> None:
        self._tokens = tokens
        self.shape = (len(tokens), tokens.shape[1] - 1)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any, /) -> NDArray[np.int32]:
        return np.asarray(self._tokens[rows])[..., :-1].astype(np.int32)


def model_input(features: dict[str, Any]) -> Input:
    """Return the one feature that is neither label nor target.

    Raises:
        Failed: there are several, or none.
    """
    names = sorted(set(features) - {LABEL, TARGET})
    if len(names) != 1:
        rule = "a model reads one feature besides label or target"
        raise Failed("features", names, rule, "choose another snapshot")
    feature = features[names[0]]
    shape = tuple(feature["shape"])
    if names[0] == TOKENS:
        return Input(TOKENS, (shape[0] - 1,), "int32")
    statistics = (feature["mean"], feature["variance"]) if "mean" in feature else None
    return Input(names[0], shape, feature["dtype"], statistics)


def input_array(features: dict[str, Any], arrays: Mapping[str, Any]) -> Any:
    """Return the model's inputs of a split, [N, *shape], from its arrays by feature name."""
    array = arrays[model_input(features).name]
    return Contexts(array) if TOKENS in features else array


def output_size(features: dict[str, Any]) -> int:
    """Return the number of outputs for an example; of a language model block * vocabulary."""
    if TOKENS in features:
        return int(features[TOKENS]["vocabulary"]) * (int(features[TOKENS]["shape"][0]) - 1)
    return len(features[LABEL]["classes"]) if LABEL in features else int(features[TARGET]["shape"][0])


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
