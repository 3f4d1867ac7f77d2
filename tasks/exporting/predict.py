"""An export's answers to raw files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from tasks.data.images import prepare, read
from tasks.errors import Failed
from tasks.exporting import LITERT, SAVED_MODEL
from tasks.exporting.run import Runner, open_variant
from tasks.models.forward import batched
from tasks.workbench import Workbench

TOP = 3


def answer(bench: Workbench, export: Path, inputs: list[str]) -> list[dict[str, Any]]:
    """`predict`, as a work."""
    return predict(export, inputs)


def predict(export: Path, inputs: list[str]) -> list[dict[str, Any]]:
    """The export's float model on raw image files.

    Returns:
        For each input `{"input", "class", "confidence", "top": [{"class", "confidence"}, ...]}`, the top three
        classes by confidence, the first of which is the answer.

    Raises:
        Failed: the folder is no export, or an input is no image.
    """
    transform = read_transform(export)
    images = [prepare(read(Path(name)), transform, name) for name in inputs]
    logits = batched(float_model(export), np.stack(images))
    confidences = softmax(logits.astype(np.float64), axis=-1)
    return [_row(name, row, transform["classes"]) for name, row in zip(inputs, confidences, strict=True)]


def read_transform(export: Path) -> dict[str, Any]:
    """How raw input becomes the model's input: `{"kind": "image", "height", "width", "channels", "classes"}`."""
    try:
        transform: dict[str, Any] = json.loads((export / "transform" / "image.json").read_bytes())
    except (OSError, ValueError) as error:
        rule = "an export of an image model holds transform/image.json"
        raise Failed(str(export), "not an export of an image model", rule, "see `millrace list export`") from error
    return transform


def float_model(export: Path) -> Runner:
    """The float model in an export: LiteRT where there is one, since it starts at once."""
    form = LITERT if (export / LITERT).is_dir() else SAVED_MODEL
    return open_variant(export / form, form)


def _row(name: str, confidences: npt.NDArray[np.float64], classes: list[str]) -> dict[str, Any]:
    order = np.argsort(-confidences, kind="stable")[:TOP]
    top = [{"class": classes[index], "confidence": float(confidences[index])} for index in order]
    return {"input": name, **top[0], "top": top}
