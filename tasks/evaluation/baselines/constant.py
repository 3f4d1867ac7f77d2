"""Constant baselines as predictions: the best answer that is the same for all of the judged examples.

They are those of `Judge.baselines`, by the same names, so that a model is compared with them example by example; of
text the bigram model of bytes is among them. Sizes after compression are of all files together: no predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log
from typing import Any

import numpy as np

from tasks.config.task import UNTAGGED
from tasks.evaluation import bigrams
from tasks.evaluation.baselines.heads import SMALLEST
from tasks.evaluation.judging import Judge


def predictions(task: str, judge: Judge, of_model: Any) -> dict[str, Any]:
    """Return the judge's `Predictions` of each constant baseline that has some, by its name in `Judge.baselines`."""
    return {next(iter(judge.baselines)): CONSTANT[task](judge, of_model)}


def _majority(judge: Judge, of_model: Any) -> Any:
    """Return near certainty of the most frequent class."""
    sure = np.full(of_model.log_probabilities.shape, np.log(SMALLEST))
    sure[:, np.bincount(of_model.labels).argmax()] = 0.0
    return replace(of_model, log_probabilities=sure)


def _every_label(judge: Judge, of_model: Any) -> Any:
    """Return the same logit above 0 for all: every label, and no order."""
    return replace(of_model, logits=np.ones(of_model.logits.shape))


def _mean(judge: Judge, of_model: Any) -> Any:
    """Return the mean of each target."""
    mean = of_model.truth.mean(axis=0)
    return replace(of_model, predicted=np.broadcast_to(mean, of_model.truth.shape))


def _majority_of_tokens(judge: Judge, of_model: Any) -> Any:
    """Return the most frequent class of all tokens for each of them."""
    most = np.bincount(of_model.labels[of_model.real]).argmax()
    return replace(of_model, tags=np.where(of_model.real, most, UNTAGGED).astype(np.int32), nats=None)


def _bigrams(judge: Any, of_model: Any) -> Any:
    """Return the nats of each file by the bigram model of bytes, which is fitted on train; which token is the likeliest
    it does not know."""
    texts = zip(judge.documents.before, judge.documents.contents, strict=True)
    nats = bigrams.bits_of_texts(texts, judge.split.fitted_bigrams()) * log(2)
    return replace(of_model, nats=nats, right=np.full(len(nats), np.nan))


CONSTANT: dict[str, Callable[[Any, Any], Any]] = {
    "classification": _majority,
    "multilabel": _every_label,
    "anomaly": _every_label,
    "ranking": _every_label,
    "regression": _mean,
    "tagging": _majority_of_tokens,
    "language_model": _bigrams,
}
"""By `model.task`, from judge and predictions of the model, which hold the truth: the first of `Task.baselines`."""
