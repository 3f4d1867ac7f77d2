"""What the outputs of a model mean, by task: as a row of `predict`, and as text and code of an export's README."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

Floats = npt.NDArray[np.float64]

TOP = 3
"""Number of classes in a prediction."""

PREDICTED = 0.5
"""Probability above which a label is predicted."""


@dataclass(frozen=True)
class Answers:
    """The outputs of a task."""

    row: Callable[[Floats, dict[str, Any]], dict[str, Any]] | None
    """From the outputs for an example and the transform to a prediction; None where it takes several calls."""

    about: str
    """Describes the outputs, with the fields that `readme` fills."""

    imports: tuple[str, ...]
    """Import statements of the code."""

    code: str
    """Prints what `outputs` mean; `$file` is the transform with the names."""


def _class(outputs: Floats, transform: dict[str, Any]) -> dict[str, Any]:
    confidences = softmax(outputs)
    order = np.argsort(-confidences, kind="stable")[:TOP]
    top = [{"class": transform["classes"][index], "confidence": float(confidences[index])} for index in order]
    return {**top[0], "top": top}


def _labels(outputs: Floats, transform: dict[str, Any]) -> dict[str, Any]:
    return {"labels": dict(zip(transform["targets"], map(float, expit(outputs)), strict=True))}


def _values(outputs: Floats, transform: dict[str, Any]) -> dict[str, Any]:
    return {"values": dict(zip(transform["targets"], map(float, outputs), strict=True))}


ANSWERS = {
    "classification": Answers(
        _class,
        "$count classes: $names.\n\n"
        "Output `$output`: float32 [batch, $count], a logit for each class, whose softmax are the probabilities.",
        ("import json",),
        """\
names = json.load(open("$file"))["classes"]
chances = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
chances /= chances.sum(axis=-1, keepdims=True)  # softmax
for row in chances:
    print(f"{names[row.argmax()]}: {row.max():.3f}")
""",
    ),
    "multilabel": Answers(
        _labels,
        "$count labels: $names.\n\n"
        "Output `$output`: float32 [batch, $count], a logit for each label, whose sigmoid is its probability.\n"
        f"A label is predicted where that is above {PREDICTED}.",
        ("import json",),
        f"""\
names = json.load(open("$file"))["targets"]
chances = 1 / (1 + np.exp(-outputs))  # sigmoid
for row in chances:
    predicted = [name for name, chance in zip(names, row) if chance > {PREDICTED}]
    print(", ".join(f"{{name}}: {{chance:.3f}}" for name, chance in zip(names, row)), "predicted:", predicted)
""",
    ),
    "regression": Answers(
        _values,
        "Predicted: $names.\n\nOutput `$output`: float32 [batch, $count], the numbers themselves.",
        ("import json",),
        """\
names = json.load(open("$file"))["targets"]
for row in outputs:
    print(", ".join(f"{name}: {value:.6g}" for name, value in zip(names, row)))
""",
    ),
    "language_model": Answers(
        None,
        "A language model of $vocabulary tokens, the last of which, $bos, begins a document.\n\n"
        "Output `$output`: float32 [batch, length, $vocabulary], at each place the logits of the next token.",
        (),
        """\
print(outputs[:, -1].argmax(axis=-1))  # the most probable next token of each row
""",
    ),
}
"""By `model.task`."""
