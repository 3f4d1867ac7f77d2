"""Predictions from the outputs of a model, with the temperature and the thresholds that were fitted on validation.

Imports NumPy alone: the file is stored with each registered version, whose pyfunc model answers as `millrace predict`
without Millrace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Transform = Mapping[str, Any]
"""Of an export: `classes` or `targets`, and where they were fitted `temperature` and `thresholds`."""

TOP = 3
"""Number of classes in a prediction."""


def class_of(outputs: Floats, transform: Transform) -> dict[str, Any]:
    """Return the class of logits [classes], its confidence, and the most probable classes with theirs, it first."""
    scaled = outputs / transform.get("temperature", 1.0)
    confidences = np.exp(scaled - scaled.max())
    confidences /= confidences.sum()
    order = np.argsort(-confidences, kind="stable")[:TOP]
    for positive, threshold in transform.get("thresholds", {}).items():  # of two classes
        number = transform["classes"].index(positive)
        order = np.array([number, 1 - number] if confidences[number] > threshold else [1 - number, number])
    top = [{"class": transform["classes"][index], "confidence": float(confidences[index])} for index in order]
    return {**top[0], "top": top}


def labels_of(outputs: Floats, transform: Transform) -> dict[str, Any]:
    """Return the probability of each label of logits [labels], and with thresholds the labels that are predicted."""
    probabilities = np.exp(-np.logaddexp(0.0, -outputs / transform.get("temperature", 1.0)))  # sigmoid
    labels = dict(zip(transform["targets"], map(float, probabilities), strict=True))
    thresholds = transform.get("thresholds")
    if thresholds is None:
        return {"labels": labels}
    return {"labels": labels, "predicted": [name for name, value in labels.items() if value > thresholds[name]]}


def relevance_of(outputs: Floats, transform: Transform) -> dict[str, Any]:
    """Return the probability that a document is relevant; ranking has no threshold."""
    return {"labels": labels_of(outputs, transform)["labels"]}


def values_of(outputs: Floats, transform: Transform) -> dict[str, Any]:
    """Return the predicted numbers [targets] by name."""
    return {"values": dict(zip(transform["targets"], map(float, outputs), strict=True))}


def tags_of(outputs: Floats, transform: Transform) -> dict[str, Any]:
    """Return the most probable class of each word from logits [words, classes]."""
    return {"tags": [transform["classes"][number] for number in outputs.argmax(axis=-1)]}


ROWS: dict[str, Callable[[Floats, Transform], dict[str, Any]]] = {
    "classification": class_of,
    "multilabel": labels_of,
    "anomaly": labels_of,
    "ranking": relevance_of,
    "regression": values_of,
    "tagging": tags_of,
}
"""By `model.task`: the prediction for the outputs of an example. Of a language model it takes several calls."""


def predictions(outputs: Any, transform: Transform, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the predictions for outputs [batch, ...] of the transform's `task`.

    `inputs` are those of the model: a row of words has tags for as many as there are before its padding.
    """
    given = np.asarray(outputs, np.float64)
    rows = list(given)
    if given.ndim == 3:
        [ids, *_] = (np.asarray(each) for each in inputs.values() if np.shape(each) == given.shape[:2])
        rows = [row[: np.count_nonzero(own)] for row, own in zip(rows, ids, strict=True)]
    return [ROWS[transform["task"]](row, transform) for row in rows]
