"""Predictions for a few examples over a training, as a table on the run's page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.task import UNTAGGED
from tasks.display.examples import Texts
from tasks.feed import open_snapshot
from tasks.models.features import TOKENS, classes, model_inputs, targets
from tasks.pages import seeds
from tasks.pages.batch import picture
from tasks.pages.facts import Facts
from tasks.training.samples import FILE, read

STEPS = 6
"""Evaluations that are shown: the first, the last, and some between."""
CHARACTERS = 160

Arrays = dict[str, NDArray[Any]]
Cell = tuple[str, bool | None]
"""A prediction as text, and whether it is right; None where that is no question of yes or no."""


def samples(facts: Facts) -> dict[str, Any] | None:
    """Return steps, and for each example its picture or text, the right answer, and a prediction for each step."""
    folder, snapshot = seeds.own_folder(facts), facts.one("snapshot")
    if folder is None or snapshot is None or not (taken := read(folder / FILE)):
        return None
    reader, texts = open_snapshot(snapshot.path), Texts(snapshot.path)
    right, predicted = SHOWN[facts.config.model.task]
    numbers = {*np.linspace(0, len(taken) - 1, STEPS).round().astype(int).tolist()}
    chosen = [taken[number] for number in sorted(numbers)]
    rows = []
    for number in range(len(chosen[0][1])):
        arrays = {name: np.asarray(array[number]) for name, array in reader.arrays("validation").items()}
        cells = [predicted(predictions[number], arrays, reader.features, texts) for _, predictions in chosen]
        rows.append({**inputs(arrays, reader.features, texts), "right": right(arrays, reader.features), "cells": cells})
    return {"steps": [step for step, _ in chosen], "rows": rows}


def inputs(arrays: Arrays, features: dict[str, Any], texts: Texts) -> dict[str, Any]:
    """Return the address of an example's picture, and its text, where it has them."""
    shown: dict[str, Any] = {"picture": None, "text": ""}
    for each in model_inputs(features):
        values = arrays[each.name]
        if values.ndim == 3 and values.dtype == np.uint8:
            shown["picture"] = picture(values)
        elif "vocabulary" in features[each.name]:
            shown["text"] = shortened(texts.decoded(each.name, values))
    return shown


def _class(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    (best, probability), *_ = predicted
    return f"{classes(features)[best]} {probability:.0%}", best == int(arrays["label"])


def _labels(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    names = targets(features)
    return ", ".join(f"{names[number]} {probability:.0%}" for number, probability in predicted), None


def _values(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    return ", ".join(f"{value:.4g}" for value in predicted), None


def _text(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    return shortened(texts.decoded(TOKENS, np.array(predicted))), None


def _tags(predicted: Any, arrays: Arrays, features: dict[str, Any], texts: Texts) -> Cell:
    return shortened(_named(np.array(predicted), arrays, features)), None


def _named(numbers: NDArray[Any], arrays: Arrays, features: dict[str, Any]) -> str:
    """Return the classes of the tokens of an example."""
    return " ".join(classes(features)[number] for number in numbers[arrays["label"] != UNTAGGED].tolist())


def _right_labels(arrays: Arrays, features: dict[str, Any]) -> str:
    names = targets(features)
    return ", ".join(names[number] for number in np.flatnonzero(arrays["target"])) or "none"


SHOWN: dict[str, tuple[Callable[[Arrays, dict[str, Any]], str], Callable[..., Cell]]] = {
    "classification": (lambda arrays, features: classes(features)[int(arrays["label"])], _class),
    "multilabel": (_right_labels, _labels),
    "anomaly": (_right_labels, _labels),
    "ranking": (_right_labels, _labels),
    "regression": (lambda arrays, features: ", ".join(f"{value:.4g}" for value in arrays["target"].ravel()), _values),
    "language_model": (lambda arrays, features: "", _text),
    "tagging": (lambda arrays, features: shortened(_named(arrays["label"], arrays, features)), _tags),
}
"""What is shown of the right answer and of a prediction, by `model.task`."""


def shortened(text: str) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text.split())
    return line if len(line) <= CHARACTERS else f"{line[:CHARACTERS]}…"
