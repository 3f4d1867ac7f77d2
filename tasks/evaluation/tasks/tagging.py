"""Sequence tagging: the class of each token of a row, such as its part of speech, or the entity that it is a part of.

The examples are sequences, as the tokens of one are not independent. Every metric is a function of sums over them, so
that padding counts nowhere, and a sequence counts with its tokens or entities. Tokens past the length that a model
reads have no answer, which is wrong: models of several lengths are judged on the same tokens. Only the loss is without
them.

Entities of sequences of tags in the scheme IOB2: `B-PER` begins a person, `I-PER` goes on with one, `O` is none.

What a model predicts may break the scheme. It is read as conlleval reads it (Tjong Kim Sang and De Meulder, CoNLL 2003)
and after it seqeval: an `I-` after another type, or after none, begins an entity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.config.task import LABEL, UNTAGGED
from tasks.errors import Failed
from tasks.evaluation import pictures
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import Judge, Kept, quarters, share_or_none
from tasks.evaluation.metrics import Means, Metric, Score, ratio
from tasks.evaluation.splits import Split
from tasks.evaluation.tasks.classification import by_class, macro_f1, of_classes
from tasks.evaluation.tasks.language_model import nats
from tasks.evaluation.units import Floats
from tasks.models.features import classes
from tasks.snapshots.tags import CUT as OF_CUT
from tasks.snapshots.tags import padded_tags

Tags = npt.NDArray[np.int32]

CUT = -2
"""The predicted class of a token past the length that a model reads."""

WITHOUT_ENTITIES = "the classes are not O, B-… and I-…, so that there are no entities"


@dataclass(frozen=True)
class Predictions:
    """Predicted and true class numbers, int32 [N, length], `UNTAGGED` after the last token; `CUT` is none of them."""

    tags: Tags
    labels: Tags
    names: tuple[str, ...]
    """Of the classes."""
    nats: npt.NDArray[np.float32] | None = None
    """Cross-entropy of each token, float32 [N, length], 0 after the last; None where it is not known."""

    @cached_property
    def real(self) -> npt.NDArray[np.bool_]:
        """Where there are tokens, bool [N, length]."""
        return self.labels != UNTAGGED

    @cached_property
    def tokens(self) -> Floats:
        """The number of tokens, float64 [N]."""
        return self.real.sum(axis=1).astype(np.float64)

    @property
    def read(self) -> Floats:
        """The number of tokens that the model reads, float64 [N]."""
        return (self.real & (self.tags != CUT)).sum(axis=1).astype(np.float64)

    @cached_property
    def scheme(self) -> Scheme:
        """The scheme of the classes, which are those of entities."""
        scheme = scheme_of(self.names)
        assert scheme is not None, WITHOUT_ENTITIES
        return scheme

    @cached_property
    def entities(self) -> tuple[Entities, Entities, npt.NDArray[np.bool_]]:
        """Predicted and true entities, and which of the predicted ones are true."""
        predicted, true = self.scheme.entities(self.tags), self.scheme.entities(self.labels)
        return predicted, true, self.scheme.found(predicted, true, self.labels.shape)


def token_accuracy(predictions: Predictions) -> Floats:
    """Return correctly predicted tokens and all tokens of each sequence, [N, 2]."""
    right = ((predictions.tags == predictions.labels) & predictions.real).sum(axis=1)
    return np.stack([right, predictions.tokens], axis=-1).astype(np.float64)


def token_counts(predictions: Predictions) -> Floats:
    """Return [N, 3 * classes]: of each sequence the tokens that are rightly of a class, predicted, and true."""
    count, width = len(predictions.labels), len(predictions.names)
    row = np.nonzero(predictions.real)[0]
    tags, labels = predictions.tags[predictions.real], predictions.labels[predictions.real]

    def by_sequence(rows: npt.NDArray[np.int64], numbers: Tags) -> npt.NDArray[np.int64]:
        return np.bincount(rows * width + numbers, minlength=count * width).reshape(count, width)

    right = tags == labels
    known = tags != CUT
    parts = [by_sequence(row[right], tags[right]), by_sequence(row[known], tags[known]), by_sequence(row, labels)]
    return np.concatenate(parts, axis=1).astype(np.float64)


def entity_counts(predictions: Predictions) -> Floats:
    """Return the entities of each sequence that are rightly predicted, predicted, and true, [N, 3]."""
    predicted, true, found = predictions.entities
    rows = (predicted.row[found], predicted.row, true.row)
    counts = [np.bincount(row, minlength=len(predictions.labels)) for row in rows]
    return np.stack(counts, axis=-1).astype(np.float64)


def share_of(*places: int) -> Callable[[Floats], Floats]:
    """Return the function of means of `entity_counts` that divides the first by the mean of those at some places; 0
    where there are none."""

    def value(means: Floats) -> Floats:
        whole = sum(means[..., place] for place in places) / len(places)
        return np.divide(means[..., 0], whole, out=np.zeros_like(whole), where=whole > 0)

    return value


def places(*chosen: int) -> Callable[[Floats], Floats]:
    """Return the function of sums of `entity_counts` that adds those at some places, [units, 1]."""
    return lambda sums: sums[..., chosen].sum(axis=-1, keepdims=True)


def loss(predictions: Predictions) -> Floats:
    """Return nats and tokens that are read of each sequence, [N, 2]: their ratio is the loss of training."""
    if predictions.nats is None:
        return np.full((len(predictions.labels), 2), np.nan)
    return np.stack([predictions.nats.sum(axis=1, dtype=np.float64), predictions.read], axis=-1)


OF_ENTITIES = {
    "entity_f1": Score(entity_counts, share_of(1, 2), needs=places(1, 2)),
    "entity_precision": Score(entity_counts, share_of(1), needs=places(1)),
    "entity_recall": Score(entity_counts, share_of(2), needs=places(2)),
}
"""The metrics that there are where the classes are those of entities."""

METRICS: dict[str, Metric] = {
    "macro_f1": Score(token_counts, macro_f1, needs=of_classes),
    "token_accuracy": Score(token_accuracy, ratio, size=1),
    **OF_ENTITIES,
    "loss": Means(loss, ratio, size=1),
}
"""By the names of `evaluate.metrics`."""


class TaggingJudge(Judge):
    """Judges by sequences."""

    task = "tagging"
    metrics = METRICS
    saved = "tags"

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        super().__init__(split, config, loss)
        self.names = classes(split.features)
        read = np.asarray(split.arrays[LABEL][:], np.int32)
        self.examples, self.length = read.shape
        self.cut: int = split.features[LABEL].get(OF_CUT, {}).get(split.name, 0)
        whole = split.tags() if self.cut else []
        self.labels = padded_tags(whole, max(map(len, whole))) if whole else read
        self.read = self.labels[:, : self.length] != UNTAGGED
        self.outputs = self.length * len(self.names)
        self.of_entities = scheme_of(self.names) is not None
        left_out = () if self.of_entities else tuple(OF_ENTITIES)
        self.metrics = {name: metric for name, metric in METRICS.items() if name not in left_out}
        if asked := [name for name in config.metrics or () if name in left_out]:
            raise Failed("evaluate.metrics", asked[0], WITHOUT_ENTITIES, "leave it out")

    @property
    def targets(self) -> npt.NDArray[Any]:
        """The labels of the tokens that are read, [N, length]."""
        return np.asarray(self.split.arrays[LABEL])

    @property
    def baselines(self) -> dict[str, float]:
        """Macro F1 of always predicting the most frequent class of these tokens."""
        real = self.labels != UNTAGGED
        most = np.bincount(self.labels[real]).argmax()
        always = np.where(real, most, UNTAGGED).astype(np.int32)
        return {"majority_macro_f1": METRICS["macro_f1"](Predictions(always, self.labels, tuple(self.names)))}

    def constants(self, predictions: Predictions) -> Iterator[Predictions]:
        """Yield the most frequent class of all tokens for each of them."""
        most = np.bincount(predictions.labels[predictions.real]).argmax()
        yield replace(predictions, tags=np.where(predictions.real, most, UNTAGGED).astype(np.int32), nats=None)

    def keep(self, outputs: npt.NDArray[np.float32], start: int) -> Kept:
        """Keep the most probable class of each token, int32 [rows, length], and its nats, float32 [rows, length]."""
        labels, read = (each[start : start + len(outputs), : self.length] for each in (self.labels, self.read))
        most = np.where(read, outputs.argmax(axis=-1), UNTAGGED).astype(np.int32)
        losses = nats(outputs, np.maximum(labels, 0).astype(np.int64))
        return {"tags": most, "nats": np.where(read, losses, np.float32(0))}

    def predictions(self, kept: Kept) -> Predictions:
        """Combine the predicted with the true classes; those of tokens that are cut are unknown."""
        answers = np.where(self.labels != UNTAGGED, CUT, UNTAGGED).astype(np.int32)
        answers[:, : self.length] = kept["tags"]
        return Predictions(answers, self.labels, tuple(self.names), kept.get("nats"))

    def decisions(self, kept: Kept) -> npt.NDArray:
        """Return the most probable class of every token that is read, [tokens]."""
        return kept["tags"][self.read]

    def details(self, predictions: Predictions) -> dict[str, Any]:
        """Return the numbers of tokens and of those that are cut, precision, recall and F1 of each class and each type
        of entities, and the sequences with the most wrong tokens."""
        entities = {"entities": by_type(predictions)} if self.of_entities else {"without_entities": WITHOUT_ENTITIES}
        return {
            "tokens": int(predictions.tokens.sum()),
            "cut": self.cut,
            "classes": by_class(predictions.labels[predictions.real], predictions.tags[predictions.real], self.names),
            **entities,
            "sequences": self._most_wrong(predictions),
        }

    def _most_wrong(self, predictions: Predictions) -> list[dict[str, Any]]:
        wrong = ((predictions.tags != predictions.labels) & predictions.real).sum(axis=1)
        rows = np.lexsort((np.arange(len(wrong)), -wrong))[: self.config.most_wrong]
        rows = rows[wrong[rows] > 0]
        return [
            {"row": int(row), "key": key, "tokens": int(predictions.tokens[row]), "wrong": int(wrong[row])}
            for row, key in zip(rows, self.split.keys(rows), strict=True)
        ]

    def slices(self, predictions: Predictions) -> dict[str, npt.NDArray[np.bool_]]:
        """Return masks of the quartiles of the number of tokens."""
        return quarters(predictions.tokens, "{} tokens".format, ",.0f")

    def pictures(self, predictions: Predictions, details: dict[str, Any]) -> dict[str, bytes]:
        """Plot the confusion matrix of the tokens that are read."""
        labels, answers = (each[:, : self.length][self.read] for each in (predictions.labels, predictions.tags))
        return {"confusion": pictures.confusion(labels, answers, self.names, self.split.name)}


def by_type(predictions: Predictions) -> list[dict[str, Any]]:
    """Return precision, recall, F1 (None where undefined) and the number of entities of each type."""
    predicted, true, found = predictions.entities
    types = predictions.scheme.types
    counts = [np.bincount(each, minlength=len(types)) for each in (predicted.type[found], predicted.type, true.type)]
    return [
        {
            "class": f"entity {name}",
            "precision": share_or_none(right, of_predicted),
            "recall": share_or_none(right, of_true),
            "f1": share_or_none(2 * right, of_predicted + of_true),
            "support": int(of_true),
        }
        for name, right, of_predicted, of_true in zip(types, *counts, strict=True)
    ]


OUTSIDE, BEGIN = "O", "B"
TAG = re.compile(r"(?P<place>[BI])-(?P<type>.+)")

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Entities:
    """Entities in the order of their rows and places, each int64 [entities]."""

    row: Numbers
    start: Numbers
    """The place of the first token."""
    stop: Numbers
    """The place after the last token."""
    type: Numbers


@dataclass(frozen=True)
class Scheme:
    """What the classes of a tagger mean: for each class number a type, and whether it begins an entity."""

    types: tuple[str, ...]
    type_of: Numbers
    """int64 [classes]: number of the type, -1 outside of entities."""
    begins: npt.NDArray[np.bool_]

    def entities(self, tags: npt.NDArray[np.integer]) -> Entities:
        """Return the entities of rows of class numbers [N, length]; negative ones are outside."""
        kinds = np.where(tags >= 0, self.type_of[tags], -1)
        before = np.pad(kinds, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
        starts = (kinds >= 0) & ((self.begins[tags] & (tags >= 0)) | (kinds != before))
        after = np.pad(kinds, ((0, 0), (0, 1)), constant_values=-1)[:, 1:]
        begins_after = np.pad(starts, ((0, 0), (0, 1)))[:, 1:]
        row, start = np.nonzero(starts)
        _, last = np.nonzero((kinds >= 0) & ((after != kinds) | begins_after))
        return Entities(row, start, last + 1, kinds[row, start])

    def found(self, predicted: Entities, true: Entities, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Return which predicted entities are true ones, of the same tokens and type, bool [predicted].

        Args:
            shape: of the tags, [N, length].
        """
        stops, types = np.full(shape, -1), np.full(shape, -1)
        stops[true.row, true.start], types[true.row, true.start] = true.stop, true.type
        place = (predicted.row, predicted.start)
        return np.asarray((stops[place] == predicted.stop) & (types[place] == predicted.type))


def scheme_of(classes: Sequence[str]) -> Scheme | None:
    """Return the scheme of classes; None where they are not `O`, `B-…` and `I-…`, or no entity begins."""
    parts = [TAG.fullmatch(name) for name in classes]
    if any(part is None and name != OUTSIDE for part, name in zip(parts, classes, strict=True)):
        return None
    if not any(part is not None and part["place"] == BEGIN for part in parts):
        return None
    types = sorted({part["type"] for part in parts if part is not None})
    return Scheme(
        tuple(types),
        np.array([-1 if part is None else types.index(part["type"]) for part in parts], np.int64),
        np.array([part is not None and part["place"] == BEGIN for part in parts], np.bool_),
    )
