"""The TensorFlow engine: K steps in one compiled call, on one device."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tasks.training.engine import Arrays
from tasks.training.feeding import Feed
from tasks.training.meter import Sums
from tasks.training.step import Objective, features_of, replica_step


class TensorFlowEngine:
    """A Keras model and its optimizer behind the loop's narrow door (`tasks.training.engine.Engine`)."""

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        objective: Objective,
        feed: Feed,
        clip_norm: float | None,
    ) -> None:
        self.model, self.optimizer, self.feed = model, optimizer, feed
        self.position = 0

        batch = feed.plan.batch_size
        fed = {name: tf.TensorSpec((None, batch, *array.shape[1:]), array.dtype) for name, array in feed.arrays.items()}
        fed["weight"] = tf.TensorSpec((None, batch), tf.float32)

        # one trace for any number of steps: a resumed training cuts its calls elsewhere, and must compute alike
        @tf.function(input_signature=[fed, tf.TensorSpec((None,), tf.float32)])
        def run(batches: dict[str, tf.Tensor], rates: tf.Tensor) -> dict[str, tf.Tensor]:
            n = tf.shape(rates)[0]
            loss, weight, correct, norm, finite = 0.0, 0.0, 0.0, 0.0, True
            for k in tf.range(n):
                optimizer.learning_rate.assign(rates[k])
                batch = {name: values[k] for name, values in batches.items()}
                sums = replica_step(model, optimizer, objective, clip_norm, lambda tensors: tensors, batch)
                loss, weight, correct = loss + sums["loss"], weight + sums["weight"], correct + sums["correct"]
                norm, finite = sums["norm"], tf.logical_and(finite, sums["finite"])
            return {"loss": loss, "weight": weight, "correct": correct, "norm": norm, "finite": finite}

        @tf.function(reduce_retracing=True)
        def answer(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            return model(features_of(model, batch), training=False)

        self._run, self._answer = run, answer

    def seek(self, step: int) -> None:
        """Have the examples of global step `step` come next."""
        self.position = step
        self.feed.seek(step)

    def step(self, n: int) -> Sums:
        """Take n global steps in one compiled call."""
        started, waited = time.perf_counter(), self.feed.waited
        arrays = self.feed.take(n)
        waited = self.feed.waited - waited
        rates = self.feed.plan.rates(self.position, self.position + n)
        rows, weight = arrays["row"], arrays["weight"]
        fed = {name: tf.constant(values) for name, values in arrays.items() if name != "row"}
        sums = {name: value.numpy() for name, value in self._run(fed, tf.constant(rates)).items()}
        self.position += n
        return Sums(
            steps=n,
            loss=float(sums["loss"]),
            weight=float(sums["weight"]),
            correct=float(sums["correct"]),
            gradient_norm=float(sums["norm"]),
            finite=bool(sums["finite"]),
            rate=float(rates[-1]),
            seconds=time.perf_counter() - started,
            waited=waited,
            rows=rows[weight > 0],
        )

    def predict(self, batches: Iterable[Arrays]) -> NDArray[np.float32]:
        """The model's outputs for batches of features, [rows, ...], float32."""
        names = [tensor.name for tensor in self.model.inputs]
        outputs = [
            self._answer({name: tf.constant(np.asarray(batch[name])) for name in names}).numpy() for batch in batches
        ]
        return np.concatenate(outputs).astype(np.float32)

    def state(self) -> Arrays:
        """Weights, seeds, optimizer slots and counters, numbered in the order in which Keras holds them."""
        return {name: np.asarray(variable.value) for name, variable in self._variables().items()}

    def load(self, state: Arrays) -> None:
        """Assign every variable; a state of another model is our bug, not the user's."""
        variables = self._variables()
        assert variables.keys() == state.keys(), f"{sorted(variables.keys() ^ state.keys())[:3]}"
        for name, variable in variables.items():
            variable.assign(state[name])

    def _variables(self) -> dict[str, Any]:
        model = {f"model/{i:05d}": variable for i, variable in enumerate(self.model.variables)}
        return model | {f"optimizer/{i:05d}": variable for i, variable in enumerate(self.optimizer.variables)}
