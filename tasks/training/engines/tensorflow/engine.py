"""The TensorFlow engine: a Keras model, its optimizer and its feed behind the loop's narrow door."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.step import Step
from tasks.training.engines.tensorflow.strategies import Strategy
from tasks.training.feeding import Feed
from tasks.training.meter import Sums


class TensorFlowEngine:
    """As `tasks.training.engine.Engine` says; make it in the strategy's scope."""

    def __init__(self, step: Step, strategy: Strategy, feed: Feed) -> None:
        self.model, self.optimizer, self.feed = step.model, step.optimizer, feed
        self.position = 0
        batch = feed.plan.batch_size
        specs = {name: tf.TensorSpec((batch, *array.shape[1:]), array.dtype) for name, array in feed.arrays.items()}
        self._run = strategy.prepare(step, {**specs, "weight": tf.TensorSpec((batch,), tf.float32)})

        @tf.function(reduce_retracing=True)
        def answer(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            return step.model(step.objective.inputs(step.model, batch), training=False)

        plain = replace(step.objective, smoothing=0.0, class_weights=None)

        @tf.function(reduce_retracing=True)
        def score(batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            outputs = step.model(plain.inputs(step.model, batch), training=False)
            scored = plain(batch, tf.cast(outputs, tf.float32))
            weights = scored.weights
            return (
                tf.reduce_sum(weights * scored.losses),
                tf.reduce_sum(weights),
                tf.reduce_sum(scored.seen * scored.right),
            )

        self._answer, self._score = answer, score

    def seek(self, step: int) -> None:
        """Have the examples of global step `step` come next."""
        self.position = step
        self.feed.seek(step)

    def step(self, n: int) -> Sums:
        """Take n global steps in one call."""
        started, waited = time.perf_counter(), self.feed.waited
        arrays = self.feed.take(n)
        waited = self.feed.waited - waited
        rates = self.feed.plan.rates(self.position, self.position + n)
        rows, weight = arrays["row"], arrays["weight"]
        sums = self._run({name: values for name, values in arrays.items() if name != "row"}, rates)
        self.position += n
        return Sums(
            steps=n,
            loss=float(sums["loss"]),
            weight=float(sums["weight"]),
            correct=float(sums["correct"]),
            seen=float(sums["seen"]),
            gradient_norm=float(sums["norm"]),
            finite=bool(sums["finite"]),
            rate=float(rates[-1]),
            seconds=time.perf_counter() - started,
            waited=waited,
            rows=rows[weight > 0],
        )

    def predict(self, batches: Iterable[Arrays]) -> Iterator[NDArray[np.float32]]:
        """The model's outputs for batches of features, batch by batch, float32."""
        for batch in batches:
            yield self._answer(tensors(batch)).numpy().astype(np.float32)

    def score(self, batches: Iterable[Arrays]) -> tuple[float, float]:
        """Mean loss and mean rightness over batches; the sums over batches are taken in float64."""
        total = sum(np.array([value.numpy() for value in self._score(tensors(batch))], np.float64) for batch in batches)
        loss, weight, right = np.asarray(total)
        return float(loss / weight), float(right / weight)

    def weights(self) -> Arrays:
        """The model's variables, numbered in the order in which Keras holds them."""
        return {name: values for name, values in self.state().items() if name.startswith("model/")}

    def state(self) -> Arrays:
        """Weights, seeds, optimizer slots and counters, numbered in the order in which Keras holds them."""
        return {name: np.asarray(first_copy(variable)) for name, variable in self._variables().items()}

    def load(self, state: Arrays) -> None:
        """Assign every variable; a state of another model is our bug, not the user's."""
        variables = self._variables()
        assert variables.keys() == state.keys(), f"{sorted(variables.keys() ^ state.keys())[:3]}"
        for name, variable in variables.items():
            variable.assign(state[name])
        self.part_seeds()

    def part_seeds(self) -> None:
        """Let each replica drop other units: the second half of a seed's state is shifted by the replica's number.

        A checkpoint holds the first replica's state, so this follows every load, and the building of the model.
        """
        for variable in self.model.variables:
            if variable.path.endswith("seed_generator_state"):
                held = copies(variable)
                for number, copy in enumerate(held):
                    copy.assign(copy + tf.constant([number * 0x9E3779B9 % 2**32, 0], copy.dtype))
                different = len({tuple(copy.numpy()) for copy in held}) == len(held)
                assert different, f"{variable.path}: replicas share a seed"

    def _variables(self) -> dict[str, Any]:
        model = {f"model/{i:05d}": variable for i, variable in enumerate(self.model.variables)}
        return model | {f"optimizer/{i:05d}": variable for i, variable in enumerate(self.optimizer.variables)}


def tensors(batch: Arrays) -> dict[str, tf.Tensor]:
    """A batch as the compiled functions take it."""
    return {name: tf.constant(np.asarray(values)) for name, values in batch.items() if name != "row"}


def copies(variable: Any) -> list[Any]:
    """A variable's copies by replica; itself where there is one device."""
    value = variable.value
    return list(getattr(value, "values", [value]))


def first_copy(variable: Any) -> Any:
    """The first replica's copy: all are equal but for the seeds."""
    return copies(variable)[0]
