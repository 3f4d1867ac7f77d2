"""Language models: the bigram model of bytes (`tasks.evaluation.bigrams`), file by file."""

from __future__ import annotations

from math import log
from typing import Any, Self

import numpy as np

from tasks.data.reading import RecordsReader
from tasks.evaluation import bigrams
from tasks.evaluation.baselines.learned import Learned
from tasks.evaluation.language_model import Predictions
from tasks.evaluation.splits import SnapshotSplit, Split


class Bytewise(Learned):
    """Knows of each byte the one before it, and how often both are beside one another in train."""

    name = "bigram model of bytes"

    @classmethod
    def of(cls, train: SnapshotSplit) -> Self:
        """Return it; the train texts are counted when they are first needed."""
        made = cls()
        made.rows = RecordsReader(train.records).counts[train.name]
        return made

    def predict(self, judge: Any, split: SnapshotSplit) -> Predictions:
        """Return the nats of each file, over the tokens of the judged model."""
        return of_files(judge, split)


def of_files(judge: Any, split: Split) -> Predictions:
    """Return the nats of each file of a language model's judge; which token is the likeliest is not known."""
    documents = judge.documents
    texts = zip(documents.before, documents.contents, strict=True)
    return Predictions(
        nats=bigrams.bits_of_texts(texts, split.fitted_bigrams()) * log(2),
        right=np.full(judge.examples, np.nan),
        tokens=np.bincount(documents.of_targets[judge.scored], minlength=judge.examples).astype(np.float64),
        bytes=np.array([len(content) for content in documents.contents], np.float64),
        by_position=np.zeros(0),
    )
