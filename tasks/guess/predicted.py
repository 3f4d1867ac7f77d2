"""What a table predicts: one column, several, or tags of words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from tasks.errors import Refused
from tasks.guess.column import CATEGORY, FEW_CLASSES, NUMBER, Column
from tasks.guess.found import Columns
from tasks.records.column_types.categories import Category, counts_of, plain_classes
from tasks.records.column_types.numbers import Number
from tasks.sources.features import in_order

WRITTEN = ("decimal", "thousands", "unit")
"""Parts of a format that a target keeps: predictions have its scale, so nothing is subtracted from it."""
FEW_NUMBERS, OF_CLASS = 5, 3
"""Different numbers at most that are classes, and rows of each, at least, of more."""
FEW_NAMED = 0.05
"""Share of rows above which `None` is a class, and no missing one."""


def with_predicted(found: Columns, name: str, column: Column, raw: pa.Array, chosen: bool) -> Columns:
    """Return columns with the one that is predicted.

    Args:
        chosen: whether the user named it.

    Raises:
        Refused: it has no two classes, and the user named it.
    """
    if column.items:
        found.types[name] = "labels"
        if column.format is not None:
            found.formats[name] = dict(column.format)
        said = f"{name}: predicted as those of {len(column.items)} labels that apply (multilabel)"
        return replace(found, targets=(name,), labels=dict(column.items), said=(said,))
    if column.type == "number" and not _are_classes(column, raw):
        written = {field: value for field, value in (column.format or {}).items() if field in WRITTEN}
        if written:
            found.formats[name] = written
        lines = [f"{name}: predicted as a number, as it has {column.distinct:,} values (regression)"]
        lines += [f"{name}: {column.why}"] if column.why else []
        if column.missing:
            lines.append(f"{name}: missing in {column.missing:,} rows, which are bad (records.bad_budget)")
        return replace(found, targets=(name,), said=tuple(lines))
    if column.type not in ("number", "category", "text", "time"):
        saw = f"{name}, {column.why or f'of type {column.type}'}"
        raise Refused("--label", saw, "a label is one class a row, a few labels, or a number", "name another column")
    return _with_label(found, name, column, raw, chosen)


def is_binary(values: pa.Array) -> bool:
    """Return whether a column has 0 and 1, and nothing else."""
    plain = pt.is_integer(values.type) or pt.is_float32(values.type) or pt.is_float64(values.type)
    if not (plain or pt.is_string(values.type) or pt.is_large_string(values.type)):
        return False
    return {str(value) for value in values.unique().to_pylist()} in ({"0", "1"}, {"0.0", "1.0"})


def with_several(found: Columns, names: Sequence[str]) -> Columns:
    """Return columns with these of 0 and 1 as labels that are there or not."""
    said = f"{', '.join(names)}: predicted as labels that are there or not (multilabel)"
    types = {**found.types, **dict.fromkeys(names, "number")}
    return replace(found, types=types, targets=tuple(names), said=(*found.said, said))


def _are_classes(column: Column, raw: pa.Array) -> bool:
    """Return whether numbers are classes: few different whole ones, and, but for very few, each in several rows."""
    if not column.whole or column.distinct > FEW_CLASSES:
        return False
    counts = counts_of(plain_classes(Category(CATEGORY).typed(raw).values))
    named = [count for text, count in counts.items() if text and text not in column.absent]
    return column.distinct <= FEW_NUMBERS or min(named) >= OF_CLASS


def _with_label(found: Columns, name: str, column: Column, raw: pa.Array, chosen: bool) -> Columns:
    counts = counts_of(plain_classes(Category(CATEGORY).typed(raw).values))
    missing = counts.pop("", 0)
    absent = {text: counts.pop(text) for text in column.absent if text in counts}
    least = min([FEW_NAMED * len(raw), *counts.values()])
    kept = {text: count for text, count in absent.items() if count >= least and column.type != "number"}
    counts |= kept
    if len(counts) < 2:
        if not chosen:
            return found
        seen = f"{name}: only {next(iter(counts))}" if counts else f"{name}: no value"
        raise Refused("--label", f"{seen} in {len(raw):,} rows", "a label has two classes or more", "name another")
    found.types[name] = "category"
    said = [f"{name}: predicted as one of {len(counts)} classes (classification)"]
    said += [f"{name}: {text}, of {count:,} rows, is a class, not a missing value" for text, count in kept.items()]
    if without := missing + sum(absent.values()) - sum(kept.values()):
        said.append(f"{name}: missing in {without:,} rows, which are bad (records.bad_budget)")
    lines = (*said, *_called_alike(name, counts))
    return replace(
        found, label=name, classes={each: counts[each] for each in in_order(counts)}, kept=tuple(kept), said=lines
    )


def _called_alike(name: str, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield which classes differ by case only, with their counts."""
    alike: dict[str, list[str]] = {}
    for each in sorted(counts, key=lambda each: -counts[each]):
        alike.setdefault(each.casefold(), []).append(each)
    for usual, *others in alike.values():
        if others:
            listed = ", ".join(f"{each} {counts[each]:,}" for each in (usual, *others))
            merged = ", ".join(f"{each}: {usual}" for each in others)
            yield f"{name}: classes differ by case only: {listed}; source.labels: {{{merged}}} merges them"


def outcomes_of(found: Columns, sample: Mapping[str, pa.Array]) -> list[NDArray[np.float64]]:
    """Return what is predicted as numbers by row, NaN where missing: 0 or 1 of each class, or the target; none of
    labels of which several apply."""
    if found.label is not None:
        labels = plain_classes(Category(CATEGORY).typed(sample[found.label]).values).to_numpy(zero_copy_only=False)
        return [(labels == name).astype(np.float64) for name in found.classes]
    if found.targets and found.types[found.targets[0]] == "number" and found.targets[0] not in found.formats:
        return [np.asarray(Number(NUMBER).typed(sample[found.targets[0]]).values, np.float64)]
    return []
