"""Transforms of categories to ids: by a vocabulary or by a hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from tasks.draws import splitmix64
from tasks.errors import Failed
from tasks.reader.cast import CATEGORY_BYTES
from tasks.reader.categories import FIRST, MISSING, UNKNOWN
from tasks.reader.values import Values
from tasks.snapshots.transforms import CATEGORIES, Fitted, Fitter, Known, Rows, Transform
from tasks.snapshots.transforms.graphs import BLOCK, Graph, digest8
from tasks.sources.features import Feature

if TYPE_CHECKING:
    import tensorflow as tf

DISTINCT = 2_000_000
"""Categories that are counted, at most."""
FINGERPRINTS = 2**63 - 1
"""The number of fingerprints: FarmHash's Fingerprint64 modulo this."""


class Vocabulary(Transform, place=2):
    """Ids of categories: 0 missing, 1 unknown or rare, then the most frequent first."""

    reads: ClassVar[tuple[str, ...]] = ("category",)
    usual: ClassVar[bool] = True

    kind: Literal["vocabulary"] = "vocabulary"
    """The transform."""

    size: Annotated[int, Field(ge=3, le=1_000_000)] = 10_000
    """Number of ids at most; the categories that are left over are rare ones."""

    min_count: Annotated[int, Field(ge=1)] = 2
    """A category with fewer examples in the train split is a rare one. With 1 and few categories no example of it is
    rare, and a model never learns what to do with an unknown one."""

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return VocabularyFitter(name, self)

    @classmethod
    def graph(cls, states: Sequence[dict[str, Any]]) -> Graph | str:
        import tensorflow as tf

        def fingerprints(categories: Any) -> tf.Tensor:
            return tf.strings.to_hash_bucket_fast(categories, FINGERPRINTS)

        values = [value.encode() for state in states for value in state["values"]]
        sizes = [len(state["values"]) for state in states]
        columns = np.repeat(np.arange(len(states)), sizes)
        ids = np.concatenate([np.arange(FIRST, FIRST + size) for size in sizes])
        salts = (splitmix64(np.arange(len(states), dtype=np.uint64)) >> np.uint64(1)).astype(np.int64)
        mixed = fingerprints(tf.constant(values, tf.string)).numpy() ^ salts[columns]
        if len(np.unique(mixed)) < len(mixed):
            return "two categories have the same fingerprint"
        order = np.argsort(mixed)
        # At the end one above all, of no column: every search finds a place.
        table = np.append(mixed[order], FINGERPRINTS)[np.newaxis]
        texts = [*(values[place] for place in order), b""]
        columns_of, ids_of = (
            np.append(each[order], end).astype(np.int32) for each, end in ((columns, -1), (ids, UNKNOWN))
        )

        def apply(categories: tf.Tensor) -> tf.Tensor:
            sought = tf.reshape(tf.bitwise.bitwise_xor(fingerprints(categories), salts), [1, -1])
            place = tf.reshape(tf.raw_ops.LowerBound(sorted_inputs=table, values=sought), tf.shape(categories))
            own = tf.gather(columns_of, place) == np.arange(len(states), dtype=np.int32)
            known = own & (tf.gather(tf.constant(texts), place) == categories)
            found = tf.where(known, tf.gather(ids_of, place), UNKNOWN)
            return tf.where(categories == "", MISSING, found)[..., tf.newaxis]

        return apply


class Hash(Transform, place=2):
    """Ids of categories by a hash of their text: of any number of categories, without a vocabulary."""

    reads: ClassVar[tuple[str, ...]] = ("category",)

    kind: Literal["hash"] = "hash"
    """The transform."""

    buckets: Annotated[int, Field(ge=2, le=10_000_000)] = 1000
    """Number of ids besides 0, which is a missing one."""

    def fitter(self, name: str, feature: Feature, folder: Path) -> Known:
        state = {"kind": self.kind, "buckets": self.buckets}
        return Known(Fitted(state, {"names": [name], "sizes": [self.buckets + 1]}, CATEGORIES))

    @classmethod
    def graph(cls, states: Sequence[dict[str, Any]]) -> Graph:
        counts = np.array([state["buckets"] for state in states], np.uint64)

        def apply(categories: tf.Tensor) -> tf.Tensor:
            import tensorflow as tf

            buckets = digest8(categories, CATEGORY_BYTES // BLOCK) % counts
            return tf.where(categories == "", 0, 1 + tf.cast(buckets, tf.int32))[..., tf.newaxis]

        return apply


class CountingFitter:
    """Counts values, of which the most frequent have ids of their own."""

    reads = True
    noun: ClassVar[str]
    """Plural name of the values."""
    remedy: ClassVar[str]
    """What to do where they are too many."""

    def __init__(self, name: str) -> None:
        self._name, self._counts = name, Counter[str]()

    def count(self, values: Iterable[str]) -> None:
        """Count values; raises `Failed` for too many different ones."""
        self._counts.update(values)
        if len(self._counts) > DISTINCT:
            saw = f"{self._name} has more than {DISTINCT:,} different values"
            rule = "a vocabulary counts each of them in memory"
            raise Failed("snapshot.transforms", saw, rule, self.remedy.replace("NAME", self._name))

    def chosen(self, min_count: int, size: int) -> tuple[list[str], dict[str, float]]:
        """Return the values with ids, by descending count, then by name, and figures of them.

        Args:
            min_count: examples of a value at least.
            size: ids at most, those of what is missing and unknown included.
        """
        counts = self._counts
        kept = most_frequent(counts, min_count, size - FIRST)
        rare = counts.total() - sum(counts[value] for value in kept)
        return kept, {"size": FIRST + len(kept), self.noun: len(counts), "rare": rare / max(1, counts.total())}


class VocabularyFitter(CountingFitter):
    """Counts categories."""

    noun = "categories"
    remedy = "set snapshot.transforms.NAME to {kind: hash}, or make the column `ignore`"

    def __init__(self, name: str, config: Vocabulary) -> None:
        super().__init__(name)
        self._config = config

    def add(self, values: Values, rows: Rows) -> None:
        """Count a list of categories."""
        self.count(values)

    def fitted(self) -> Fitted:
        """Return the transform."""
        del self._counts[""]
        kept, summary = self.chosen(self._config.min_count, self._config.size)
        state = {"kind": "vocabulary", "values": kept}
        return Fitted(state, {"names": [self._name], "sizes": [summary["size"]]}, CATEGORIES, summary)


def most_frequent(counts: Counter[str], min_count: int, most: int) -> list[str]:
    """Return the values with at least `min_count` examples, by descending count, then by name; at most `most`."""
    frequent = [value for value, count in counts.items() if count >= min_count]
    return sorted(frequent, key=lambda value: (-counts[value], value))[:most]
