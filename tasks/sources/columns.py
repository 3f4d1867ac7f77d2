"""The features of a source whose columns the config names, and a check of the columns that the data has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tasks.config.sources import ColumnsSource
from tasks.config.sources.columns import shape_of
from tasks.errors import Refused
from tasks.sources.features import DTYPES, OTHER, Feature, Kind

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
