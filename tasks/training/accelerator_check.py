"""Whether the device of this machine gives the same bits each time, and how fast: trainings of a small network.

`millrace doctor --accelerator` has each in a process of its own, as an attempt that goes on would be.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.config.train import Precision
from tasks.environment import accelerators

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

WARM, STEPS, BATCH, SIDE, CLASSES = 4, 24, 64, 32, 10
"""Steps before the timed ones, timed steps, examples of a step, pixels of their sides, and classes."""


@dataclass(frozen=True)
class Trained:
    """A training of the check."""

    device: str
    """The type of the GPU; `CPU` without one."""
    weights_sha256: str
    step_ms: float
    """Milliseconds of a step, the median."""
    loss: float
    """Of the last step."""


def train(bench: Workbench, precision: Precision) -> Trained:
    """Train a convolutional network with dropout on random images, from a seed, by the step of every training."""
    import keras

    from tasks.config.optimizer import Adam
    from tasks.models.keras_file import weights_sha256
    from tasks.training.engines.tensorflow.engine import POLICY, policy
    from tasks.training.engines.tensorflow.objectives.classification import Classification
    from tasks.training.engines.tensorflow.optimizers import make_optimizer
    from tasks.training.engines.tensorflow.self_test import specs
    from tasks.training.engines.tensorflow.step import Step
    from tasks.training.engines.tensorflow.strategies.one_device import OneDeviceStrategy

    accelerators.prepare()
    keras.utils.set_random_seed(1)
    layers, images = keras.layers, keras.Input((SIDE, SIDE, 3), name="image")
    with policy(POLICY[precision]):
        x = images
        for filters in (32, 64):
            x = layers.MaxPooling2D()(layers.Conv2D(filters, 3, padding="same", activation="relu")(x))
        x = layers.Dropout(0.2, seed=1)(layers.Dense(128, "relu")(layers.Flatten()(x)))
        model = keras.Model(images, layers.Dense(CLASSES, dtype="float32")(x))
    step = Step(model, make_optimizer(Adam(), model.trainable_variables, precision), Classification("cross_entropy"))
    random = np.random.default_rng(1)
    batch: dict[str, np.ndarray[Any, Any]] = {
        "image": random.normal(size=(1, BATCH, SIDE, SIDE, 3)).astype(np.float32),
        "label": random.integers(0, CLASSES, (1, BATCH)),
        "weight": np.ones((1, BATCH), np.float32),
    }
    run, rates, seconds = OneDeviceStrategy().prepare(step, specs(batch, 1)), np.full(1, 1e-3, np.float32), []
    for _ in range(WARM + STEPS):
        begun = time.perf_counter()
        sums = run(batch, rates)
        seconds.append(time.perf_counter() - begun)
    loss = float(sums["loss"][0] / sums["weight"][0])
    device = str(accelerators.layout().get("accelerators", "CPU"))
    return Trained(device, weights_sha256(model), 1e3 * float(np.median(seconds[WARM:])), loss)
