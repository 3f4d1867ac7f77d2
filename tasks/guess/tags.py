"""Lists of words with a list of their tags, in a sample of raw rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.records.column_types.texts import lengths_of

TAGS = re.compile(r"(.*_)?(ner|pos|chunk|iob2?)?_?(tags?|labels?|classes|entities|ner|pos)", re.I)
"""Names by which a column of lists is that of tags."""
MAX_TAGS = 200
"""Different tags at most."""
WHOLE_OR_DECIMAL = re.compile(r"-?\d+(\.\d+)?")


LENGTHS = 16
"""The length of a row of words is a multiple of it."""
LONGEST = 512


VOCABULARY = 20_000


@dataclass(frozen=True)
class Tagged:
    """A column of words and one of their tags."""

    words: str
    tags: str
    classes: dict[str, int]
    """Words of the sample by tag; numbers in their order."""
    length: int
    """A length for rows of words, which cuts few."""
    longest: int
    """Words of the longest row."""

    @property
    def numbered(self) -> bool:
        """Whether the classes are numbers, and not their names."""
        return all(WHOLE_OR_DECIMAL.fullmatch(name) for name in self.classes)


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
            return Tagged(words, tags, counts_of(lists[tags]), length, longest)
    return None


def is_list_of_texts(values: pa.Array) -> bool:
    """Return whether a column has lists of texts."""
    item = item_of(values)
    return item is not None and bool(pa.types.is_string(item) or pa.types.is_large_string(item))


def item_of(values: pa.Array) -> pa.DataType | None:
    """Return the type of the items of lists of any length; None for another column."""
    kind = values.type
    return kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None


def is_numeric(values: pa.Array) -> bool:
    """Return whether all items of lists are numbers, or texts of some."""
    flat = pc.unique(flat_texts(values))
    return all(WHOLE_OR_DECIMAL.fullmatch(value) for value in flat.drop_null().slice(0, 1000).to_pylist())


def flat_texts(values: pa.Array) -> pa.Array:
    """Return the items of all lists as texts."""
    return pc.list_flatten(values).cast(pa.large_string())


def counts_of(values: pa.Array) -> dict[str, int]:
    """Return how many items there are of each, numbers in their order and texts sorted."""
    counted = {row["values"]: row["counts"] for row in pc.value_counts(flat_texts(values)).to_pylist()}
    counted.pop(None, None)
    numeric = is_numeric(values)
    return dict(sorted(counted.items(), key=lambda item: float(item[0]) if numeric else item[0]))
