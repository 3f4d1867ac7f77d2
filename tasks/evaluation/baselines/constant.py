"""Constant baselines as predictions: the best answer that is the same for all of the judged examples.

Which answer is the best depends on the metric. A model is compared with it example by example; of text it is a bigram
model of bytes. Sizes after compression are of all files together: no predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
from scipy.special import logit

from tasks.config.task import UNTAGGED
from tasks.evaluation import bigrams
from tasks.evaluation.baselines.kind import SMALLEST
from tasks.evaluation.judging import Judge
from tasks.evaluation.metrics import Metric
from tasks.evaluation.units import Floats

MOST_CLASSES = 100
"""Classes that are tried as the only answer: the most frequent ones."""


def best(task: str, judge: Judge, of_model: Any, metric: Metric, higher_is_better: bool) -> Floats | None:
    """Return the contributions of the constant answer with the best value of a metric; None where it has none."""
    found = [metric.contributions(each) for each in CONSTANT[task](judge, of_model)]
    values = [metric.of(each) * (1 if higher_is_better else -1) for each in found if np.isfinite(each).all()]
    return found[int(np.argmax(values))] if values else None


def _classes(judge: Judge, of_model: Any) -> Iterator[Any]:
    """Yield the frequencies of the classes, of which the most frequent one is the likeliest, and each class alone."""
    counts = np.bincount(of_model.labels, minlength=judge.outputs)
    shares = np.maximum(counts / counts.sum(), SMALLEST)
    yield replace(of_model, log_probabilities=np.broadcast_to(np.log(shares), of_model.log_probabilities.shape))
    for number in np.argsort(-counts, kind="stable")[:MOST_CLASSES]:
        sure = np.full(of_model.log_probabilities.shape, np.log(SMALLEST))
        sure[:, number] = 0.0
        yield replace(of_model, log_probabilities=sure)


def _labels(judge: Judge, of_model: Any) -> Iterator[Any]:
    """Yield every label, in no order, and the frequency of each."""
    yield replace(of_model, logits=np.ones(of_model.logits.shape))
    shares = np.clip(of_model.truth.mean(axis=0), SMALLEST, 1 - SMALLEST)
    yield replace(of_model, logits=np.broadcast_to(logit(shares), of_model.logits.shape))


def _middles(judge: Judge, of_model: Any) -> Iterator[Any]:
    """Yield the mean and the median of each target."""
    for middle in (of_model.truth.mean(axis=0), np.median(of_model.truth, axis=0)):
        yield replace(of_model, predicted=np.broadcast_to(middle, of_model.truth.shape))


def _tags(judge: Judge, of_model: Any) -> Iterator[Any]:
    """Yield the most frequent class of all tokens for each of them."""
    most = np.bincount(of_model.labels[of_model.real]).argmax()
    yield replace(of_model, tags=np.where(of_model.real, most, UNTAGGED).astype(np.int32), nats=None)


def _bigrams(judge: Any, of_model: Any) -> Iterator[Any]:
    """Yield the nats of each file by the bigram model of bytes, which is fitted on train; which token is the likeliest
    it does not know."""
    texts = zip(judge.documents.before, judge.documents.contents, strict=True)
    nats = bigrams.bits_of_texts(texts, judge.split.fitted_bigrams()) * log(2)
    yield replace(of_model, nats=nats, right=np.full(len(nats), np.nan))


CONSTANT: dict[str, Callable[[Any, Any], Iterator[Any]]] = {
    "classification": _classes,
    "multilabel": _labels,
    "anomaly": _labels,
    "ranking": _labels,
    "regression": _middles,
    "tagging": _tags,
    "language_model": _bigrams,
}
"""By `model.task`, from judge and predictions of the model, which hold the truth."""
