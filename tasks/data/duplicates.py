"""Examples with identical content, and conflicts of their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.data.features import TARGETS, Example, Feature
from tasks.data.sources import Item
from tasks.data.split import Handling

MAX_NAMED = 20
"""Number of label conflicts that are listed; all are counted."""

Copy = list[str]
"""[content, key, split, label] of an example whose content occurs more than once; JSON."""


@dataclass(frozen=True)
class Duplicates:
    """The contents that occur more than once in a listing.

    `contents`: their hashes; `extra`: the keys of all copies except the first by key; `handling`: `records.duplicates`.
    """

    contents: frozenset[str]
    extra: frozenset[str]
    handling: Handling

    @classmethod
    def of(cls, items: Sequence[Item], handling: Handling) -> Duplicates:
        """Find the duplicates of a listing."""
        count = Counter(item.content for item in items)
        contents = frozenset(content for content, number in count.items() if number > 1)
        first: dict[str, str] = {}
        for item in items:
            if item.content in contents:
                first[item.content] = min(first.get(item.content, item.key), item.key)
        extra = (item.key for item in items if item.content in contents and first[item.content] != item.key)
        return cls(contents, frozenset(extra), handling)

    def drops(self, item: Item) -> bool:
        """Return whether this example is dropped as a copy."""
        return self.handling == "drop" and item.key in self.extra

    def copy(self, item: Item, split: str, example: Example, features: dict[str, Feature]) -> Copy | None:
        """Return the `Copy` of an example; None where its content is unique."""
        if item.content not in self.contents:
            return None
        return [item.content, item.key, split, ", ".join(_labels(example, features))]


def summary(copies: Iterable[Copy], handling: Handling) -> dict[str, Any]:
    """Summarise the copies.

    Returns:
        `handling`; `contents`, the number of repeated contents; `examples`, the number of copies except the first of
        each content; `across_splits` and `label_conflicts`, the numbers of contents in several splits and with
        several labels; and `conflicts`, the first of the latter by key: `{"labels": [...], "keys": [...]}`.
    """
    rows = sorted(copies, key=lambda copy: copy[1])
    by_content: dict[str, list[Copy]] = {}
    for copy in rows:
        by_content.setdefault(copy[0], []).append(copy)
    repeated = [copies_of_content for copies_of_content in by_content.values() if len(copies_of_content) > 1]
    conflicts = [
        copies_of_content for copies_of_content in repeated if len({label for *_, label in copies_of_content}) > 1
    ]
    return {
        "handling": handling,
        "contents": len(repeated),
        "examples": sum(len(copies_of_content) - 1 for copies_of_content in repeated),
        "across_splits": sum(
            len({split for _, _, split, _ in copies_of_content}) > 1 for copies_of_content in repeated
        ),
        "label_conflicts": len(conflicts),
        "conflicts": [
            {"labels": [label for *_, label in copies_of_content], "keys": [key for _, key, _, _ in copies_of_content]}
            for copies_of_content in conflicts[:MAX_NAMED]
        ],
    }


def _labels(example: Example, features: dict[str, Feature]) -> Iterable[str]:
    for name in TARGETS:
        if name in example:
            classes = features[name].classes if features[name].kind == "label" else None
            value = example[name]
            yield classes[int(value)] if classes and isinstance(value, int) else str(np.asarray(value).tolist())
