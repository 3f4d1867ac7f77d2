"""Columns that may be a key, a group, a split, codes of classes, or words and their tags."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import isotonic_regression

from tasks.guess.column import FEW_CLASSES, NUMBER, Column, flat_texts, is_list_of_texts, is_numeric, item_of
from tasks.guess.found import Tagged
from tasks.records.column_types.numbers import Number
from tasks.records.column_types.texts import lengths_of
from tasks.records.config import USUAL_NAMES
from tasks.sources.values import is_text

CODES = re.compile(
    r"(.*[_ ])?(type|kind|class|category|cat|group|sex|gender|race|status|state|colou?r|region|zone|zip|sector|"
    r"channel|brand|flag|is|has|id)|.*code\d*|(?-i:.*[a-z]I[dD])|month|(day_?of_?week|week_?day|dow)|quarter",
    re.I,
)
"""Names by which whole numbers are codes, or parts of a date that come again."""
COUNTS = re.compile(
    r"(num|count|n|no_of|number_of|qty|quantity|total|sum)[_ ].*|age|size|quantity|count|number|.*rooms?|children|"
    r"visits|(.*[_ ])?(count|num|qty|total|years?|days?|hours?|months?|rank|score)",
    re.I,
)
"""Names by which whole numbers count, or have an order."""
MOST_CODES = 1000
NOT_ORDERED = 0.001
"""p-value below which what is predicted neither rises nor falls with a code."""
FEW_CODES, OF_EACH = 7, 5
"""Different whole numbers at most, 0 or 1 the first, that are codes where nothing else tells, and rows of each."""
FEW_LEVELS = 4
"""Numbers from 1 at most that are codes also where each is rarer than the one before."""


def codes(name: str, column: Column, raw: pa.Array, outcomes: Sequence[NDArray[np.float64]]) -> str:
    """Return why the whole numbers of an input are codes; empty where they count, or have an order.

    Args:
        name: the last part of the column's.
        outcomes: what is predicted, as numbers by row.
    """
    if column.type != "number" or not column.whole or column.format is not None:
        return ""
    if CODES.fullmatch(name) and column.distinct <= min(MOST_CODES, column.rows // 4):
        return f"as its name says that its {column.distinct:,} whole numbers are codes"
    if COUNTS.fullmatch(name) or not 2 <= column.distinct <= FEW_CLASSES:
        return ""
    x = np.asarray(Number(NUMBER).typed(raw).values, np.float64)
    values, rows = np.unique(x[~np.isnan(x)], return_counts=True)
    counted = bool((np.diff(rows) < 0).all()) and (values[0] == 0 or len(values) > FEW_LEVELS)  # the more, the rarer
    if column.distinct == 2 or (column.distinct == 3 and rows.min() >= OF_EACH and not counted):
        return f"as it has only {column.distinct} values: {', '.join(f'{value:.0f}' for value in values)}"
    if (p_value := disorder(x, outcomes)) < NOT_ORDERED:
        return (
            f"as what is predicted neither rises nor falls with its {column.distinct} whole numbers (p = {p_value:.1g})"
        )
    numbered = values[0] in (0, 1) and values[-1] - values[0] == len(values) - 1
    if numbered and not counted and len(values) <= FEW_CODES and rows.min() >= OF_EACH:
        return f"as its values are the whole numbers from {values[0]:.0f} to {values[-1]:.0f}"
    return ""


def disorder(x: NDArray[np.float64], outcomes: Sequence[NDArray[np.float64]]) -> float:
    """Return the p-value of the hypothesis that the mean of each outcome rises, or falls, with x: the smallest times
    their number (Robertson, Wright and Dykstra, Order Restricted Statistical Inference, 1988, section 2.3, where the
    number of different fitted means is given)."""
    p_values = []
    for outcome in outcomes:
        there = ~np.isnan(x) & ~np.isnan(outcome)
        values, level, rows = np.unique(x[there], return_inverse=True, return_counts=True)
        within = int(there.sum()) - len(values)
        if len(values) < 3 or within < len(values):
            continue
        y = outcome[there]
        means = np.bincount(level, y) / rows
        pure = ((y - means[level]) ** 2).sum()
        p_values.append(max(_not_rising(sign * means, rows, pure, within) for sign in (1, -1)))
    return min(1.0, min(p_values) * len(p_values)) if p_values else 1.0


def _not_rising(means: NDArray[np.float64], rows: NDArray[np.int64], pure: float, within: int) -> float:
    """Return the p-value of means of so many rows that rise, by the sum of squares within them."""
    fitted = isotonic_regression(means, weights=rows)
    pooled = len(means) - (len(fitted.blocks) - 1)
    lack = float((rows * (means - fitted.x) ** 2).sum())
    if not pooled or lack <= 1e-9 * max(pure, float((rows * (means - means.mean()) ** 2).sum())):
        return 1.0
    return float(stats.f.sf(lack / pooled / (pure / within), pooled, within)) if pure > 0 else 0.0


LABELS = re.compile(
    r"(class|cls|label|target|y|outcome|category|species|diagnosis|survived|churn|price|score|rating)", re.I
)
"""Names by which a column is what is predicted."""
KEYS = re.compile(
    r"(.*[_ ])?(id|key|uuid|index|no|nr|number|code)|(?-i:.*[a-z]I[dD])|file_?name|obs|unnamed.*|column0|"
    r"(doc|pat|subj?|cust|case|emp|obs|rec|row|item|order|user|acct|stud)[a-z]*(id|no|nr|num|code)|"
    r"[a-z]?id|[a-z]*id(no|nr|num)",
    re.I,
)
"""Names by which a column of different values is the key."""
IDS = re.compile(r"(.*[_ ])?(id|key|uuid)|(?-i:.*[a-z]I[dD])", re.I)
"""Names by which values name what rows belong to, also where few of them repeat, and measure nothing."""
GROUPS = re.compile(
    rf"{IDS.pattern}|(.*[_ ])?(patient|subject|user|customer|client|person|case|visit|"
    r"session|household|student|player|speaker|writer|author|site|device|machine|vehicle)(_?(id|no|nr|number|code))?",
    re.I,
)
"""Names by which a column of values that repeat names what rows belong to."""
SPLITS = re.compile(r"splits?|subset|folds?|cv|partition", re.I)
"""Names by which a column of few values is the split, or the number of a part of a cross-validation."""

FEW_GROUPS = 10
"""Groups at least of which splits can be made."""
REPEATED, ROWS_OF_GROUP = 1.5, 20
"""Rows of a group on average, at least; and at most, where its name does not tell that it is one."""
MAX_CLASSES = 1000


def key(columns: Mapping[str, Column], label: str | None) -> str | None:
    """Return the first column of different values that is called like a key."""
    for name, column in columns.items():
        if name == label:
            continue
        if column.unique and column.may_name and column.rows > 1 and KEYS.fullmatch(last_part(name)):
            return name
    return None


def predicted(columns: Mapping[str, Column]) -> str | None:
    """Return the column that is called like a label or target, else the last one that can be predicted."""

    def fits(column: Column) -> bool:
        if column.items and len(column.items) > 1:
            return True
        few = column.type == "category" and 2 <= column.distinct <= min(MAX_CLASSES, max(2, column.rows // 4))
        return few or (column.type == "number" and column.distinct > 1)

    named = [name for name in columns if is_called_label(name) and fits(columns[name])]
    if named:
        return named[-1]
    last = list(columns)[-1] if columns else None
    return last if last is not None and fits(columns[last]) else None


def several(columns: Mapping[str, Column], sample: Mapping[str, pa.Array]) -> tuple[str, ...]:
    """Return the last columns where they are of 0 and 1, two at least, none is called like a label, and they are not
    one class a row."""
    names = [*itertools.takewhile(lambda name: is_binary(sample[name]), reversed([*columns]))][::-1]
    if len(names) < 2 or any(map(is_called_label, columns)):
        return ()
    ones = np.sum([np.asarray(Number(NUMBER).typed(sample[name]).values) for name in names], axis=0)
    return () if bool((ones == 1).all()) else tuple(names)


def group(columns: Mapping[str, Column], sample: Mapping[str, pa.Array]) -> str | None:
    """Return the first column whose values repeat and name what rows belong to, by its name or as a counter."""
    for name, column in columns.items():
        there = column.rows - column.missing
        each = 1 if IDS.fullmatch(last_part(name)) else REPEATED
        repeats = FEW_GROUPS <= column.distinct < there and each * column.distinct <= there and not column.missing
        if repeats and column.may_name and (GROUPS.fullmatch(last_part(name)) or _counts_up(column, sample[name])):
            return name
    return None


def _counts_up(column: Column, raw: pa.Array) -> bool:
    """Return whether whole numbers count small groups of rows that follow each other: 1000, 1000, 1001, 1001, 1002."""
    if column.type != "number" or column.distinct <= max(FEW_CLASSES, column.rows // ROWS_OF_GROUP):
        return False
    numbers = np.asarray(Number(NUMBER).typed(raw).values, np.float64)
    steps = np.diff(numbers)
    years = bool((numbers >= 1900).all() and (numbers <= 2100).all())
    return not years and bool(np.isin(steps, (0, 1)).all())


def split(columns: Mapping[str, Column]) -> str | None:
    """Return the column whose values are splits, train among them."""
    for name, column in columns.items():
        values = {value.lower() for value in column.values}
        if SPLITS.fullmatch(last_part(name)) and not column.missing and "train" in {USUAL_NAMES.get(v) for v in values}:
            return name if len(values) > 1 and values <= USUAL_NAMES.keys() else None
    return None


def is_called_label(name: str) -> bool:
    """Return whether a column has a name by which it is what is predicted."""
    return LABELS.fullmatch(last_part(name)) is not None


def last_part(name: str) -> str:
    """Return the last part of the name of a nested column."""
    return re.split(r"[/.]", name.strip())[-1]


def is_binary(values: pa.Array) -> bool:
    """Return whether a column has 0 and 1, and nothing else."""
    plain = pt.is_integer(values.type) or pt.is_float32(values.type) or pt.is_float64(values.type)
    if not (plain or is_text(values.type)):
        return False
    return {str(value) for value in values.unique().to_pylist()} in ({"0", "1"}, {"0.0", "1.0"})


TAGS = re.compile(r"(.*_)?(ner|pos|chunk|iob2?)?_?(tags?|labels?|classes|entities|ner|pos)", re.I)
"""Names by which a column of lists is that of tags."""
MAX_TAGS = 200
"""Different tags at most."""
LENGTHS = 16
"""The length of a row of words is a multiple of it."""
LONGEST = 512


def tagged(sample: Mapping[str, pa.Array], label: str | None) -> Tagged | None:
    """Return the columns of words and tags: lists that are equally long in every row; None where there are none.

    Tags are called as such, or chosen: lists of one length may be anything.

    Args:
        label: the column that the user chose to predict.
    """
    lists = {
        name: values
        for name, values in sample.items()
        if is_list_of_texts(values) or pa.types.is_integer(item_of(values) or pa.null())
    }
    different = {name: len(pc.unique(flat_texts(values))) for name, values in lists.items()}
    of_words = [name for name, values in lists.items() if not is_numeric(values)]
    for words in sorted(of_words, key=lambda name: -different[name]):
        fitting = [
            name
            for name in lists
            if name != words
            and (TAGS.fullmatch(name) if label is None else name == label)
            and 1 < different[name] <= min(MAX_TAGS, different[words])
            and np.array_equal(lengths_of(lists[name]), lengths_of(lists[words]))
        ]
        if fitting:
            tags, lengths = fitting[0], lengths_of(lists[words])
            usual, longest = int(np.quantile(lengths, 0.99)), int(lengths.max())
            length = min(LONGEST, -(-max(usual, 1) // LENGTHS) * LENGTHS)
            return Tagged(words, tags, tag_counts(lists[tags]), length, longest)
    return None


def tag_counts(values: pa.Array) -> dict[str, int]:
    """Return how many items there are of each, numbers in their order and texts sorted."""
    counted = {row["values"]: row["counts"] for row in pc.value_counts(flat_texts(values)).to_pylist()}
    counted.pop(None, None)
    numeric = is_numeric(values)
    return dict(sorted(counted.items(), key=lambda item: float(item[0]) if numeric else item[0]))
