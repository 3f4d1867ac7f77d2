"""What this machine can do: its device's repeatability, and the ceilings of its speed.

`millrace doctor --accelerator` has each in a process of its own, as an attempt that goes on would be.

In training, a thread reads batches while the devices compute: the slowest part sets the pace. Source and transform run
once, before it, and are compared with each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Records, Snapshot
from tasks.environment import hardware
from tasks.feed import open_snapshot
from tasks.feed.augmentations import AugmentConfig
from tasks.feed.augmenter import Augmenter
from tasks.feed.orders import Order
from tasks.feed.snapshot_reader import BatchReader
from tasks.models import ModelConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots.config import SnapshotConfig
from tasks.sources.kinds import SourceConfig
from tasks.training.config import Precision, TrainConfig
from tasks.training.fit import make_engine
from tasks.training.group import Cluster
from tasks.training.loop import make_plan
from tasks.training.strategies import OneDevice

if TYPE_CHECKING:
    from tasks.feed.snapshot_reader import SnapshotReader
    from tasks.processes.workbench import Workbench


WARM, CHECK_STEPS, BATCH, SIDE, CLASSES = 4, 24, 64, 32, 10
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

    from tasks.models.keras_file import weights_sha256
    from tasks.training.engines.objectives import Classification
    from tasks.training.engines.tensorflow.engine import POLICY, policy
    from tasks.training.engines.tensorflow.optimizers import make_optimizer
    from tasks.training.engines.tensorflow.self_test import specs
    from tasks.training.engines.tensorflow.step import Step
    from tasks.training.engines.tensorflow.strategies import OneDeviceStrategy
    from tasks.training.optimizers import Adam

    hardware.prepare()
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
    for _ in range(WARM + CHECK_STEPS):
        begun = time.perf_counter()
        sums = run(batch, rates)
        seconds.append(time.perf_counter() - begun)
    loss = float(sums["loss"][0] / sums["weight"][0])
    device = str(hardware.layout().get("accelerators", "CPU"))
    return Trained(device, weights_sha256(model), 1e3 * float(np.median(seconds[WARM:])), loss)


SECONDS = 1.0
"""Time for which a part is measured, at least one call."""
FASTER = 1.2
"""Ratio from which another setting is worth a line: less may be chance."""
LARGER = 4
"""How many times larger the batch is that is tried for the transfer."""
STEPS = 1_000_000
"""Steps of a training of which some are measured."""

CONVERSION = ("source", "transform")
"""Parts of the conversion; all others are of the training."""


@dataclass(frozen=True)
class Ceiling:
    """The examples a second that a part would reach if all others took no time."""

    part: str
    rate: float
    what: str
    """What was measured, in words."""
    advice: str = ""
    """What makes it faster, where that was measured or is certain."""


def measure(
    bench: Workbench,
    source: SourceConfig,
    layout: SnapshotConfig,
    model: ModelConfig,
    config: TrainConfig,
    seed: int,
    records: Records,
    snapshot: Snapshot,
    memory: Path,
) -> list[Ceiling]:
    """Return the ceilings of a preset, in the order of the data's way.

    Args:
        memory: a folder for a cache of the content hashes of the source.
    """
    train = _on_one_device(config)
    reader = open_snapshot(snapshot.path)
    batches = _batches(reader, train, seed, train.order)
    other = _batches(reader, train, seed, "blocks" if train.order == "shuffled" else "shuffled")
    return [
        _source(source, memory, bench.threads),
        _transform(layout, records, snapshot),
        _read(batches, other, train.order),
        _batch(batches),
        *([_augment(reader, batches, train.augment, seed)] if train.augment else []),
        _transfer(batches),
        _step(reader, model, train, seed, batches.share),
    ]


def slowest(ceilings: list[Ceiling], conversion: bool) -> Ceiling:
    """Return the smallest ceiling of the conversion, or of the training."""
    return min((each for each in ceilings if (each.part in CONVERSION) == conversion), key=lambda each: each.rate)


def _on_one_device(train: TrainConfig) -> TrainConfig:
    alone = {} if train.strategy.processes == 1 else {"strategy": OneDevice()}
    return train.model_copy(update={"steps": STEPS, "epochs": None, "evaluate": "inline", **alone})


def _batches(reader: SnapshotReader, train: TrainConfig, seed: int, order: Order) -> BatchReader:
    return reader.reader("train", train.batch_size, seed=seed, order=order)


def rate(work: Callable[[int], int]) -> float:
    """Return the examples a second of calls `work(number)`, which return how many they did; the first is not timed."""
    work(0)
    examples, number, started = 0, 0, time.perf_counter()
    while not number or time.perf_counter() - started < SECONDS:
        number += 1
        examples += work(number)
    return examples / (time.perf_counter() - started)


def rate_of(begin: Callable[[], Iterator[int]]) -> float:
    """Return the examples a second of iterators that yield how many they did; the first item is not timed."""
    counts = chain.from_iterable(begin() for _ in count())
    return rate(lambda _: next(counts))


def _source(config: SourceConfig, memory: Path, threads: int) -> Ceiling:
    source = config.open(memory)
    source.fingerprint()
    partitions = source.partitions()
    found = rate_of(lambda: (len(rows.keys) for partition in partitions for rows in source.read(partition)))
    several = f"{len(partitions):,} partitions are shared by {threads} processes (resources.threads)"
    alone = "the source is one partition, which one process reads: it is small, or cannot be divided"
    return Ceiling(
        "source", found, "rows of the source, read by one process", several if len(partitions) > 1 else alone
    )


def _transform(layout: SnapshotConfig, records: Records, snapshot: Snapshot) -> Ceiling:
    reader = RecordsReader(records.path)
    found = rate_of(lambda: layout.transformed(reader, snapshot.path / "transform"))
    advice = "it is shared by the threads of the machine (resources.threads), and done once"
    return Ceiling("transform", found, "records, decoded and transformed by one thread", advice)


def _read(batches: BatchReader, other: BatchReader, order: str) -> Ceiling:
    ours, theirs = _gathering(batches), _gathering(other)
    advice = "the bytes of an example decide: a smaller height, width or block, or fewer columns"
    if order == "shuffled" and theirs > FASTER * ours:
        advice = f"train.order: blocks reads {theirs / ours:.1f} times as fast here"
    return Ceiling("read", ours, f"rows gathered from the arrays (train.order: {order})", advice)


def _gathering(batches: BatchReader) -> float:
    """Return the speed of reading rows whose numbers are known."""
    steps = batches.steps_per_call
    numbers = [batches.rows(call * steps, (call + 1) * steps)[0] for call in range(64)]

    def gather(call: int) -> int:
        rows = numbers[call % len(numbers)]
        for array in batches.arrays.values():
            np.asarray(array[rows])
        return int(rows.size)

    return rate(gather)


def _batch(batches: BatchReader) -> Ceiling:
    steps = batches.steps_per_call
    found = rate(lambda call: int(batches.read(call * steps, (call + 1) * steps)["row"].size))
    advice = "it is reading, and the order's arithmetic on the processor"
    return Ceiling("batch", found, "batches in their order, all features, by one thread", advice)


def _augment(reader: SnapshotReader, batches: BatchReader, configs: Sequence[AugmentConfig], seed: int) -> Ceiling:
    steps = batches.steps_per_call
    batch, epochs = batches.read(0, steps), batches.epochs_of(0, steps)

    def augmenting(some: Sequence[AugmentConfig]) -> float:
        augmenter = Augmenter(some, reader.features, batches.arrays, seed)
        return rate(lambda _: int(augmenter(batch, epochs)["row"].size))

    found, alone = augmenting(configs), [augmenting([config]) for config in configs]
    place = int(np.argmin(alone))
    advice = f"train.augment.{place} ({configs[place].kind}) is the slowest, alone {alone[place]:,.0f} a second"
    return Ceiling("augment", found, "batches augmented, by the thread that has read them", advice)


def _transfer(batches: BatchReader) -> Ceiling:
    import tensorflow as tf

    batch = batches.read(0, 1)
    larger = batches.read(0, LARGER)
    device = (tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU"))[0].name

    def transferring(arrays: dict[str, Any]) -> float:
        def transfer(_: int) -> int:
            with tf.device(device):
                copies = [tf.identity(tf.constant(values)) for values in arrays.values()]
            tf.test.experimental.sync_devices()
            return int(arrays["row"].size) if copies else 0

        return rate(transfer)

    ours, theirs = transferring(batch), transferring(larger)
    advice = "the bytes of an example decide: a smaller height, width or block, or fewer columns"
    if theirs > FASTER * ours:
        advice = f"a train.batch_size {LARGER} times as large is {theirs / ours:.1f} times as fast to hand over"
    return Ceiling("transfer", ours, f"batches to tensors on {device.rpartition('device:')[2]}", advice)


def _step(reader: SnapshotReader, model: ModelConfig, train: TrainConfig, seed: int, batch_size: int) -> Ceiling:
    """Measure steps of the real engine; its waits for input are not counted."""
    plan = make_plan(train, reader.counts["train"], ())
    engine = make_engine(train, model, reader, plan, seed, Cluster(0, ("127.0.0.1:0",)))
    try:
        engine.seek(0)
        step, examples, seconds, calls = 0, 0, 0.0, 0
        while calls < 3 or seconds < SECONDS:
            until = plan.next_stop(step)
            call = engine.step(plan.rates(step, until))
            plan.pace.update(until - step, call.seconds)
            calls += 1
            if calls > 1:  # the first call compiles
                examples += (until - step) * batch_size
                seconds += call.seconds - call.waited
            step = until
    finally:
        engine.close()
    advice = "the input is no limit: a faster device, or a smaller model, is"
    return Ceiling("step", examples / seconds, f"steps of the model, {model.kind}, on one device", advice)
