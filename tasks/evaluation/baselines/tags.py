"""Tagging: the most frequent class of each word in train, the classical baseline (Charniak et al., AAAI 1993)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Self

import numpy as np

from tasks.config.task import WEIGHT
from tasks.evaluation.baselines.kind import Learned, evenly
from tasks.evaluation.splits import SnapshotSplit
from tasks.snapshots.tags import columns_of, padded_tags
from tasks.sources.features import of_role

ROWS = 50_000
"""Train sequences that are counted, at most."""


class Tags(Learned):
    """Of a word that train does not have, the most frequent class of all words."""

    name = "most frequent class of each word"

    def __init__(self, train: SnapshotSplit, words: str, label: str) -> None:
        """Count the classes of each word by the weights of their sequences; of equal counts the first class is taken.

        Args:
            words: the column of words.
            label: the column of their tags.
        """
        self.words = words
        with self.timed():
            total = len(next(iter(train.arrays.values())))
            rows = evenly(total, ROWS)
            self.rows = len(rows)
            self.left_out = (f"all but {self.rows:,} of {total:,} train sequences",) if self.rows < total else ()
            weights = np.asarray(train.arrays[WEIGHT][rows]) if WEIGHT in train.arrays else np.ones(len(rows))
            read = train.values(rows, [words, label])
            of_word: dict[str, Counter[int]] = {}
            of_all: Counter[int] = Counter()
            for text, tags, weight in zip(read[words], read[label], weights.tolist(), strict=True):
                for word, tag in zip(text, tags, strict=True):
                    of_word.setdefault(word, Counter())[tag] += weight
                    of_all[tag] += weight
            self.known = {word: _most(counts) for word, counts in of_word.items()}
            self.otherwise = _most(of_all)

    @classmethod
    def of(cls, train: SnapshotSplit) -> Self | None:
        """Return it; None where it is not one column of words whose tags are learned."""
        words, [label] = columns_of(train.raw), of_role(train.raw, "label")
        return cls(train, words[0], label) if len(words) == 1 else None

    def predict(self, judge: Any, split: SnapshotSplit) -> Any:
        """Return the classes of the words that the judged model reads too; those that are cut have none."""
        [texts] = split.values(np.arange(judge.examples), [self.words]).values()
        found = [[self.known.get(word, self.otherwise) for word in text] for text in texts]
        return judge.predictions({judge.saved: padded_tags(found, judge.length)})


def _most(counts: Counter[int]) -> int:
    return min(counts, key=lambda tag: (-counts[tag], tag))
