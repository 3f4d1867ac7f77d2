"""Types and roles of columns, guessed from a sample of raw rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tasks.config.records import USUAL_NAMES
from tasks.data.features import KEY, Feature
from tasks.data.guess.tags import Tagged, is_list_of_texts, is_numeric, tagged
from tasks.data.kinds import category, number, time
from tasks.data.sources.audio_folder import is_sound
from tasks.data.sources.image_folder import is_image

LABELS = re.compile(
    r"(class|cls|label|target|y|outcome|category|species|diagnosis|survived|churn|price|score|rating)", re.I
)
"""Names by which a column is what is predicted."""
KEYS = re.compile(r"(.*_)?(id|key|uuid|index|no|nr|number)|file_?name|unnamed.*|", re.I)
"""Names by which a column of different values is the key."""
SPLITS = re.compile(r"splits?|subset|fold|partition", re.I)
"""Names by which a column of few values, which are those of splits, is the split."""
OF_FILES = re.compile(
    r"height|width|depth|channels|colou?r_?space|format|encoding|file_?name|sha\d+|md5|size|rate", re.I
)
"""Names of what describes the file of an image or a sound beside it."""

FEW_CLASSES = 20
"""Different integers at most that are classes and not a quantity."""
WORDS, CHARACTERS = 4, 40
"""Mean words, or characters, of a value from which a column is a text."""
NEARLY_ALL = 0.9
"""Share of different values from which a column names its rows."""
WITH_COMMA = re.compile(r"\s*[+-]?\d[\d.]*(,\d+)*\s*")
"""A number that has, or may have, a comma."""
MAX_CLASSES = 1000
NO_FILE = "as its bytes are neither an image nor a sound"
IMAGES = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n|GIF8[79]a|BM|RIFF....WEBP", re.DOTALL)
SOUNDS = re.compile(rb"RIFF....WAVE|fLaC", re.DOTALL)
"""How files of images and sounds begin."""

TEXT, NUMBER, CATEGORY, TIME = (
    Feature(kind, dtype)  # type: ignore[arg-type]
    for kind, dtype in (("text", "string"), ("number", "float32"), ("category", "string"), ("time", "int64"))
)


@dataclass(frozen=True)
class Column:
    """A column of the sample."""

    type: str
    """As in `source.columns`."""
    distinct: int
    missing: int
    rows: int
    values: tuple[str, ...] = ()
    """Different values of a category, sorted; none of many."""
    whole: bool = False
    """Whether all its numbers are integers."""
    why: str = ""
    """The reason of a choice that is not obvious."""

    @property
    def unique(self) -> bool:
        """Whether every row has another value."""
        return self.distinct == self.rows and not self.missing


@dataclass(frozen=True)
class Columns:
    """Types and roles of all columns."""

    types: dict[str, str]
    key: str | None = None
    label: str | None = None
    targets: tuple[str, ...] = ()
    split: str | None = None
    classes: dict[str, int] = field(default_factory=dict)
    """Rows of the sample by class."""
    said: tuple[str, ...] = ()
    """Lines for the user: what was chosen, and why."""
    splits: tuple[str, ...] = ()
    """Different values of the column `split`."""
    tagged: Tagged | None = None
    """The words and their tags, where the classes are those of words."""

    @property
    def task(self) -> str:
        """What a model of these columns is trained for."""
        return "tagging" if self.tagged else "classification" if self.label else "regression"

    @property
    def inputs(self) -> list[str]:
        """The columns that the model reads."""
        roles = {self.key, self.label, self.split, *self.targets}
        return [name for name, kind in self.types.items() if kind != "ignore" and name not in roles]


def guess_columns(
    sample: Mapping[str, pa.Array], root: Path, label: str | None = None, key: str | None = None
) -> Columns:
    """Guess types and roles from a sample of raw rows; `label` and `key` are the user's choices.

    Args:
        root: the folder to which paths of images and sounds are relative.
    """
    columns = {name: look(values, root) for name, values in sample.items()}
    said: list[str] = []
    guessed = None if key else _key(columns)
    key = key or guessed
    if words := tagged(sample, label):
        return _of_words(columns, words, key)
    split = _split({name: column for name, column in columns.items() if name not in (key, label)})
    free = {name: column for name, column in columns.items() if name not in (key, split)}
    predicted = label or _predicted(free)
    types = {name: column.type for name, column in columns.items()}
    beside = [name for name, column in columns.items() if column.type in ("image", "audio")]
    for name, column in columns.items():
        if name in (key, predicted, split):
            continue
        if reason := _useless(name, column) or (_describes(name, column, beside) if beside else ""):
            types[name] = "ignore"
            also = f"; {column.why}" if column.type == "category" and column.why else ""
            said.append(f"{name}: ignored, {reason}{also}")
        elif column.why:
            said.append(f"{name}: {types[name]}, {column.why}")
    if key is not None:
        types[key] = "category" if types[key] not in ("number", "text") else types[key]
        said.append(f"{key}: the key" + (", as every row has another value" if guessed else ""))
    splits = columns[split].values if split is not None else ()
    found = Columns(types, key, split=split, splits=splits)
    if predicted is None:
        return replace(found, said=tuple(said))
    column = columns[predicted]
    if column.type == "number" and not (column.whole and column.distinct <= FEW_CLASSES):
        said.append(f"{predicted}: predicted as a number, as it has {column.distinct:,} values (regression)")
        return replace(found, targets=(predicted,), said=tuple(said))
    types[predicted] = "category"
    counts = category.counts_of(category.typed(CATEGORY, sample[predicted], 0).values)
    counts.pop("", None)
    said.append(f"{predicted}: predicted as one of {len(counts)} classes (classification)")
    return replace(found, label=predicted, classes=dict(sorted(counts.items())), said=tuple(said))


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


def look(values: pa.Array, root: Path) -> Column:
    """Return what a column of raw values is."""
    missing, rows = values.null_count, len(values)
    if _is_list(values.type):
        return _of_lists(values)
    present = values.drop_null()
    distinct = len(pc.unique(present)) if not pt.is_struct(values.type) else len(present)
    if pt.is_binary(values.type) or pt.is_large_binary(values.type) or pt.is_struct(values.type):
        kind = payload_kind(_payloads(present))
        return Column(kind, distinct, missing, rows, why="by its first bytes" if kind != "ignore" else NO_FILE)
    if pt.is_boolean(values.type):
        return Column("category", distinct, missing, rows, ("false", "true"))
    if pt.is_timestamp(values.type) or pt.is_date(values.type):
        return Column("time", distinct, missing, rows)
    if not (pt.is_string(values.type) or pt.is_large_string(values.type)):
        numbers = number.typed(NUMBER, values, 0)
        if numbers.bad:
            return Column("ignore", distinct, missing, rows, why=f"{values.type} is not read")
        return Column("number", distinct, missing, rows, whole=_whole(numbers.values))
    return _of_texts(present, distinct, missing, rows, root)


def _of_texts(present: pa.Array, distinct: int, missing: int, rows: int, root: Path) -> Column:
    if not len(present):
        return Column("category", 0, missing, rows)
    numbers = number.typed(NUMBER, present, 0)
    if not numbers.bad:
        return Column("number", distinct, missing, rows, whole=_whole(numbers.values))
    if not time.typed(TIME, present, 0).bad:
        return Column("time", distinct, missing, rows)
    some = present.slice(0, 100).to_pylist()
    for kind, matches in (("image", is_image), ("audio", is_sound)):
        if all(matches(value) for value in some) and all((root / value).is_file() for value in some):
            return Column(kind, distinct, missing, rows, why="paths of files that are there")
    bad = len(numbers.bad)
    why = f"{bad:,} of its values are no numbers" if 0 < bad < 0.1 * len(present) else ""
    if all(WITH_COMMA.fullmatch(value) for value in some):
        first = next((value for value in some if "," in value), "")
        why = f"as {first!r} has a comma, and numbers are read as 1234.5; convert them" if first else why
    words = np.mean([len(value.split()) for value in some])
    long = words >= WORDS or np.mean([len(value) for value in some]) >= CHARACTERS
    if distinct > FEW_CLASSES and long:
        return Column("text", distinct, missing, rows, why=f"{words:.0f} words each on average")
    values = tuple(sorted(set(present.to_pylist()))) if distinct <= FEW_CLASSES else ()
    return Column("category", distinct, missing, rows, values, why=why)


def _of_lists(values: pa.Array) -> Column:
    if is_list_of_texts(values):
        why = "as its lists are not numbers of one shape"  # read as texts, as they might be tags
        if not is_numeric(values):
            why = "as its lists of words have no tags; join them to texts for other tasks"
        return Column("ignore", 0, values.null_count, len(values), why=why)
    flat, rows, shape = values.drop_null(), len(values), list[int]()
    while _is_list(flat.type):
        lengths = set(np.asarray(pc.list_value_length(flat)).tolist())
        if len(lengths) > 1:
            return Column("ignore", 0, values.null_count, rows, why="its lists are of different lengths")
        shape, flat = [*shape, *lengths], flat.flatten()
    if not len(flat) or not (pt.is_integer(flat.type) or pt.is_floating(flat.type)):
        return Column("ignore", 0, values.null_count, rows, why=f"{values.type} is not read")
    sides = ", ".join(map(str, shape))
    return Column(f"number[{sides}]", rows - values.null_count, values.null_count, rows)


def _is_list(kind: pa.DataType) -> bool:
    return pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)


def _whole(values: Any) -> bool:
    numbers = np.asarray(values)
    present = numbers[~np.isnan(numbers)]
    return bool(len(present)) and bool((present == np.trunc(present)).all())


def payload_kind(payloads: Iterable[bytes]) -> str:
    """Return the type of a column by the first bytes of its values: image, audio, or ignore."""
    heads = [payload[:16] for payload in payloads]
    for kind, pattern in (("image", IMAGES), ("audio", SOUNDS)):
        if heads and all(pattern.match(head) for head in heads):
            return kind
    return "ignore"


def _payloads(values: pa.Array) -> list[bytes]:
    """Return the bytes of some values, of a struct as Hugging Face writes it too."""
    some = [value.get("bytes") if isinstance(value, dict) else value for value in values.slice(0, 100).to_pylist()]
    return [value for value in some if isinstance(value, bytes)]


def _last(name: str) -> str:
    """Return the last part of the name of a nested column."""
    return re.split(r"[/.]", name.strip())[-1]


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


def _key(columns: Mapping[str, Column]) -> str | None:
    """Return the first column of different values that is called like a key."""
    for name, column in columns.items():
        countable = column.type in ("category", "text") or (column.type == "number" and column.whole)
        if column.unique and countable and column.rows > 1 and KEYS.fullmatch(_last(name)):
            return name
    return None


def _predicted(columns: Mapping[str, Column]) -> str | None:
    """Return the column that is called like a label or target, else the last one that can be predicted."""

    def fits(column: Column) -> bool:
        few = column.type == "category" and 2 <= column.distinct <= min(MAX_CLASSES, max(2, column.rows // 4))
        return few or (column.type == "number" and column.distinct > 1)

    named = [name for name in columns if LABELS.fullmatch(_last(name)) and fits(columns[name])]
    if named:
        return named[-1]
    last = list(columns)[-1] if columns else None
    return last if last is not None and fits(columns[last]) else None


def _useless(name: str, column: Column) -> str:
    """Return why a column is no input; empty where it may be one."""
    if column.type == "ignore":
        return column.why
    if name == KEY:
        return "as the key of a record has that name, and its values are not all different"
    if column.rows and column.missing == column.rows:
        return "as it has no value"
    if column.distinct == 1 and not column.missing:
        return "as all its values are equal"
    many = column.distinct > NEARLY_ALL * (column.rows - column.missing)
    if column.type == "category" and column.rows > FEW_CLASSES and many:
        return "as nearly every row has another value"
    if column.unique and KEYS.fullmatch(_last(name)):
        return "as it only numbers the rows"
    return ""
