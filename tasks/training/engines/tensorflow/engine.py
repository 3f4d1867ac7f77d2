"""The TensorFlow engine: a Keras model, its optimizer and its feed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tasks.config import ModelConfig, TrainConfig
from tasks.data.pipeline import SnapshotReader
from tasks.models import build as build_model
from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.objectives import make_objective
from tasks.training.engines.tensorflow.optimizers import make_optimizer
from tasks.training.engines.tensorflow.seeds import copies, split_seeds
from tasks.training.engines.tensorflow.step import FINITE, NORM, SCALE, SKIPPED, Step
from tasks.training.engines.tensorflow.strategies import Strategy, make_strategy
from tasks.training.feeding import Feed
from tasks.training.group import Cluster, agree
from tasks.training.meter import Meter, StepSums
from tasks.training.plan import Plan

POLICY = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


class TensorFlowEngine:
    """Implements `tasks.training.engines.Engine`; must be created in the strategy's scope."""

    def __init__(self, step: Step, strategy: Strategy, feed: Feed) -> None:
        self.model, self.optimizer, self.feed = step.model, step.optimizer, feed
        self.loss, self.watched, self.scales_loss = step.objective.loss, step.objective.watched, step.scales_loss
        self.group, self.position = strategy.group, 0
        self._first_replica = strategy.devices * strategy.group.cluster.rank
        batch = feed.plan.batch_size // strategy.group.cluster.size
        specs = {name: tf.TensorSpec((batch, *array.shape[1:]), array.dtype) for name, array in feed.arrays.items()}
        self._run = strategy.prepare(step, {**specs, "weight": tf.TensorSpec((batch,), tf.float32)})
        plain, self._scored = step.objective.plain(), step.objective.sums

        @tf.function(reduce_retracing=True, autograph=False)
        def score(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            outputs = step.model(plain.inputs(step.model, batch), training=False)
            return plain(batch, tf.cast(outputs, tf.float32)).sums()

        self._score = score
        split_seeds(self.model, self._first_replica)

    def seek(self, step: int) -> None:
        """Continue with the examples of global step `step`."""
        self.position = step
        self.feed.seek(step)

    def step(self, n: int) -> StepSums:
        """Run n global steps in one call, with this process' slices of the batches."""
        started, waited = time.perf_counter(), self.feed.waited
        arrays = self.feed.take(n)
        waited = self.feed.waited - waited
        rates = self.feed.plan.rates(self.position, self.position + n)
        fed = arrays["row"][arrays["weight"] > 0]
        returned = self._run({name: values for name, values in arrays.items() if name != "row"}, rates)
        self.position += n
        norms, finite = returned.pop(NORM).astype(np.float64), returned.pop(FINITE) > 0
        skipped, scales = returned.pop(SKIPPED) > 0, returned.pop(SCALE).astype(np.float64)
        seconds = time.perf_counter() - started
        agreed = agree(self.group, fed, seconds, waited)
        return StepSums(
            sums={name: values.astype(np.float64) for name, values in returned.items()},
            gradient_norms=norms,
            finite=finite,
            rates=rates,
            fed=agreed.fed,
            fed_hash=agreed.fed_hash,
            seconds=max(agreed.seconds),
            waited=max(agreed.waited),
            skipped=skipped,
            loss_scales=scales if self.scales_loss else None,
        )

    def score(self, batches: Iterable[Arrays]) -> dict[str, float]:
        """Return means over batches by name; every process scores its share of them.

        Sums are computed in float64 batch by batch, so that they do not depend on the number of processes.
        """
        meter, names, rows = Meter(), self._scored, []
        rank, size = self.group.cluster.rank, self.group.cluster.size
        for number, batch in enumerate(batches):
            scored = self._score(tensors(batch)) if number % size == rank else {}
            rows.append([float(scored.get(name, 0.0)) for name in names])
        bits = np.array(rows, np.float64).view(np.int64)
        total = np.array(self.group.totals(bits.ravel().tolist()), np.int64).view(np.float64).reshape(bits.shape)
        for row in total:
            for name, value in zip(names, row.tolist(), strict=True):
                meter.sums[name] = meter.sums.get(name, 0.0) + value
        return meter.means()

    def close(self) -> None:
        """End the prefetching thread."""
        self.feed.close()

    def weights(self) -> Arrays:
        """Return the model's variables, numbered in Keras' order: `model/00000`."""
        return {name: values for name, values in self.state().items() if name.startswith("model/")}

    def state(self) -> Arrays:
        """Return all variables of model and optimizer, numbered in Keras' order: `model/00000`, `optimizer/00000`."""
        return {name: copies(variable)[0].numpy() for name, variable in self._variables().items()}

    def load(self, state: Arrays) -> None:
        """Assign every variable from a result of `state`."""
        variables = self._variables()
        assert variables.keys() == state.keys(), f"{sorted(variables.keys() ^ state.keys())[:3]}"
        for name, variable in variables.items():
            variable.assign(state[name])
        split_seeds(self.model, self._first_replica)

    def _variables(self) -> dict[str, Any]:
        model = {f"model/{i:05d}": variable for i, variable in enumerate(self.model.variables)}
        return model | {f"optimizer/{i:05d}": variable for i, variable in enumerate(self.optimizer.variables)}


def build(
    config: TrainConfig, model_config: ModelConfig, snapshot: SnapshotReader, plan: Plan, seed: int, cluster: Cluster
) -> TensorFlowEngine:
    """Create the engine of a config."""
    strategy = make_strategy(config.strategy, cluster)  # first: it configures devices, before TensorFlow is initialised
    objective = make_objective(model_config.task, config, snapshot)
    with strategy.scope():
        with policy(POLICY[config.precision]):
            model = strategy.place(build_model(model_config, snapshot.features, seed))
        optimizer = make_optimizer(config.optimizer, model, config.precision)
        step = Step(model, optimizer, objective, config.clip_norm, config.accumulate, config.jit)
        return TensorFlowEngine(step, strategy, Feed(snapshot, plan, seed, cluster.rank, cluster.size))


@contextmanager
def policy(name: str) -> Iterator[None]:
    """Set Keras' dtype policy within the context."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def tensors(batch: Arrays) -> dict[str, tf.Tensor]:
    """Convert a batch to tensors, without `row`."""
    return {name: tf.constant(np.asarray(values)) for name, values in batch.items() if name != "row"}
