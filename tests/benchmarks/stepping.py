"""Step time of our loop against a bare `tf.function` loop of as many steps per call, and against `keras.Model.fit`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tasks.config import ConvnetModel, TrainConfig
from tasks.config.optimizer import Adam
from tasks.config.schedule import Constant
from tasks.data import open_snapshot
from tasks.models import build
from tasks.processes import threads
from tasks.training.actions import Guard, Log, Progress
from tasks.training.engines.tensorflow.engine import TensorFlowEngine
from tasks.training.engines.tensorflow.objectives import make_objective
from tasks.training.engines.tensorflow.optimizers import make_optimizer
from tasks.training.engines.tensorflow.step import Step
from tasks.training.engines.tensorflow.strategies.one_device import OneDeviceStrategy
from tasks.training.feeding import Feed
from tasks.training.loop import train
from tasks.training.meter import Meter
from tasks.training.plan import make_plan
from tests.benchmarks.pairs import compare

STEPS, CALL, BATCH = 200, 20, 64
CONFIG = TrainConfig(steps=STEPS, batch_size=BATCH, optimizer=Adam(), schedule=Constant(), log_every=CALL)


class NoCheckpoints:
    """The loop without its saving: that has a row of its own."""

    def restore(self, engine: object, meter: object) -> int:
        return 0

    def save(self, engine: object, meter: object, step: int) -> None: ...

    def wait(self) -> None: ...


class NoJournal:
    """Points go nowhere."""

    reached = 0

    def append(self, step: int, metrics: dict[str, float]) -> None: ...


def main() -> None:
    """On the digits preset's model and synthetic images of its size."""
    threads.pin(2)
    with tempfile.TemporaryDirectory() as name:
        snapshot = open_snapshot(synthetic(Path(name)))
        features = snapshot.features
        images, labels = (np.array(snapshot.arrays("train")[key]) for key in ("image", "label"))

        model = build(ConvnetModel(), features, 1)
        objective = make_objective("classification", CONFIG, snapshot)
        plan = make_plan(CONFIG, len(labels), [CALL])
        step = Step(model, make_optimizer(Adam(), model.trainable_variables), objective)
        engine = TensorFlowEngine(step, OneDeviceStrategy(), Feed(snapshot, plan, 1))

        def ours() -> None:
            actions = [Guard(), Progress(plan, nothing, nothing), Log(CALL, NoJournal(), BATCH)]
            train(engine, plan, NoCheckpoints(), Meter(), actions)

        bare_model = build(ConvnetModel(), features, 1)
        bare_optimizer = keras.optimizers.Adam(1e-3)
        bare_optimizer.build(bare_model.trainable_variables)
        endless = iter(
            tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).repeat().batch(BATCH).prefetch(2)
        )

        @tf.function
        def bare_call(iterator: object) -> tf.Tensor:
            total = 0.0
            for _ in tf.range(CALL):
                image, label = next(iterator)  # type: ignore[call-overload]
                with tf.GradientTape() as tape:
                    logits = bare_model(image, training=True)
                    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits))
                variables = bare_model.trainable_variables
                bare_optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
                total += loss
            return total

        def bare() -> None:
            for _ in range(STEPS // CALL):
                bare_call(endless).numpy()

        fit_model = build(ConvnetModel(), features, 1)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        fit_model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"], steps_per_execution=CALL)
        dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).repeat().batch(BATCH)

        def fit() -> None:
            fit_model.fit(dataset.prefetch(2), steps_per_epoch=STEPS, epochs=1, verbose=0)

        compare(f"{STEPS} steps, {CALL} per call", {"ours": ours, "bare tf.function loop": bare, "keras fit": fit})
        checkpoint(engine)


def checkpoint(engine: TensorFlowEngine) -> None:
    """The price of a checkpoint: state, bytes, checksums, disk."""
    import json

    from tasks.store.files import checksums
    from tasks.store.staging import Staging
    from tasks.training.best_weights import BestWeights
    from tasks.training.checkpoints import StagedCheckpoints, pack

    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "staging"
        root.mkdir()
        lock = Path(name) / "lock"
        lock.write_text(json.dumps({"token": 1}))
        saves = StagedCheckpoints(Staging(root, lock, 1), CONFIG.checkpoint, BestWeights(CONFIG))
        times: dict[str, list[float]] = {"whole": [], "state and bytes": [], "checksums": []}
        for number in range(1, 8):
            began = time.perf_counter()
            saves.save(engine, Meter(), number)
            times["whole"].append(time.perf_counter() - began)
            began = time.perf_counter()
            content = pack(number, Meter().state(), engine.state())
            times["state and bytes"].append(time.perf_counter() - began)
            (Path(name) / "c").write_bytes(content)
            began = time.perf_counter()
            checksums(Path(name) / "c")
            times["checksums"].append(time.perf_counter() - began)
        print(f"\na checkpoint of {len(content) / 1e6:.1f} MB, median of 7")
        for what, taken in times.items():
            print(f"  {what:<20}{1e3 * sorted(taken)[3]:>8.1f} ms")


def synthetic(folder: Path) -> Path:
    """1,000 images of the digits' size, as a snapshot."""
    import io
    import json

    random = np.random.default_rng(1)
    arrays = {"image": random.integers(0, 256, (1000, 8, 8, 1), np.uint8), "label": random.integers(0, 10, 1000)}
    files = []
    for split, name in ((split, name) for split in ("train", "validation") for name in arrays):
        buffer = io.BytesIO()
        np.save(buffer, arrays[name])
        path = folder / f"{split}/{name}-00000-of-00001.npy"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(buffer.getvalue())
        files.append({"path": str(path.relative_to(folder)), "bytes": path.stat().st_size})
    features = {
        "image": {"dtype": "uint8", "shape": [8, 8, 1]},
        "label": {"dtype": "int64", "shape": [], "classes": list("0123456789")},
    }
    counts = {"train": 1000, "validation": 1000}
    manifest = {"format": 1, "kind": "snapshot", "digest": "0" * 64, "counts": counts, "features": features}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "files": files}))
    return folder


def nothing(*words: object, **figures: object) -> None:
    """Nobody listens."""


if __name__ == "__main__":
    main()
