"""Examples of identical content: which they are, how many, and where their labels disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.data.features import ANSWERS, Example, Feature
from tasks.data.sources import Item
from tasks.data.split import Handling

NAMED = 20
"""Contents with label conflicts that are spelled out; all are counted."""

Copy = list[str]
"""[content, key, split, label] of one example whose content stands more than once; JSON."""


@dataclass(frozen=True)
class Duplicates:
    """What stands more than once in a listing.

    `contents`: hashes of it; `extra`: the keys of all copies but the first by key; `handling`: `records.duplicates`.
    """

    contents: frozenset[str]
    extra: frozenset[str]
    handling: Handling

    @classmethod
    def of(cls, items: Sequence[Item], handling: Handling) -> Duplicates:
        """Of a whole listing."""
        count = Counter(item.content for item in items)
        contents = frozenset(content for content, number in count.items() if number > 1)
        first: dict[str, str] = {}
        for item in items:
            if item.content in contents:
                first[item.content] = min(first.get(item.content, item.key), item.key)
        extra = (item.key for item in items if item.content in contents and first[item.content] != item.key)
        return cls(contents, frozenset(extra), handling)

    def drops(self, item: Item) -> bool:
        """Whether this example is left out, as a copy."""
        return self.handling == "drop" and item.key in self.extra

    def copy(self, item: Item, split: str, example: Example, features: dict[str, Feature]) -> Copy | None:
        """What is noted of an example that was read; None of one that stands alone."""
        if item.content not in self.contents:
            return None
        return [item.content, item.key, split, ", ".join(_answers(example, features))]


def summary(copies: Iterable[Copy], handling: Handling) -> dict[str, Any]:
    """Statistics of the copies that were read, in the order of their keys.

    Returns:
        `handling`; `contents` that stand more than once; `examples`, the copies beyond the first of each;
        `across_splits`, how many contents stand in more than one split; `label_conflicts`, how many stand under
        different labels; and `conflicts`, the first of these: `{"labels": [...], "keys": [...]}`.
    """
    rows = sorted(copies, key=lambda copy: copy[1])
    by_content: dict[str, list[Copy]] = {}
    for copy in rows:
        by_content.setdefault(copy[0], []).append(copy)
    several = [alike for alike in by_content.values() if len(alike) > 1]
    conflicts = [alike for alike in several if len({label for *_, label in alike}) > 1]
    return {
        "handling": handling,
        "contents": len(several),
        "examples": sum(len(alike) - 1 for alike in several),
        "across_splits": sum(len({split for _, _, split, _ in alike}) > 1 for alike in several),
        "label_conflicts": len(conflicts),
        "conflicts": [
            {"labels": [label for *_, label in alike], "keys": [key for _, key, _, _ in alike]}
            for alike in conflicts[:NAMED]
        ],
    }


def _answers(example: Example, features: dict[str, Feature]) -> Iterable[str]:
    for name in ANSWERS:
        if name in example:
            classes = features[name].classes if features[name].kind == "label" else None
            value = example[name]
            yield classes[int(value)] if classes and isinstance(value, int) else str(np.asarray(value).tolist())
