"""The idle share of a pipeline's devices, by the number of micro-batches, beside GPipe's (p - 1) / (m + p - 1).

Its time is compared with that of the same micro-batches one after the other (`accumulate`) on one device and thread.
Each measurement is a process of its own, which times its steps after the first calls. Stages cost the same: of large
layers that are alike, or of layers that sleep, which shows the schedule also on a host whose cores are busy.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tasks.models.architectures.mlp import MlpModel
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.training.config import TrainConfig
from tasks.training.optimizers import Sgd
from tasks.training.schedules import Constant
from tasks.training.strategies import OneDevice, Pipeline
from tests.benchmarks.stepping import synthetic

STAGES, ROUNDS, STEPS = 2, 5, 7
UNITS, LAYERS, ROWS = 768, 8, 192
"""Of each hidden layer; hidden layers; rows of a micro-batch."""
SLEEP = 0.02
"""Seconds of a sleeping layer's forward pass; its backward pass takes twice as long."""


def computing(bench: Workbench, folder: Path, strategy: Any, accumulate: int, micro_batches: int) -> float:
    """Return seconds of a step of a multi-layer perceptron."""
    from tasks.feed import open_snapshot
    from tasks.training.fit import make_engine
    from tasks.training.group import Cluster
    from tasks.training.loop import make_plan

    config = TrainConfig(
        steps=10**6,
        batch_size=micro_batches * ROWS,
        accumulate=accumulate,
        optimizer=Sgd(),
        learning_rate=1e-6,
        schedule=Constant(),
        strategy=strategy,
    )
    snapshot = open_snapshot(folder)
    plan = make_plan(config, snapshot.counts["train"], [1])
    engine = make_engine(config, MlpModel(units=(UNITS,) * LAYERS), snapshot, plan, 1, Cluster())
    engine.seek(0)
    return median_seconds(lambda: engine.step(plan.rates(0, 1)))


def sleeping(bench: Workbench, folder: Path, strategy: Any, accumulate: int, micro_batches: int) -> float:
    """Return seconds of a step of two layers that sleep."""
    import keras
    import tensorflow as tf

    from tasks.training.engines.objectives import Classification
    from tasks.training.engines.tensorflow.optimizers import make_optimizer
    from tasks.training.engines.tensorflow.step import Step
    from tasks.training.group import Cluster

    def after(seconds: float, x: Any) -> Any:
        def sleep(values: np.ndarray) -> np.ndarray:
            time.sleep(seconds)
            return values

        return tf.ensure_shape(tf.numpy_function(sleep, [x], x.dtype, stateful=False), x.shape)

    @tf.custom_gradient
    def slow(x: Any) -> Any:
        return after(SLEEP, x), lambda gradient: after(2 * SLEEP, gradient)

    class Sleeping(keras.layers.Dense):
        def call(self, inputs: Any, training: bool | None = None) -> Any:
            return slow(super().call(inputs))

        def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
            return keras.KerasTensor((*inputs.shape[:-1], self.units))

    placed = strategy.create(Cluster())
    with placed.scope():
        x = keras.Input((2,), name="x")
        model = placed.place(keras.Model(x, Sleeping(2)(Sleeping(2)(x))))
        step = Step(
            model,
            make_optimizer(Sgd(), model.trainable_variables),
            Classification("cross_entropy"),
            accumulate=accumulate,
        )
    rows = 2 * micro_batches
    batch: dict[str, Any] = {"x": np.ones((1, rows, 2), np.float32), "label": np.zeros((1, rows), np.int64)}
    batch["weight"] = np.ones((1, rows), np.float32)
    specs = {name: tf.TensorSpec(values.shape[1:], values.dtype) for name, values in batch.items()}
    run = placed.prepare(step, specs)
    return median_seconds(lambda: run(batch, np.full(1, 0.1, np.float32)))


def median_seconds(call: Callable[[], Any]) -> float:
    """Return the median seconds of a call, without the first two."""
    taken = []
    for _ in range(STEPS + 2):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[2:])


def measured(
    folder: Path, function: Callable[..., float], threads: int, strategy: Any, accumulate: int, micro_batches: int
) -> float:
    """Return seconds of a step in a process with so many threads."""
    with ProcessLauncher(folder / "logs", threads).gang("bench") as gang:
        arguments = (folder, strategy, accumulate, micro_batches)
        found: float = gang.call(
            Work(function, arguments), None, folder / "journal", limits=Limits(), on_report=lambda *report: None
        )
    return found


def main() -> None:
    from tests.benchmarks import bubble  # by the name that compute processes can import

    with tempfile.TemporaryDirectory() as name:
        folder = synthetic(Path(name))
        for work in ("sleeping", "computing"):
            print(f"{STAGES} {work} stages: idle share, median of {ROUNDS} interleaved rounds [lowest, highest]")
            for m in (1, 2, 4, 8):
                ways = {
                    "serial": (1, OneDevice(), m, m),
                    "piped": (STAGES, Pipeline(devices=STAGES, micro_batches=m), 1, m),
                    "again": (1, OneDevice(), m, m),
                }
                idle, again = [], []
                for number in range(ROUNDS):
                    order = list(ways) if number % 2 == 0 else list(reversed(ways))
                    taken = {way: measured(folder, getattr(bubble, work), *ways[way]) for way in order}
                    idle.append(1 - taken["serial"] / (STAGES * taken["piped"]))
                    again.append(taken["again"] / taken["serial"])
                print(
                    f"  m = {m}: {statistics.median(idle):.3f} [{min(idle):.3f}, {max(idle):.3f}],"
                    f" GPipe {(STAGES - 1) / (m + STAGES - 1):.3f};"
                    f" A/A {statistics.median(again):.2f} [{min(again):.2f}, {max(again):.2f}]",
                    flush=True,
                )


if __name__ == "__main__":
    main()
