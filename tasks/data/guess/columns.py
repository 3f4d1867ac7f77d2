"""Roles of columns, guessed from a sample of raw rows: the key, the group, the split, and what is predicted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.config.records import USUAL_NAMES
from tasks.data.features import KEY
from tasks.data.guess.codes import codes
from tasks.data.guess.column import FEW_CLASSES, NUMBER, Column, look
from tasks.data.guess.predicted import outcomes_of, with_predicted
from tasks.data.guess.roles import Columns
from tasks.data.guess.tags import Tagged, tagged
from tasks.data.kinds import number

LABELS = re.compile(
    r"(class|cls|label|target|y|outcome|category|species|diagnosis|survived|churn|price|score|rating)", re.I
)
"""Names by which a column is what is predicted."""
KEYS = re.compile(r"(.*[_ ])?(id|key|uuid|index|no|nr|number)|(?-i:.*[a-z]I[dD])|file_?name|unnamed.*|", re.I)
"""Names by which a column of different values is the key."""
GROUPS = re.compile(
    r"(.*[_ ])?(id|key|uuid)|(?-i:.*[a-z]I[dD])|(.*[_ ])?(patient|subject|user|customer|client|person|case|visit|"
    r"session|household|student|player|speaker|writer|author|site|device|machine|vehicle)(_?(id|no|nr|number|code))?",
    re.I,
)
"""Names by which a column of values that repeat names what rows belong to."""
SPLITS = re.compile(r"splits?|subset|folds?|cv|partition", re.I)
"""Names by which a column of few values is the split, or the number of a part of a cross-validation."""
OF_FILES = re.compile(
    r"height|width|depth|channels|colou?r_?space|format|encoding|file_?name|sha\d+|md5|size|rate", re.I
)
"""Names of what describes the file of an image or a sound beside it."""

NEARLY_ALL = 0.9
"""Share of different values from which a column names its rows."""
FEW_GROUPS = 10
"""Groups at least of which splits can be made."""
FOLDS = 20
REPEATED = 1.5
"""Rows of a group on average, at least."""
MAX_CLASSES = 1000
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
    guessed = None if key else _key(columns, label)
    key = key or guessed
    if words := tagged(sample, label):
        return _of_words(columns, words, key)
    split = _split({name: column for name, column in columns.items() if name not in (key, label)})
    group = _group({name: column for name, column in columns.items() if name not in (key, label, split)}, sample)
    roles = (key, split, group)
    predicted = label or _predicted({name: column for name, column in columns.items() if name not in roles})
    found = Columns({name: column.type for name, column in columns.items()}, key, group=group, split=split)
    if predicted is not None:
        found = with_predicted(found, predicted, columns[predicted], sample[predicted], label is not None)
    said, outcomes = list[str](), outcomes_of(found, sample)
    beside = [name for name, column in columns.items() if column.type in ("image", "audio")]
    for name, column in columns.items():
        if name in (*roles, predicted):
            continue
        if reason := _useless(name, column) or (_describes(name, column, beside) if beside else ""):
            found.types[name] = "ignore"
            also = f"; {column.why}" if column.type == "category" and column.why else ""
            said.append(f"{name}: ignored, {reason}{also}")
            continue
        if reason := codes(_last(name), column, sample[name], outcomes):
            found.types[name] = "category"
            column = replace(column, type="category", why=reason)
        if column.why:
            said.append(f"{name}: {found.types[name]}, {column.why}")
        said += _written(name, column, found)
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
    splits = columns[split].values if split is not None else ()
    return replace(found, splits=splits, said=(*said, *found.said))


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
    if words:
        form["missing"] = [*form.get("missing", ()), *words]
    if form:
        found.formats[name] = form
    yield from (f"{name}: {line.replace('COLUMN', json.dumps(name))}" for line in column.worries)


def _of_words(columns: Mapping[str, Column], words: Tagged, key: str | None) -> Columns:
    """Return words and their tags, which a model of sequences reads, the key and the split; others are ignored."""
    split = _split({name: column for name, column in columns.items() if name != key})
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


def _last(name: str) -> str:
    """Return the last part of the name of a nested column."""
    return re.split(r"[/.]", name.strip())[-1]


def _group(columns: Mapping[str, Column], sample: Mapping[str, pa.Array]) -> str | None:
    """Return the first column whose values repeat and name what rows belong to, by its name or as a counter."""
    for name, column in columns.items():
        there = column.rows - column.missing
        repeats = column.distinct >= FEW_GROUPS and REPEATED * column.distinct <= there and not column.missing
        countable = column.type in ("category", "text") or (column.type == "number" and column.whole)
        if repeats and countable and (GROUPS.fullmatch(_last(name)) or _counts_up(column, sample[name])):
            return name
    return None


def _counts_up(column: Column, raw: pa.Array) -> bool:
    """Return whether whole numbers count groups of rows that follow each other: 1000, 1000, 1001, 1001, 1001, 1002."""
    if column.type != "number" or column.distinct <= FEW_CLASSES:
        return False
    numbers = np.asarray(number.typed(NUMBER, raw, 0).values, np.float64)
    steps = np.diff(numbers)
    years = bool((numbers >= 1900).all() and (numbers <= 2100).all())
    return not years and bool(np.isin(steps, (0, 1)).all())


def _split(columns: Mapping[str, Column]) -> str | None:
    """Return the column whose values are splits, train among them."""
    for name, column in columns.items():
        values = {value.lower() for value in column.values}
        if SPLITS.fullmatch(_last(name)) and not column.missing and "train" in {USUAL_NAMES.get(v) for v in values}:
            return name if len(values) > 1 and values <= USUAL_NAMES.keys() else None
    return None


def _describes(name: str, column: Column, beside: list[str]) -> str:
    """Return why a column beside files is no input; empty where it may be one."""
    described = column.type in ("number", "category") and OF_FILES.fullmatch(_last(name))
    return f"as it describes {', '.join(beside)}" if described else ""


def _key(columns: Mapping[str, Column], label: str | None) -> str | None:
    """Return the first column of different values that is called like a key."""
    for name, column in columns.items():
        if name == label:
            continue
        countable = column.type in ("category", "text") or (column.type == "number" and column.whole)
        if column.unique and countable and column.rows > 1 and KEYS.fullmatch(_last(name)):
            return name
    return None


def _predicted(columns: Mapping[str, Column]) -> str | None:
    """Return the column that is called like a label or target, else the last one that can be predicted."""

    def fits(column: Column) -> bool:
        if column.items and len(column.items) > 1:
            return True
        few = column.type == "category" and 2 <= column.distinct <= min(MAX_CLASSES, max(2, column.rows // 4))
        return few or (column.type == "number" and column.distinct > 1)

    named = [name for name in columns if LABELS.fullmatch(_last(name)) and fits(columns[name])]
    if named:
        return named[-1]
    last = list(columns)[-1] if columns else None
    return last if last is not None and fits(columns[last]) else None


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
    if SPLITS.fullmatch(_last(name)) and column.type == "number" and column.whole and column.distinct <= FOLDS:
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
    if column.unique and KEYS.fullmatch(_last(name)):
        return "as it only numbers the rows"
    return ""
