"""Baselines of texts: frequencies of words and of their pieces (TF-IDF), and a bigram model of bytes."""

from __future__ import annotations

from typing import Any, ClassVar

from tasks.evaluation.baselines import arrays
from tasks.evaluation.baselines.kind import Kind, Rows
from tasks.evaluation.splits import SnapshotSplit

ROWS = 10_000
"""Train examples that are learned from, at most."""
CHARACTERS = 500
"""Characters of each text that are read, at most: the first ones."""
WORDS, PIECES = (1, 2), (2, 4)
"""Words in a row, and characters of a piece of a word, that are counted together."""
TERMS = 20_000
"""Terms of words, and of pieces, at most: the most frequent ones in train."""
PENALTY = 0.1
"""The strength of the penalty: TF-IDF is small."""


class Texts(Kind):
    """All texts of an example, one after another; lists of words are joined by blanks."""

    name: ClassVar[str] = "linear model of words and characters"
    rows: ClassVar[int] = ROWS

    def __init__(self, train: SnapshotSplit, rows: Rows, names: list[str]) -> None:
        """Learn the terms and how frequent they are."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.names = names
        self.left_out: tuple[str, ...] = (f"texts after their first {CHARACTERS} characters",)
        texts, common = self._texts(train, rows), {"max_features": TERMS, "sublinear_tf": True}
        vectorisers = (
            TfidfVectorizer(ngram_range=WORDS, token_pattern=r"\S+", **common),
            TfidfVectorizer(ngram_range=PIECES, analyzer="char_wb", **common),
        )
        self._vectorisers = [each.fit([*texts, "."]) for each in vectorisers]  # a term at least, of empty texts too
        if not any(len(text) == CHARACTERS for text in texts):
            self.left_out = ()

    def values(self, split: SnapshotSplit, rows: Rows) -> Any:
        """Return a sparse matrix, float64 [rows, terms]."""
        from scipy.sparse import hstack

        texts = self._texts(split, rows)
        return hstack([each.transform(texts) for each in self._vectorisers], format="csr")

    def _texts(self, split: SnapshotSplit, rows: Rows) -> list[str]:
        columns = split.values(rows, self.names)
        parts = [[each if isinstance(each, str) else " ".join(each) for each in column] for column in columns.values()]
        return [" ".join(texts)[:CHARACTERS] for texts in zip(*parts, strict=True)]

    def classifier(self, iterations: int) -> Any:
        """Return logistic regression."""
        return arrays.classifier(iterations, PENALTY)

    def regressor(self, iterations: int) -> Any:
        """Return ridge regression."""
        return arrays.regressor(iterations, PENALTY)
