"""What an example is made of: the schema that sources declare and everything after them reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Value = bytes | int | float | np.ndarray
"""One feature of one example: payload bytes, a scalar, or an array of numbers."""

Example = dict[str, Value]

KEY = "key"
"""The feature that every example has: its stable key, UTF-8."""

ANSWERS = ("label", "target")
"""The features that a model is to answer with; all others it may be shown."""


@dataclass(frozen=True)
class Feature:
    """One feature. `kind` says what it means, `dtype` and `shape` what it is once decoded (-1: varies)."""

    kind: Literal["image", "label", "number", "bytes"]
    dtype: str
    shape: tuple[int, ...] = ()
    encoding: Literal["png", "jpeg"] | None = None
    """Of an image's payload, where all examples share it."""
    classes: tuple[str, ...] | None = None
    """Of a label, by number; of numbers the names of the entries."""

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": self.kind, "dtype": self.dtype, "shape": list(self.shape)}
        if self.encoding is not None:
            found["encoding"] = self.encoding
        if self.classes is not None:
            found["classes"] = list(self.classes)
        return found

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
