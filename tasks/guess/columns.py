"""Roles of columns, guessed from a sample of raw rows: the key, the group, the split, and what is predicted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.errors import Refused
from tasks.guess import candidates
from tasks.guess.candidates import IDS, KEYS, MOST_CODES, SPLITS, codes, last_part, tagged
from tasks.guess.column import CATEGORY, FEW_CLASSES, NUMBER, Column, look
from tasks.guess.found import Columns, Tagged
from tasks.records.column_types.categories import Category, counts_of, plain_classes
from tasks.records.column_types.numbers import Number
from tasks.sources.features import KEY, in_order

OF_FILES = re.compile(
    r"height|width|depth|channels|colou?r_?space|format|encoding|file_?name|sha\d+|md5|size|rate", re.I
)
"""Names of what describes the file of an image or a sound beside it."""

NEARLY_ALL = 0.9
"""Share of different values from which a column names its rows."""
FOLDS = 20
WHOLE_NUMBER = re.compile(r"[+-]?\d+")
MANY = 3
"""Columns of 0 and 1 at the end from which they may be labels of a table; and classes from which it is no chance that
another column has one value for each."""
FEW_MISSING = 0.05
"""Share of missing, or of other, cells from which it may matter which they are."""


def guess_columns(
    sample: Mapping[str, pa.Array], root: Path, label: str | None = None, key: str | None = None
) -> Columns:
    """Guess types and roles from a sample of raw rows; `label` and `key` are the user's choices.

    Args:
        root: the folder to which paths of images and sounds are relative.

    Raises:
        Refused: the chosen label has no classes.
    """
    columns = {name: look(values, root) for name, values in sample.items()}
    guessed = None if key else candidates.key(columns, label)
    key = key or guessed
    if words := tagged(sample, label):
        return _of_words(columns, words, key)
    free = {name: column for name, column in columns.items() if name not in (key, label)}
    split = candidates.split(free)
    group = candidates.group({name: column for name, column in free.items() if name != split}, sample)
    types = {name: column.type for name, column in columns.items()}
    found = Columns(types, key, group=group, split=split, splits=columns[split].values if split is not None else ())
    found = _predicted(found, columns, sample, label)
    inputs = [name for name in columns if name not in (key, group, split, found.label, *found.targets)]
    said = [*_of_inputs(found, {name: columns[name] for name in inputs}, sample)]
    if key is not None:
        found.types[key] = _of_names(columns[key])
        said.append(f"{key}: the key" + (", as every row has another value" if guessed else ""))
    if group is not None:
        found.types[group] = _of_names(columns[group])
        each = (columns[group].rows - columns[group].missing) / columns[group].distinct
        said.append(
            f"{group}: the group, as {columns[group].distinct:,} values have {each:.1f} rows each: rows of one stay in "
            "one split, and it is no input"
        )
    return replace(found, said=(*said, *found.said))


def _predicted(
    found: Columns, columns: Mapping[str, Column], sample: Mapping[str, pa.Array], label: str | None
) -> Columns:
    """Return columns with what is predicted: the label that was chosen, labels beside a text or a file, or a column."""
    others = {name: column for name, column in columns.items() if name not in (found.key, found.group, found.split)}
    several = () if label else candidates.several(others, sample)
    if several and {"text", "image", "audio"} & {column.type for column in others.values()}:
        return with_several(found, several)
    if (name := label or candidates.predicted(others)) is None:
        return found
    found = with_predicted(found, name, columns[name], sample[name], label is not None)
    if len(several) < MANY:
        return found
    listed = ", ".join(several)
    offer = f"{listed}: if they are labels that apply together, source.targets: [{listed}] and task: multilabel"
    return replace(found, said=(*found.said, offer))


def _of_inputs(found: Columns, columns: Mapping[str, Column], sample: Mapping[str, pa.Array]) -> Iterator[str]:
    """Yield what is said of the columns without a role, and write their types into what was found."""
    outcomes = outcomes_of(found, sample)
    beside = [name for name, column in columns.items() if column.type in ("image", "audio")]
    for name, column in columns.items():
        reason = _useless(name, column) or (_describes(name, column, beside) if beside else "")
        if reason := reason or _repeats_the_label(found, name, column, sample):
            found.types[name] = "ignore"
            also = f"; {column.why}" if column.type == "category" and column.why else ""
            yield f"{name}: ignored, {reason}{also}"
            continue
        if reason := codes(last_part(name), column, sample[name], outcomes):
            found.types[name] = "category"
            column = replace(column, type="category", why=reason)
        if column.why:
            yield f"{name}: {found.types[name]}, {column.why}"
        yield from _written(name, column, found)


def _of_names(column: Column) -> str:
    """Return the type of a key or a group: its cells are names, also where they could be read as numbers."""
    plain = column.type in ("number", "text") and not column.format and not column.placeholders
    return column.type if plain else "category"


def _written(name: str, column: Column, found: Columns) -> Iterator[str]:
    """Yield what is said of how an input's cells are written, and add it to what was found."""
    form = dict(column.format or {})
    words = {text: count for text, count in column.placeholders.items() if any(map(str.isalnum, text))}
    for text, count in column.placeholders.items():
        if text not in words:
            found.placeholders_of.setdefault(name, []).append(text)
        yield f"{name}: {text} in {count:,} rows is read as missing"
    if column.type == "category":
        named = {text: count for text, count in column.absent.items() if count >= FEW_MISSING * column.rows}
        yield from (f"{name}: {text} in {count:,} rows is read as missing" for text, count in named.items() if text)
    if words:
        form["missing"] = [*form.get("missing", ()), *words]
    if form:
        found.formats[name] = form
    yield from (f"{name}: {line.replace('COLUMN', json.dumps(name))}" for line in column.worries)


