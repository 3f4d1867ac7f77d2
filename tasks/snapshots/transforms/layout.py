"""Where the results of transforms go: the arrays of a table's snapshot, and its `transform/transform.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.config.task import SERVED_AS
from tasks.errors import Refused
from tasks.reader import FORMAT
from tasks.snapshots.transforms.transform import CATEGORIES, NUMBERS, Fitted, own_array
from tasks.sources.features import Feature, of_role
from tasks.sources.kinds.formats import CellFormat

SHARED = {NUMBERS: "float32", CATEGORIES: "int32"}
"""Dtype of the arrays that several columns share."""


@dataclass(frozen=True)
class Layout:
    """The arrays of a snapshot."""

    features: dict[str, dict[str, Any]]
    """What the manifest says of each array: dtype, shape, role, names and more."""

    description: dict[str, Any]
    """The contents of `transform.json`."""


def lay_out(features: Mapping[str, Feature], fitted: Mapping[str, Fitted], source: Mapping[str, Any]) -> Layout:
    """Place the results of transforms, in order of the columns' names.

    Args:
        features: those of the records.
        fitted: the transforms of the inputs.
        source: the config of the records' source, which says how rows are written.

    Raises:
        Refused: two results have the same name.
    """
    arrays: dict[str, dict[str, Any]] = {}
    places = []
    for name, transform in sorted(fitted.items()):
        if transform.array is None:
            if (own := own_array(name)) in arrays:
                rule = f"another column's array is called {own}"
                raise Refused("source.columns", name, rule, "rename the column")
            arrays[own] = {**transform.feature, "role": "input"}
            places.append({"column": name, "array": own})
            continue
        shared = arrays.setdefault(transform.array, {"dtype": SHARED[transform.array], "shape": [0], "role": "input"})
        start = shared["shape"][0]
        for key, values in transform.feature.items():
            shared[key] = [*shared.get(key, []), *values]
        shared["shape"] = [len(shared["names"])]
        places.append({"column": name, "array": transform.array, "start": start, "stop": shared["shape"][0]})
    _check_shared(arrays)
    formats = {name: CellFormat.model_validate(form).state() for name, form in source.get("formats", {}).items()}
    inputs = of_role(dict(features), "input")
    labels, targets = of_role(dict(features), "label"), of_role(dict(features), "target")
    description = {
        "format": FORMAT,
        "kind": "table",
        "columns": [
            {
                "name": name,
                "kind": feature.kind,
                "shape": list(feature.shape) if feature.kind == "number" else [],
                **({"format": formats[name]} if name in formats else {}),
                **({"file": source["files"][name]} if name in source.get("files", {}) else {}),
            }
            for name, feature in inputs.items()
        ],
        "missing": list(source.get("missing", [])),
        "csv": _csv(source) if source.get("kind") == "csv" else None,
        "transforms": {name: transform.state for name, transform in sorted(fitted.items())},
        "arrays": {
            name: {"dtype": SERVED_AS.get(array["dtype"], array["dtype"]), "shape": array["shape"]}
            for name, array in sorted(arrays.items())
        },
        "layout": places,
        "classes": [each for feature in labels.values() for each in feature.classes or ()],
        "targets": target_names(targets),
    }
    return Layout(dict(sorted(arrays.items())), description)


def _csv(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return how rows are written in the source's CSV files: what is between cells, and the names of columns in their
    order where no line has them (`header`), of which those that are predicted (`outputs`) need not be there."""
    outputs = [source["label"]] if source["label"] is not None else source["targets"]
    header = None if source["header"] is True else source["header"]
    form = {name: source[name] for name in ("encoding", "delimiter", "quote", "escape")}
    return {**form, "header": header, "outputs": outputs}


def target_names(targets: Mapping[str, Feature]) -> list[str]:
    """Return the names of the values of `target`: of the columns in order, of an array those of its values."""
    names: list[str] = []
    for name, feature in sorted(targets.items()):
        size = feature.shape[0] if feature.shape else 1
        names += feature.names or ([name] if not feature.shape else [f"{name}.{place}" for place in range(size)])
    return names


def _check_shared(arrays: Mapping[str, dict[str, Any]]) -> None:
    for shared in SHARED:
        names = arrays.get(shared, {}).get("names", [])
        if twice := sorted({name for name in names if names.count(name) > 1}):
            rule = "a column, and a number that is made of another column, have this name"
            raise Refused("source.columns", twice[0], rule, "rename the column")
