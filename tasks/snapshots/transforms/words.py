"""Fits `words`: the exact number of times that each word is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tasks.config.transform import Words
from tasks.reader.tokens import PADDING
from tasks.reader.values import Values
from tasks.reader.words import FIRST, UNKNOWN, plain
from tasks.snapshots.transforms import Fitted, Rows
from tasks.snapshots.transforms.vocabulary import most_frequent, refuse_too_many
from tasks.sources.features import Feature


class WordsFitter:
    """Counts words, also those that are cut."""

    reads = True

    def __init__(self, name: str, config: Words) -> None:
        self._name, self._config = name, config
        self._counts: Counter[str] = Counter()

    def add(self, values: Values, rows: Rows) -> None:
        """Count lists of words; raises `Failed` for too many different ones."""
        self._counts.update(plain(word, self._config.lowercase) for word in chain.from_iterable(values))
        refuse_too_many(self._name, len(self._counts), "make the column `ignore`, or divide its words")

    def fitted(self) -> Fitted:
        """Return the transform: ids by descending count, then by word."""
        config, counts = self._config, self._counts
        kept = most_frequent(counts, config.min_count, config.vocabulary - FIRST)
        size = FIRST + len(kept)
        dtype = "uint16" if size <= 2**16 else "uint32"
        rare = counts.total() - sum(counts[word] for word in kept)
        summary = {"size": size, "words": len(counts), "rare": rare / max(1, counts.total())}
        state = {"kind": "words", "values": kept, "length": config.length, "lowercase": config.lowercase}
        feature = {"dtype": dtype, "shape": [config.length], "vocabulary": size, "padding": PADDING, "unknown": UNKNOWN}
        return Fitted({**state, "dtype": dtype}, feature, None, summary)


def fitter(name: str, feature: Feature, config: Words, folder: Path) -> WordsFitter:
    """Return a fitter of lists of words."""
    return WordsFitter(name, config)


def graph(states: Sequence[dict[str, Any]]) -> str:
    """Return why it has no operations of TensorFlow."""
    return "its words are lists of any length"
