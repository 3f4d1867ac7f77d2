"""A test of the arithmetic of a strategy, before the first training by these versions of the libraries.

Keras' own loop is silently wrong in each of these points (`docs/decisions.md`), and another version of a library might
bypass what corrects it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tasks.errors import Failed
from tasks.training.config import Precision
from tasks.training.engines import Arrays
from tasks.training.engines.objectives import Batch, Classification, Scored
from tasks.training.engines.tensorflow.engine import POLICY, policy
from tasks.training.engines.tensorflow.optimizers import make_optimizer
from tasks.training.engines.tensorflow.step import SCALE, SKIPPED, Step, copies, split_seeds
from tasks.training.engines.tensorflow.strategies import OneDeviceStrategy, Placement
from tasks.training.engines.tensorflow.weights import values
from tasks.training.group import Cluster
from tasks.training.optimizers import Adam
from tasks.training.strategies import StrategyConfig

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

TOLERANCE = {"float32": 2e-5, "bfloat16": 0.02, "float16": 0.02}
"""Largest difference of a weight after two steps of 0.1 by Adam; wrong arithmetic differs by about 0.1."""

IDS, ROWS = 5, 4
"""Different ids, and examples of each slice: of a replica, or of a micro-batch in a pipeline."""


@dataclass(frozen=True)
class Poisoned(Classification):
    """A loss whose gradient is multiplied by the feature `poison` of each example."""

    def __call__(self, batch: Batch, outputs: tf.Tensor) -> Scored:
        """Score logits."""

        @tf.custom_gradient
        def poisoned(logits: tf.Tensor) -> Any:
            return tf.identity(logits), lambda gradient: gradient * batch["poison"][:, None]

        return super().__call__(batch, poisoned(outputs))


def run(bench: Workbench, strategy: StrategyConfig, precision: Precision) -> dict[str, float]:
    """Test a strategy in a process or a gang of its own; return the differences that were found, by name.

    Raises:
        Failed: the arithmetic is wrong.
    """
    placed = strategy.create(Cluster(bench.rank, bench.addresses))
    slices = strategy.replicas * strategy.micro_batches_of_each
    results = {"weights": check_update(placed, slices, precision)}
    if strategy.replicas > 1:
        results["different_masks"] = float(check_dropout(placed, strategy.replicas))
    if precision == "float16":
        results["loss_scale"] = check_skipping(placed, slices)
    placed.close()
    return results


def check_update(strategy: Placement, slices: int, precision: Precision) -> float:
    """Compare two updates with those of one device on the whole batch; return the largest difference of a weight.

    Ids occur twice in a batch, the norm is clipped, and the last slice has a weight in its first row only.
    """
    batch = examples(steps=2, rows=ROWS * slices)
    batch["weight"][:, -ROWS + 1 :] = 0
    with strategy.scope():
        step = step_of(precision, strategy)
        call = strategy.prepare(step, specs(batch, strategy.group.cluster.size))
    one_device = OneDeviceStrategy()
    alone = step_of(precision, one_device)
    reference = one_device.prepare(alone, specs(batch, 1))
    rates = np.full(2, 0.1, np.float32)
    call(own_slice(batch, strategy), rates)
    reference(batch, rates)
    pairs = zip(step.model.variables, alone.model.variables, strict=True)
    difference = max(float(np.abs(values(one) - values(other)).max()) for one, other in pairs)
    if not difference <= TOLERANCE[precision]:
        saw = f"weights differ by {difference:.2g} from those of one device after two steps"
        raise wrong(saw, f"at most {TOLERANCE[precision]:.0e} is rounding")
    return difference


def check_dropout(strategy: Placement, replicas: int) -> int:
    """Return the number of different dropout masks, which must be that of the replicas."""
    cluster, devices = strategy.group.cluster, strategy.devices
    with strategy.scope():
        layer = keras.layers.Dropout(0.5, seed=1)
        model = keras.Sequential([keras.Input((60,)), layer])
        split_seeds(model, cluster.rank * devices)
    masks = [0] * replicas
    for device, seed in enumerate(copies(layer.seed_generator.state)):
        mask = tf.random.stateless_uniform((60,), tf.cast(seed, tf.int32)) < 0.5
        masks[cluster.rank * devices + device] = int("".join(str(int(bit)) for bit in mask.numpy()), 2)
    different = len(set(strategy.group.totals(masks)))
    if different != replicas:
        raise wrong(f"{different} different dropout masks", f"each of {replicas} replicas drops other units")
    return different


def check_skipping(strategy: Placement, slices: int) -> float:
    """Give the last slice a NaN gradient, then a finite one; return the loss scale after both."""
    batch = examples(steps=2, rows=ROWS * slices)
    batch["poison"] = np.ones(batch["label"].shape, np.float32)
    batch["poison"][0, -1] = np.nan
    with strategy.scope():
        step = step_of("float16", strategy, Poisoned("cross_entropy"))
        call = strategy.prepare(step, specs(batch, strategy.group.cluster.size))
    own = own_slice(batch, strategy)
    first = {name: each[:1] for name, each in own.items()}
    before = [values(variable) for variable in step.model.variables]
    rates = np.full(1, 0.1, np.float32)
    returned = call(first, rates)
    after = [values(variable) for variable in step.model.variables]
    second = call({name: each[1:] for name, each in own.items()}, rates)
    unchanged = all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    finite = all(np.isfinite(values(variable)).all() for variable in step.model.variables)
    halved = float(second[SCALE][0]) == float(returned[SCALE][0]) / 2
    if not (unchanged and finite and halved and returned[SKIPPED][0] == 1 and second[SKIPPED][0] == 0):
        saw = "a NaN gradient on one replica changed the weights, or did not halve the loss scale"
        raise wrong(saw, "such an update is skipped by all replicas")
    return float(second[SCALE][0])


def step_of(precision: Precision, strategy: Placement, objective: Classification | None = None) -> Step:
    """Return a step of a tiny model with an embedding, the same at every call."""
    with policy(POLICY[precision]):
        ids = keras.Input((3,), dtype="int32", name="ids")
        start = keras.initializers.RandomNormal(0.0, 1.0, seed=3)
        x = keras.layers.Flatten()(keras.layers.Embedding(IDS, 4, embeddings_initializer=start)(ids))
        model = strategy.place(keras.Model(ids, keras.layers.Dense(2, kernel_initializer=start, dtype="float32")(x)))
    optimizer = make_optimizer(Adam(epsilon=1e-3), model.trainable_variables, precision)
    return Step(model, optimizer, objective or Classification("cross_entropy"), clip_norm=0.05)


def examples(steps: int, rows: int) -> Arrays:
    """Return batches [steps, rows, ...] in which ids occur more than once."""
    random = np.random.default_rng(7)
    return {
        "ids": random.integers(0, IDS, (steps, rows, 3)).astype(np.int32),
        "label": random.integers(0, 2, (steps, rows)),
        "weight": random.uniform(0.5, 2.0, (steps, rows)).astype(np.float32),
    }


def own_slice(batch: Arrays, strategy: Placement) -> Arrays:
    """Return this process' slice of each batch."""
    cluster = strategy.group.cluster
    share = batch["weight"].shape[1] // cluster.size
    return {name: values[:, cluster.rank * share : (cluster.rank + 1) * share] for name, values in batch.items()}


def specs(batch: Arrays, processes: int) -> dict[str, Any]:
    """Return the specs of a process' slice of one batch."""
    return {
        name: tf.TensorSpec((values.shape[1] // processes, *values.shape[2:]), values.dtype)
        for name, values in batch.items()
    }


def wrong(saw: str, rule: str) -> Failed:
    """Return the error of a strategy whose arithmetic is wrong."""
    return Failed(
        "train.strategy", saw, rule, "use one_device, and report it with the versions of keras and tensorflow"
    )
