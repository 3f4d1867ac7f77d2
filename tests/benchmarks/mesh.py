"""Models over several devices: memory and time of a pipeline's schedules, and of pipelines side by side.

    python -m tests.benchmarks.mesh

Growth of the peak memory (VmHWM) of a fresh process over two calls of a step, by schedule, of four stages and 16
micro-batches. A part of it does not depend on the schedule (weights, gradients, the executor): a step of a single
micro-batch shows about how much. Then the seconds of a step, in turns.

Two pipelines of two stages, a core for each process, against one with half the batch; the share of a step that sums
gradients, waiting for the other process included.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tasks.models.architectures.mlp import MlpModel
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.training.config import TrainConfig
from tasks.training.optimizers import Sgd
from tasks.training.schedules import Constant
from tasks.training.strategies import Pipeline
from tests.benchmarks.stepping import synthetic

STAGES, MICRO_BATCHES, ROUNDS = 4, 16, 5
UNITS, ROWS, LAYERS = 256, 1700, 8
"""Width, rows of a micro-batch and layers of a network whose activations weigh more than its weights."""

BATCH, WIDE, CALL, CALLS = 512, 768, 5, 6
"""Of two pipelines: their batch, units of each layer, steps of a call, and calls."""

Schedule = Literal["1f1b", "gpipe"]


def peak() -> int:
    """Return the peak memory of this process so far, in KiB."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


def growth(bench: Workbench, schedule: Schedule, micro_batches: int) -> tuple[float, float, bytes]:
    """Return the MiB by which the peak grows over two calls, the seconds of a third call, and a hash of the weights."""
    import hashlib

    import keras
    import tensorflow as tf

    from tasks.training.engines.tensorflow.objectives import Classification
    from tasks.training.engines.tensorflow.optimizers import make_optimizer
    from tasks.training.engines.tensorflow.step import Step
    from tasks.training.group import Cluster

    strategy = Pipeline(devices=STAGES, micro_batches=micro_batches, schedule=schedule)
    placed = strategy.create(Cluster())
    with placed.scope():
        keras.utils.set_random_seed(1)
        inputs = keras.Input((UNITS,), name="x")
        x = inputs
        for _ in range(LAYERS):
            x = keras.layers.Dense(UNITS, "gelu")(x)
        model: Any = placed.place(keras.Model(inputs, x))
        step = Step(model, make_optimizer(Sgd(), model.trainable_variables), Classification("cross_entropy"))
    rows = ROWS * micro_batches
    random = np.random.default_rng(0)
    batch: dict[str, Any] = {
        "x": random.normal(size=(1, rows, UNITS)).astype(np.float32),
        "label": random.integers(0, UNITS, (1, rows)),
        "weight": np.ones((1, rows), np.float32),
    }
    specs = {name: tf.TensorSpec(values.shape[1:], values.dtype) for name, values in batch.items()}
    run, rates = placed.prepare(step, specs), np.full(1, 0.01, np.float32)
    before = peak()
    run(batch, rates)
    run(batch, rates)
    grown = (peak() - before) / 1024
    started = time.perf_counter()
    run(batch, rates)
    seconds = time.perf_counter() - started
    weights = b"".join(variable.value.numpy().tobytes() for variable in model.trainable_variables)
    return grown, seconds, hashlib.sha256(weights).digest()


def measured(folder: Path, schedule: Schedule, micro_batches: int = MICRO_BATCHES) -> tuple[float, float, bytes]:
    """Return `growth` of a process of its own."""
    from tests.benchmarks import mesh  # by the name that compute processes can import

    with ProcessLauncher(folder / "logs", STAGES).gang("bench") as gang:
        found: tuple[float, float, bytes] = gang.call(
            Work(mesh.growth, (schedule, micro_batches)),
            None,
            folder / "journal",
            limits=Limits(),
            on_report=lambda *report: None,
        )
    return found


