"""Two workers with a core each against one with a core, by size of the model; and against a bare loop.

Every measurement is a gang of processes of its own, which times its steps after the first calls.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tasks.models.architectures.mlp import MlpModel
from tasks.processes.config import CHIEF, WORKER
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.training.config import TrainConfig
from tasks.training.optimizers import Adam
from tasks.training.schedules import Constant
from tasks.training.strategies import Mirrored, MultiWorker, OneDevice
from tests.benchmarks.pairs import compare
from tests.benchmarks.stepping import synthetic

BATCH, CALL, CALLS = 256, 10, 6
SIZES = (128, 512, 1536)
"""Units of the two hidden layers."""


def config_of(strategy: Any) -> TrainConfig:
    return TrainConfig(steps=10**6, batch_size=BATCH, optimizer=Adam(), schedule=Constant(), strategy=strategy)


def ours(bench: Workbench, folder: Path, units: int, strategy: Any, call: int, reduced: bool) -> float:
    """Return seconds of a step; without `reduced` the gradients of the workers are not added up."""
    from tasks.feed import open_snapshot
    from tasks.training.engines.tensorflow.step import Step
    from tasks.training.fit import make_engine
    from tasks.training.group import Cluster
    from tasks.training.loop import make_plan

    if not reduced:
        run = Step.__call__
        Step.__call__ = lambda self, batch, reduce: run(self, batch, lambda tensors: tensors)  # type: ignore[method-assign]
    snapshot = open_snapshot(folder)
    plan = make_plan(config_of(strategy), snapshot.counts["train"], [CALL])
    cluster = Cluster(bench.rank, bench.addresses)
    engine = make_engine(config_of(strategy), MlpModel(units=(units, units)), snapshot, plan, 1, cluster)
    engine.seek(0)
    return timed(lambda: engine.step(plan.rates(0, call)), CALLS * CALL // call) / call


def shares_of(bench: Workbench, folder: Path, units: int) -> float:
    """Return the share of a step that adds up gradients, waiting for the other worker included."""
    from tasks.feed import open_snapshot
    from tasks.training.fit import make_engine
    from tasks.training.group import Cluster
    from tasks.training.loop import make_plan

    snapshot, config = open_snapshot(folder), config_of(MultiWorker())
    plan, cluster = make_plan(config, snapshot.counts["train"], [CALL]), Cluster(bench.rank, bench.addresses)
    engine = make_engine(config, MlpModel(units=(units, units)), snapshot, plan, 1, cluster)
    engine.seek(0)
    calls = [engine.step(plan.rates(0, CALL)) for _ in range(2 + CALLS)][2:]
    return sum(call.ranks[0].reducing for call in calls) / sum(call.ranks[0].call for call in calls)


def bare(bench: Workbench, folder: Path, units: int) -> float:
    """Return seconds of a step of a custom loop as TensorFlow's guide has it, with several steps in a call."""
    import os

    import keras
    import tensorflow as tf

    workers = {"cluster": {"worker": list(bench.addresses)}, "task": {"type": "worker", "index": bench.rank}}
    os.environ["TF_CONFIG"] = json.dumps(workers)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images, labels = (np.load(folder / f"train/{name}-00000-of-00001.npy") for name in ("image", "label"))
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(len(labels)).batch(BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    batches = iter(strategy.experimental_distribute_dataset(dataset.with_options(options).prefetch(2)))
    with strategy.scope():
        layers = [keras.layers.Rescaling(1 / 127.5, -1.0), keras.layers.Flatten()]
        layers += [keras.layers.Dense(units, "relu"), keras.layers.Dense(units, "relu"), keras.layers.Dense(10)]
        model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
        optimizer = keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)

    def step(image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(label, model(image, training=True))
            loss = tf.reduce_sum(losses) / BATCH
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [variable.value for variable in variables]), variables)
        return loss

    @tf.function
    def call(iterator: Any) -> tf.Tensor:
        total = 0.0
        for _ in tf.range(CALL):
            losses = strategy.run(step, args=next(iterator))
            total += strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)
        return total

    return timed(lambda: call(batches).numpy(), CALLS) / CALL


def timed(call: Callable[[], Any], calls: int) -> float:
    """Return seconds of a call, without the first two."""
    call()
    call()
    started = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - started) / calls


class Clock:
    """Adds up the seconds that gangs report, in place of the time that it takes to start them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.total = folder, 0.0

    def way(self, function: Callable[..., float], processes: int, *arguments: Any) -> Callable[[], None]:
        """Return a way of `compare` that runs a function in a gang of so many processes, with one thread each."""

        def run() -> None:
            roles = (CHIEF, *[WORKER] * (processes - 1))
            with ProcessLauncher(self.folder / "logs", 1).gang("bench", roles) as gang:
                journal = self.folder / "journal"
                work = Work(function, arguments)
                self.total += gang.call(work, None, journal, limits=Limits(), on_report=lambda *_: None)

        return run


def shares(clock: Clock, function: Callable[..., float], *arguments: Any) -> float:
    """Return the median of the shares that five gangs of two workers measure."""
    measured = []
    for _ in range(5):
        before = clock.total
        clock.way(function, 2, *arguments)()
        measured.append(clock.total - before)
    return statistics.median(measured)


def main() -> None:
    from tests.benchmarks import workers  # by the name that compute processes can import

    with tempfile.TemporaryDirectory() as name:
        snapshot = synthetic(Path(name))
        clock = Clock(Path(name))
        two = MultiWorker()
        for units in SIZES:
            ways = {
                "one worker": clock.way(workers.ours, 1, snapshot, units, OneDevice(), CALL, True),
                "two workers": clock.way(workers.ours, 2, snapshot, units, two, CALL, True),
                "two workers, gradients not added up": clock.way(workers.ours, 2, snapshot, units, two, CALL, False),
                "bare loop, two workers": clock.way(workers.bare, 2, snapshot, units),
            }
            share = shares(clock, workers.shares_of, snapshot, units)
            print(f"\n{units} units: {share:.0%} of a step of two workers is adding up the gradients")
            title = f"a step of {BATCH} examples, {units} units, a core for each process"
            compare(title, ways, rounds=5, clock=lambda: clock.total)
        ways = {
            "mirrored, a step in a call": clock.way(workers.ours, 1, snapshot, 128, Mirrored(), 1, True),
            f"mirrored, {CALL} steps in a call": clock.way(workers.ours, 1, snapshot, 128, Mirrored(), CALL, True),
        }
        compare("two logical devices of one core, 128 units", ways, rounds=5, clock=lambda: clock.total)


if __name__ == "__main__":
    main()
