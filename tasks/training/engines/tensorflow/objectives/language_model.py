"""Language model: cross-entropy of the next token at every position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tasks.config.task import SCORED
from tasks.config.train import TrainConfig
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.training.engines.tensorflow.objectives import Batch, Objective, Scored, correct, counted, cross_entropy


@dataclass(frozen=True)
class LanguageModel(Objective):
    """Softmax cross-entropy; outputs [batch, block, vocabulary] are logits, tokens are [batch, block + 1]."""

    bos: int = 0
    """The token that begins a document: it is given, not predicted, and not scored, unless `scored` says so."""

    def inputs(self, model: Any, batch: Batch) -> Any:
        """Return all tokens but the last, which is a target only."""
        return batch["tokens"][:, :-1]

    def __call__(self, batch: Batch, outputs: tf.Tensor) -> Scored:
        """Score logits for the tokens that follow."""
        target = tf.cast(batch["tokens"][:, 1:], tf.int32)
        scored = batch[SCORED][:, 1:] > 0 if SCORED in batch else target != self.bos
        weights = batch["weight"][:, None] * tf.cast(scored, tf.float32)
        right = {"accuracy": correct(target, outputs)}
        return Scored(self.losses(target, outputs), weights, counted(weights), right)

    def of_task(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the cross-entropy of logits."""
        return cross_entropy(target, outputs, self.smoothing)


def create(loss: str, config: TrainConfig, snapshot: SnapshotReader) -> LanguageModel:
    """Create the objective (see `make_objective`)."""
    return LanguageModel(loss, config.label_smoothing, bos=snapshot.features["tokens"]["bos"])
