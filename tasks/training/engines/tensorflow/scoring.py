"""Scores of a split: means over batches that do not depend on who scored which batch; and the main outputs for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf

from tasks.training.engines import Arrays, Batches, Keep
from tasks.training.engines.objectives import Objective
from tasks.training.engines.several_outputs import SeveralOutputs
from tasks.training.group import ProcessGroup
from tasks.training.meter import Meter
from tasks.training.samples import COUNT


class Scoring:
    """Scores batches with a model; of several processes each reads and scores its share."""

    def __init__(self, model: keras.Model, objective: Objective | SeveralOutputs, group: ProcessGroup) -> None:
        self.model, self.group = model, group
        self._sums = objective.sums
        plain = objective.plain()

        @tf.function(reduce_retracing=True, autograph=False)
        def score(batch: dict[str, tf.Tensor], whole: bool) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
            outputs = tf.cast(model(plain.inputs(model, batch), training=False), tf.float32)
            main = plain.main(outputs)
            return plain(batch, outputs).sums(), main if whole else first(main)

        self._score = score
        self.samples: np.ndarray | None = None
        """The outputs for the first examples at the last call (`tasks.training.samples`); None where another process
        has scored them."""

    def score(self, batches: Batches) -> dict[str, float]:
        """Return means over batches by name.

        Sums are computed in float64 batch by batch, so that they do not depend on the number of processes.
        """
        return self._scored(batches, lambda number, outputs: None, all_outputs=False)

    def outputs(self, batches: Batches, keep: Keep) -> tuple[dict[str, float], Arrays]:
        """Return the same means, and what is kept of the outputs for each row; every process gets all of it."""
        kept: dict[int, Arrays] = {}
        size = len(batches[0]["weight"])

        def take(number: int, outputs: np.ndarray) -> None:
            kept[number] = keep(outputs, number * size)

        means = self._scored(batches, take, all_outputs=True)
        return means, gathered(kept, len(batches), self.group)

    def _scored(
        self, batches: Batches, take: Callable[[int, np.ndarray], None], *, all_outputs: bool
    ) -> dict[str, float]:
        meter, rows = Meter(), np.zeros((len(batches), len(self._sums)))
        for number in range(self.group.cluster.rank, len(batches), self.group.cluster.size):
            batch = batches[number]
            scored, outputs = self._score(tensors(batch), all_outputs)
            if number == 0:
                self.samples = whole(first(outputs) if all_outputs else outputs, batch)
            take(number, np.asarray(outputs))
            rows[number] = [float(scored[name]) for name in self._sums]
        bits = self.group.totals(rows.view(np.int64).ravel().tolist())
        for row in np.array(bits, np.int64).view(np.float64).reshape(rows.shape):
            for name, value in zip(self._sums, row.tolist(), strict=True):
                meter.sums[name] = meter.sums.get(name, 0.0) + value
        return meter.means()

    def load(self, weights: Arrays) -> None:
        """Assign the model's variables, from a result of an engine's `weights`."""
        for name, variable in numbered("model", self.model.variables).items():
            variable.assign(weights[name])


def gathered(kept: Mapping[int, Arrays], batches: int, group: ProcessGroup) -> Arrays:
    """Return what all processes have kept of their batches, joined in the order of the batches.

    The arrays of a batch have the same shapes in each, and travel as integers, to which the others add nothing.
    """
    if group.cluster.size == 1:
        return {name: np.concatenate([kept[number][name] for number in range(batches)]) for name in kept[0]}
    arrays: Arrays = {}
    shapes = {name: (array.shape, array.dtype.str) for name, array in next(iter(kept.values()), {}).items()}
    described = json.dumps(shapes).encode() if group.cluster.rank == 0 else None
    for name, (shape, dtype) in json.loads(group.share(described)).items():
        whole = np.zeros((batches, *shape), dtype)
        for number, each in kept.items():
            whole[number] = each[name]
        content = whole.tobytes()
        padded = np.frombuffer(content + bytes(-len(content) % 8), np.int64)
        sums = np.array(group.totals(padded.tolist()), np.int64).tobytes()[: len(content)]
        arrays[name] = np.frombuffer(sums, dtype).reshape(-1, *shape[1:])
    return arrays


def first(outputs: tf.Tensor) -> tf.Tensor:
    """Return the outputs for the first examples; of a language model the most probable tokens."""
    outputs = outputs[:COUNT]
    return tf.argmax(outputs, axis=-1) if outputs.shape.rank == 3 else outputs


def whole(outputs: tf.Tensor, batch: Arrays) -> np.ndarray:
    """Return a result of `first` without the rows that fill a batch up."""
    kept: np.ndarray = np.asarray(outputs)[batch["weight"][:COUNT] > 0]
    return kept


def tensors(batch: Arrays) -> dict[str, tf.Tensor]:
    """Convert a batch to tensors, without `row`."""
    return {name: tf.constant(np.asarray(values)) for name, values in batch.items() if name != "row"}


def numbered(kind: str, variables: Iterable[keras.Variable]) -> dict[str, keras.Variable]:
    """Return variables by `<kind>/<number>`, in Keras' order."""
    return {f"{kind}/{number:05d}": variable for number, variable in enumerate(variables)}
