"""Fits `vocabulary`: the exact number of examples of each category."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tasks.config.transform import Vocabulary
from tasks.data.features import Feature
from tasks.data.reader.values import Values
from tasks.data.reader.vocabulary import FIRST
from tasks.data.transforms import CATEGORIES, Fitted, Rows
from tasks.errors import Failed

DISTINCT = 2_000_000
"""Categories that are counted, at most."""


class VocabularyFitter:
    """Counts categories."""

    reads = True

    def __init__(self, name: str, config: Vocabulary) -> None:
        self._name, self._config = name, config
        self._counts: Counter[str] = Counter()

    def add(self, values: Values, rows: Rows) -> None:
        """Count a list of categories; raises `Failed` for too many different ones."""
        self._counts.update(values)
        self._check()

    def fitted(self) -> Fitted:
        """Return the transform: ids by descending count, then by name."""
        counts = Counter({value: count for value, count in self._counts.items() if value})
        frequent = [value for value, count in counts.items() if count >= self._config.min_count]
        kept = sorted(frequent, key=lambda value: (-counts[value], value))[: self._config.size - FIRST]
        size = FIRST + len(kept)
        rare = counts.total() - sum(counts[value] for value in kept)
        summary = {"size": size, "categories": len(counts), "rare": rare / max(1, counts.total())}
        state = {"kind": "vocabulary", "values": kept}
        return Fitted(state, {"names": [self._name], "sizes": [size]}, CATEGORIES, summary)

    def _check(self) -> None:
        if len(self._counts) > DISTINCT:
            saw = f"{self._name} has more than {DISTINCT:,} different values"
            rule = "a vocabulary counts each of them in memory"
            remedy = f"set snapshot.transforms.{self._name} to {{kind: hash}}, or make the column `ignore`"
            raise Failed("snapshot.transforms", saw, rule, remedy)


def fitter(name: str, feature: Feature, config: Vocabulary, folder: Path) -> VocabularyFitter:
    """Return a fitter of categories."""
    return VocabularyFitter(name, config)
