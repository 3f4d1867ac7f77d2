"""Fits `vocabulary`: the exact number of examples of each category."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.config.transform import Vocabulary
from tasks.data.features import Feature
from tasks.data.reader.values import Values
from tasks.data.reader.vocabulary import FIRST, MISSING, UNKNOWN
from tasks.data.transforms import CATEGORIES, Fitted, Rows
from tasks.data.transforms.graphs import Graph
from tasks.errors import Failed

if TYPE_CHECKING:
    import tensorflow as tf

DISTINCT = 2_000_000
"""Categories that are counted, at most."""
FINGERPRINTS = 2**63 - 1
"""The number of fingerprints: FarmHash's Fingerprint64 modulo this."""


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
        kept = most_frequent(counts, self._config.min_count, self._config.size - FIRST)
        size = FIRST + len(kept)
        rare = counts.total() - sum(counts[value] for value in kept)
        summary = {"size": size, "categories": len(counts), "rare": rare / max(1, counts.total())}
        state = {"kind": "vocabulary", "values": kept}
        return Fitted(state, {"names": [self._name], "sizes": [size]}, CATEGORIES, summary)

    def _check(self) -> None:
        remedy = f"set snapshot.transforms.{self._name} to {{kind: hash}}, or make the column `ignore`"
        refuse_too_many(self._name, len(self._counts), remedy)


def refuse_too_many(name: str, values: int, remedy: str) -> None:
    """Raise `Failed` where a column has too many different values to be counted."""
    if values > DISTINCT:
        saw, rule = f"{name} has more than {DISTINCT:,} different values", "a vocabulary counts each of them in memory"
        raise Failed("snapshot.transforms", saw, rule, remedy)


def most_frequent(counts: Counter[str], min_count: int, most: int) -> list[str]:
    """Return the values with at least `min_count` examples, by descending count, then by name; at most `most`."""
    frequent = [value for value, count in counts.items() if count >= min_count]
    return sorted(frequent, key=lambda value: (-counts[value], value))[:most]


def fitter(name: str, feature: Feature, config: Vocabulary, folder: Path) -> VocabularyFitter:
    """Return a fitter of categories."""
    return VocabularyFitter(name, config)


def graph(state: dict[str, Any]) -> Graph | str:
    """Return the transform of categories to int32 [n, 1], or why it has none.

    A binary search for the fingerprint of a category, whose text is then compared. A hash table would need an operation
    that initialises it, which a conversion to LiteRT cannot do without.
    """
    import tensorflow as tf

    def fingerprints(categories: Any) -> tf.Tensor:
        return tf.strings.to_hash_bucket_fast(categories, FINGERPRINTS)

    hashes = fingerprints(tf.constant(state["values"], tf.string)).numpy()
    order = np.argsort(hashes)
    if len(np.unique(hashes)) < len(hashes):
        return "two of its categories have the same fingerprint"
    hashes = np.append(hashes[order], FINGERPRINTS)  # above all: every search finds a place
    ids = np.append(order + FIRST, UNKNOWN).astype(np.int32)
    values = [*(state["values"][place].encode() for place in order), b""]

    def apply(categories: tf.Tensor) -> tf.Tensor:
        place = tf.searchsorted(hashes, fingerprints(categories))
        known = tf.gather(tf.constant(values), place) == categories
        found = tf.where(known, tf.gather(ids, place), UNKNOWN)
        return tf.where(categories == "", MISSING, found)[:, tf.newaxis]

    return apply