def _of_words(columns: Mapping[str, Column], words: Tagged, key: str | None) -> Columns:
    """Return words and their tags, which a model of sequences reads, the key and the split; others are ignored."""
    split = candidates.split({name: column for name, column in columns.items() if name != key})
    roles = {words.words: "words", words.tags: "tags", **{name: "category" for name in (key, split) if name}}
    types = {name: roles.get(name, "ignore") for name in columns}
    said = [f"{words.tags}: a tag for each of {words.words}, one of {len(words.classes)} classes (tagging)"]
    if words.numbered:
        said.append("they are numbers: with their names as source.classes, those of entities are counted too")
    if key is not None:
        said.append(f"{key}: the key")
    if others := [name for name, kind in types.items() if kind == "ignore"]:
        said.append(f"ignored, as a tagger reads words: {', '.join(others)}")
    if words.longest > words.length:
        said.append(f"the longest row has {words.longest} {words.words}; what is past {words.length} is cut")
    splits = columns[split].values if split is not None else ()
    found = Columns(types, key, words.tags, split=split, classes=words.classes, said=tuple(said), splits=splits)
    return replace(found, tagged=words)


def _repeats_the_label(found: Columns, name: str, column: Column, sample: Mapping[str, pa.Array]) -> str:
    """Return why a column that numbers each of several classes, or calls it by its name, is no input; else nothing."""
    if found.label is None or not MANY <= len(found.classes) == column.distinct or column.missing:
        return ""
    numbered = column.type == "number" and column.whole
    if column.type not in ("category", "number") or numbered == all(map(WHOLE_NUMBER.fullmatch, found.classes)):
        return ""
    labels, names = (plain_classes(Category(CATEGORY).typed(sample[each]).values) for each in (found.label, name))
    pairs = set(zip(labels.to_pylist(), names.to_pylist(), strict=True))
    one_to_one = len(pairs) == len(found.classes) <= column.rows // 2
    return f"as it {'numbers' if numbered else 'names'} the {len(pairs)} classes of {found.label}" if one_to_one else ""


def _describes(name: str, column: Column, beside: list[str]) -> str:
    """Return why a column beside files is no input; empty where it may be one."""
    described = column.type in ("number", "category") and OF_FILES.fullmatch(last_part(name))
    return f"as it describes {', '.join(beside)}" if described else ""


def _useless(name: str, column: Column) -> str:
    """Return why a column is no input; empty where it may be one."""
    if column.type == "ignore" and not column.undecided:
        return column.why
    if name == KEY:
        return "as the key of a record has that name, and its values are not all different"
    if column.rows and column.missing == column.rows:
        return "as it has no value"
    if column.distinct == 1 and not column.missing:
        return "as all its values are equal"
    if column.distinct == 1 and not FEW_MISSING <= column.missing / column.rows <= 1 - FEW_MISSING:
        return f"as its values are equal, but for {column.missing:,} missing ones"
    if SPLITS.fullmatch(last_part(name)) and column.type == "number" and column.whole and column.distinct <= FOLDS:
        return (
            f"as it numbers {column.distinct} parts; to split by them, make it a category, source.split: {name}, and "
            "records.splits: official with records.official"
        )
    if column.undecided:
        return (
            f"{column.why}: set source.columns.{name} to time, and source.formats.{name}.date to the one that is right"
        )
    many = column.distinct > NEARLY_ALL * (column.rows - column.missing)
    if column.type == "category" and column.rows > FEW_CLASSES and many:
        return "as nearly every row has another value"
    if column.unique and KEYS.fullmatch(last_part(name)):
        return "as it only numbers the rows"
    if IDS.fullmatch(last_part(name)) and column.type == "number" and column.whole and column.distinct > MOST_CODES:
        return f"as its {column.distinct:,} numbers name things, and measure nothing"
    return ""


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
