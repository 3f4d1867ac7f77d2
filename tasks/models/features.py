"""What a model reads of a snapshot's features: its input and its classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tasks.errors import Failed

LABEL = "label"


@dataclass(frozen=True)
class Input:
    """The one feature that a model is fed."""

    name: str
    shape: tuple[int, ...]
    dtype: str


def model_input(features: dict[str, Any]) -> Input:
    """The feature that is not the label; its shape is that of one example."""
    names = sorted(set(features) - {LABEL})
    if len(names) != 1:
        raise Failed("features", names, "a classifier reads one feature besides the label", "choose another snapshot")
    feature = features[names[0]]
    return Input(names[0], tuple(feature["shape"]), feature["dtype"])


def classes(features: dict[str, Any]) -> list[str]:
    """The class names, in the order of the labels 0, 1, ..."""
    names = [str(name) for name in features.get(LABEL, {}).get("classes", ())]
    if len(names) < 2:
        raise Failed(f"features.{LABEL}.classes", names, "a classifier needs two classes", "check the source's labels")
    return names
