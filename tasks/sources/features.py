"""The features of an example: the schema that sources declare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["key", "label", "tags", "number", "category", "text", "words", "image", "audio", "time"]
Role = Literal["input", "key", "label", "target", "output", "weight", "group", "split", "time"]

PREDICTED: tuple[Role, ...] = ("label", "target", "output")
"""The roles of columns that a model predicts, those of the main output first."""

CLASSED = ("label", "tags")
"""The kinds of features that are classes."""

KEY = "key"
"""Name of the feature with the example's stable key, UTF-8; every example has it."""

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")

OTHER = "(other)"
"""The class of labels that are not in `source.classes`."""


@dataclass(frozen=True)
class Feature:
    """A feature: its kind, what it is for, and dtype and shape after decoding (-1 for a size that varies).

    In an example a missing number is NaN, a missing category, text, image or sound has no bytes, a missing list has no
    items, and a missing time is `NO_TIME`. Times are microseconds since 1970 in UTC.
    """

    kind: Kind
    dtype: str
    shape: tuple[int, ...] = ()
    role: Role = "input"
    encoding: Literal["png", "jpeg"] | None = None
    """Encoding of images, where all examples have the same."""
    classes: tuple[str, ...] | None = None
    """Class names of a label or of tags by number; None where the classes are those of the data."""
    names: tuple[str, ...] | None = None
    """Names of the values of an array of numbers."""
    format: Mapping[str, Any] | None = field(default=None, compare=False)
    """How the cells of a source are written (`tasks.reader.formats`); of no use once they are records."""
    renamed: Mapping[str, str] | None = field(default=None, compare=False)
    """Classes by the names that a source has for them, where these are others."""
    of_labels: bool = field(default=False, compare=False)
    """Whether a source has a list of the `names` that apply, which in records are 0 or 1 each."""

    def as_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"kind": self.kind, "dtype": self.dtype, "shape": list(self.shape), "role": self.role}
        for name in ("encoding", "classes", "names"):
            if (given := getattr(self, name)) is not None:
                value[name] = list(given) if isinstance(given, tuple) else given
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Feature:
        lists: dict[str, Any] = {name: tuple(value[name]) for name in ("shape", "classes", "names") if name in value}
        return cls(**{**value, **lists})


KEY_FEATURE = Feature("key", "string", role="key")

DTYPES: dict[str, str] = {
    "key": "string",
    "label": "int64",
    "tags": "int64",
    "number": "float32",
    "category": "string",
    "text": "string",
    "words": "string",
    "image": "uint8",
    "audio": "string",
    "time": "int64",
}
"""The dtype of a feature by kind."""


def in_order(classes: Iterable[str]) -> list[str]:
    """Return classes in the order of their numbers, where nothing else orders them: whole numbers as numbers (2, 10),
    others as texts."""
    names = list(classes)
    whole = all(WHOLE_NUMBER.fullmatch(name) for name in names)
    return sorted(names, key=lambda name: (int(name), name)) if whole else sorted(names)


def of_role(features: Mapping[str, Feature], role: Role) -> dict[str, Feature]:
    """Return the features of a role by name, in order of name."""
    return {name: features[name] for name in sorted(features) if features[name].role == role}
