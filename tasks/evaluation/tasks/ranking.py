"""Ranking: the documents of a query by how probable it is that they are relevant, judged query by query.

The examples are queries: the values of the column of the role `group`, whose rows are in one split. A query with one
document, or without a relevant one, has no order to judge and is left out; the report says how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.errors import Failed
from tasks.evaluation.binary import Binary
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import Kept
from tasks.evaluation.metrics import Means, Metric, Score, mean, ratio
from tasks.evaluation.splits import Split
from tasks.evaluation.tasks import multilabel
from tasks.evaluation.units import Floats


@dataclass(frozen=True)
class Predictions(multilabel.Predictions):
    """Logits and relevance of all rows, [N, 1], and their queries."""

    query: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """int64 [N]: the number of the row's query, -1 where it is left out."""
    at: int = 10
    """The last rank that counts for `ndcg` and `recall`."""

    @cached_property
    def ranked(self) -> Ranked:
        """The rows that are judged, by query and score."""
        judged = np.flatnonzero(self.query >= 0)
        scores = self.logits[judged, 0]
        order = np.lexsort((-scores, self.query[judged]))
        rows, scores, query = judged[order], scores[order], self.query[judged][order]
        another = np.concatenate([[True], query[1:] != query[:-1]])
        starts = np.flatnonzero(another)
        rank = np.arange(len(rows)) - starts[np.cumsum(another) - 1] + 1
        tied = np.cumsum(another | np.concatenate([[True], scores[1:] != scores[:-1]])) - 1
        before = rank[np.searchsorted(tied, tied)] - 1
        discount = np.where(rank <= self.at, 1 / np.log2(rank + 1), 0.0)
        mean_discount = np.bincount(tied, discount) / np.bincount(tied)
        relevant = self.truth[rows, 0].astype(np.float64)
        irrelevant = np.bincount(tied, 1 - relevant).astype(np.int64)[tied]
        found = np.bincount(tied, relevant).astype(np.int64)[tied]
        in_time = np.clip(self.at - before - irrelevant, 0, found) / np.maximum(found, 1)
        return Ranked(rows, query, starts, relevant, before + irrelevant + 1, in_time, mean_discount[tied])


@dataclass(frozen=True)
class Ranked:
    """Rows by query, and in each by falling score; all [rows], `starts` [queries]."""

    rows: npt.NDArray[np.int64]
    query: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    relevant: Floats
    rank: npt.NDArray[np.int64]
    """From 1: of the first relevant document of equal scores, where the irrelevant ones of them come first."""
    in_time: Floats
    """The share of the relevant documents of equal scores that is among the first `at`, where irrelevant ones come
    first."""
    discount: Floats
    """What a relevant document gains at its rank; of equal scores the mean."""

    def sums(self, values: Floats) -> Floats:
        """Return the sums of values [rows] over each query, [queries]."""
        return np.add.reduceat(values, self.starts)


def ndcg(predictions: Predictions) -> Floats:
    """Return the normalised discounted cumulative gain of each query, [queries, 1], as scikit-learn's `ndcg_score`.

    Järvelin and Kekäläinen (ACM TOIS 20, 2002); gains of equal scores are averaged (McSherry and Najork, ECIR 2008).
    """
    ranked = predictions.ranked
    relevant = ranked.sums(ranked.relevant).astype(np.int64)
    ideal = np.cumsum(1 / np.log2(np.arange(2, relevant.max() + 2)))
    gained = ranked.sums(ranked.relevant * ranked.discount)
    return (gained / ideal[np.minimum(relevant, predictions.at) - 1])[:, None]


def reciprocal_rank(predictions: Predictions) -> Floats:
    """Return one divided by the rank of the first relevant document of each query, [queries, 1].

    Of equal scores it is that of the worst order, in which the irrelevant documents come first (McSherry and Najork,
    ECIR 2008): one more than the documents that score higher and the irrelevant ones that score the same.
    """
    ranked = predictions.ranked
    return np.maximum.reduceat(ranked.relevant / ranked.rank, ranked.starts)[:, None]


def recall(predictions: Predictions) -> Floats:
    """Return the share of each query's relevant documents that are among the first ones, [queries, 1].

    Of equal scores it is that of the worst order, in which the irrelevant documents come first.
    """
    ranked = predictions.ranked
    found = ranked.sums(ranked.relevant * ranked.in_time)
    return (found / ranked.sums(ranked.relevant))[:, None]


def loss(predictions: Predictions) -> Floats:
    """Return the binary cross-entropy in nats, summed, and the number of documents of each query, [queries, 2]."""
    ranked = predictions.ranked
    losses = multilabel.loss(predictions)[ranked.rows, 0]
    return np.stack([ranked.sums(losses), ranked.sums(np.ones(len(losses)))], axis=-1)


METRICS: dict[str, Metric] = {
    "ndcg": Score(ndcg, mean),
    "mrr": Score(reciprocal_rank, mean),
    "recall": Score(recall, mean),
    "loss": Means(loss, ratio, size=1),
}
"""By the names of `evaluate.metrics`."""


class RankingJudge(multilabel.MultilabelJudge):
    """Judges by queries."""

    task = "ranking"
    metrics = METRICS

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        super().__init__(split, config, loss)
        self.check_single("1 for a relevant document")
        _, of_row, counts = np.unique(split.queries(), return_inverse=True, return_counts=True)
        judged = (counts > 1) & (np.bincount(of_row, self.truth[:, 0]) > 0)
        numbers = np.where(judged, np.cumsum(judged) - 1, -1)
        self.at, self.query = config.at, numbers[of_row]
        self.example_of = self.query
        self.examples, self.left_out = int(judged.sum()), int((~judged).sum())
        if not self.examples:
            saw = f"none of {len(counts)} queries has a relevant document and another one"
            raise Failed(
                f"split {split.name}", saw, "an order is judged by query", "check the columns group and target"
            )

    @property
    def baselines(self) -> dict[str, float]:
        """Expected gain of a random order, which is that of equal scores."""
        equal = Predictions(np.zeros(self.truth.shape), self.truth, self.query, self.at)
        return {"random_ndcg": METRICS["ndcg"](equal)}

    def predictions(self, kept: Kept) -> Predictions:
        """Combine the logits with the relevance and the queries."""
        return Predictions(kept["logits"].astype(np.float64), self.truth, self.query, self.at)

    def binary(self, predictions: multilabel.Predictions) -> dict[str, Binary]:
        """Return nothing: documents are ordered, not selected."""
        return {}

    def details(self, predictions: multilabel.Predictions) -> dict[str, Any]:
        """Return the last rank that counts, the documents, and the queries that are left out."""
        return {"at": self.at, "documents": len(self.truth), "queries_left_out": self.left_out}