def side_by_side(bench: Workbench, folder: Path, strategy: Pipeline, batch: int) -> tuple[float, float]:
    """Return the seconds of a step on a core of its own, and the share of it in which gradients are summed."""
    import os

    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[bench.rank]})
    from tasks.feed import open_snapshot
    from tasks.training.fit import make_engine
    from tasks.training.group import Cluster
    from tasks.training.loop import make_plan

    config = TrainConfig(steps=10**6, batch_size=batch, optimizer=Sgd(), schedule=Constant(), strategy=strategy)
    snapshot = open_snapshot(folder)
    plan, cluster = make_plan(config, snapshot.counts["train"], [CALL]), Cluster(bench.rank, bench.addresses)
    engine = make_engine(config, MlpModel(units=(WIDE,) * LAYERS), snapshot, plan, 1, cluster)
    engine.seek(0)
    calls = [engine.step(plan.rates(0, CALL)) for _ in range(2 + CALLS)][2:]
    ranks = [call.ranks[0] for call in calls]
    summing = sum(rank.reducing for rank in ranks) / sum(rank.call for rank in ranks)
    return statistics.median(rank.call for rank in ranks) / CALL, summing


def hybrid() -> None:
    """Print the ratio of two pipelines to one of half the batch."""
    from tests.benchmarks import mesh

    one = Pipeline(devices=2, micro_batches=4)
    ways = {"one": (one, BATCH // 2), "two": (one.model_copy(update={"workers": 2}), BATCH), "again": (one, BATCH // 2)}
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as name:
        folder = synthetic(Path(name))
        for number in range(ROUNDS):
            for way in ways if number % 2 == 0 else reversed(ways):
                strategy, batch = ways[way]
                with ProcessLauncher(folder / "logs", 1).gang("bench", strategy.roles) as gang:
                    work = Work(mesh.side_by_side, (folder, strategy, batch))
                    found = gang.call(work, None, folder / "journal", limits=Limits(), on_report=lambda *report: None)
                rows[way].append(found)
    print(f"two pipelines against one with half the batch, {LAYERS} layers of {WIDE} units, {ROUNDS} rounds")
    for way in ("two", "again"):
        ratios = [found[0] / base[0] for found, base in zip(rows[way], rows["one"], strict=True)]
        print(f"  {way:<6}{statistics.median(ratios):.2f}x [{min(ratios):.2f}, {max(ratios):.2f}]")
    print(f"  summing gradients: {statistics.median(found[1] for found in rows['two']):.0%} of a step")


def schedules() -> None:
    """Print the ratios to GPipe."""
    ways: dict[str, Schedule] = {"gpipe": "gpipe", "1f1b": "1f1b", "gpipe again": "gpipe"}
    rows: dict[str, list[tuple[float, float, bytes]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fixed = measured(folder, "gpipe", 1)[0]
        for number in range(ROUNDS):
            for way in ways if number % 2 == 0 else reversed(ways):
                rows[way].append(measured(folder, ways[way]))
    assert len({found[2] for each in rows.values() for found in each}) == 1, "all schedules compute the same bits"
    print(f"{STAGES} stages, {MICRO_BATCHES} micro-batches, {ROUNDS} rounds, the same bits")
    print(f"  one micro-batch: {fixed:.0f} MiB")
    for way, found in rows.items():
        for place, unit in ((0, "MiB"), (1, "s")):
            ratios = [one[place] / base[place] for one, base in zip(found, rows["gpipe"], strict=True)]
            median = statistics.median(one[place] for one in found)
            goal = "  goal 0.35x" if way == "1f1b" and place == 0 else ""
            spread = f"{statistics.median(ratios):.2f}x [{min(ratios):.2f}, {max(ratios):.2f}]"
            print(f"  {way:<12}{median:>9.2f} {unit:<4}{spread}{goal}")


def main() -> None:
    """Print all tables."""
    schedules()
    hybrid()


if __name__ == "__main__":
    main()
