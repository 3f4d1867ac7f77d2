"""The features of an example: the schema that sources declare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Value = bytes | int | float | np.ndarray
"""The value of a feature: bytes, a scalar, or an array of numbers."""

Example = dict[str, Value]

KEY = "key"
"""Name of the feature with the example's stable key, UTF-8; every example has it."""

TARGETS = ("label", "target")
"""Names of the features that a model predicts; all others may be inputs."""


@dataclass(frozen=True)
class Feature:
    """A feature: its kind, and dtype and shape after decoding (-1 for a size that varies)."""

    kind: Literal["image", "label", "number", "bytes"]
    dtype: str
    shape: tuple[int, ...] = ()
    encoding: Literal["png", "jpeg"] | None = None
    """Encoding of images, where all examples have the same."""
    classes: tuple[str, ...] | None = None
    """Class names of a label by number; of numbers, the names of the values."""

    def as_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"kind": self.kind, "dtype": self.dtype, "shape": list(self.shape)}
        if self.encoding is not None:
            value["encoding"] = self.encoding
        if self.classes is not None:
            value["classes"] = list(self.classes)
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Feature:
        classes = value.get("classes")
        return cls(
            kind=value["kind"],
            dtype=value["dtype"],
            shape=tuple(value["shape"]),
            encoding=value.get("encoding"),
            classes=None if classes is None else tuple(classes),
        )


KEY_FEATURE = Feature("bytes", "string")
