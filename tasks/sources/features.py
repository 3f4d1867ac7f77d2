"""The features of an example: the schema that sources declare, of named columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tasks.config.sources import ColumnsSource
from tasks.config.sources.columns import shape_of
from tasks.errors import Refused

Kind = Literal["key", "label", "tags", "number", "category", "text", "words", "image", "audio", "time"]
Role = Literal["input", "key", "label", "target", "weight", "group", "split", "time"]

KEY = "key"
"""Name of the feature with the example's stable key, UTF-8; every example has it."""

NO_TIME = -(2**63)
"""A missing time."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

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


def of_role(features: dict[str, Feature], role: Role) -> dict[str, Feature]:
    """Return the features of a role by name, in order of name."""
    return {name: features[name] for name in sorted(features) if features[name].role == role}


Value = Any
Example = dict


IMAGE_SHAPE, ANY_LENGTH = (-1, -1, -1), (-1,)
SHAPES = {"image": IMAGE_SHAPE, "words": ANY_LENGTH, "tags": ANY_LENGTH}
"""By kind, the shape of features that are no single values."""
KINDS: dict[str, Kind] = {
    "category": "category",
    "text": "text",
    "words": "words",
    "tags": "tags",
    "image": "image",
    "audio": "audio",
    "time": "time",
}


def features_of(config: ColumnsSource) -> dict[str, Feature]:
    """Return the features by column, without ignored columns."""
    features: dict[str, Feature] = {}
    for name, column_type in config.columns.items():
        role = config.roles.get(name, "input")
        if column_type == "ignore":
            continue
        kind = KINDS.get(column_type, "number")
        shape = SHAPES.get(kind, ()) if kind != "number" or column_type == "labels" else shape_of(column_type)
        form = config.formats.get(name)
        state = None if form is None else form.state()
        if column_type == "labels":
            features[name] = Feature(
                "number",
                DTYPES["number"],
                (len(config.classes),),
                role,  # type: ignore[arg-type]
                names=config.classes,
                format=state,
                renamed=config.labels,
                of_labels=True,
            )
        elif role == "label":
            bucket = (OTHER,) if config.unknown_class == "bucket" else ()
            classes = (*config.classes, *bucket) or None
            of_label: Kind = "tags" if kind == "tags" else "label"
            features[name] = Feature(
                of_label, DTYPES[of_label], shape, role="label", classes=classes, renamed=config.labels
            )
        else:
            features[name] = Feature(kind, DTYPES[kind], shape, role, format=state)  # type: ignore[arg-type]
    return dict(sorted(features.items()))


def name_of_place(place: int) -> str:
    """Return what a column is called that has no name, by its place from 0 on."""
    return f"column{place}"


def header_names(header: Iterable[str]) -> list[str]:
    """Return the names of the columns in a line of names, which may lack some, as of an index of pandas."""
    return [name if name.strip() else name_of_place(place) for place, name in enumerate(header)]


def read_columns(config: ColumnsSource) -> list[str]:
    """Return the columns that are read: all but the ignored ones."""
    return [name for name, kind in config.columns.items() if kind != "ignore"]


def check_columns(config: ColumnsSource, found: Iterable[str], where: str) -> None:
    """Raise `Refused` where the columns of the data at `where` are not those of `source.columns`."""
    named, present = config.columns, list(found)
    if missing := [name for name in named if name not in present]:
        rule = f"{where} has the columns {', '.join(present)}"
        raise Refused(f"source.columns.{missing[0]}", named[missing[0]], rule, "correct the name, or leave it out")
    if extra := [name for name in present if name not in named]:
        rule = "source.columns names every column of the data"
        remedy = f"add `{extra[0]}: ignore`, or its type"
        raise Refused("source.columns", f"{extra[0]} of {where} is not named", rule, remedy)


def by_name(config: ColumnsSource, columns: Mapping[str, object]) -> dict[str, object]:
    """Return the read columns of a table by name, in the order of the config."""
    return {name: columns[name] for name in read_columns(config)}
