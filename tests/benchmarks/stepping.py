"""Step time of our loop against a bare `tf.function` loop of as many steps per call, and against `keras.Model.fit`.

    python -m tests.benchmarks.stepping [convnet | resnet | encoder | transformer | table]...

The same model, data, batch and optimizer; each has examples in memory.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tasks.feed import open_snapshot
from tasks.models.architectures.convnet import ConvnetModel, ResNetModel
from tasks.models.architectures.encoder import EncoderModel
from tasks.models.architectures.mlp import MlpModel
from tasks.models.architectures.transformer import TransformerModel
from tasks.processes import threads
from tasks.training.actions import Guard, LogCurves, Progress
from tasks.training.config import TrainConfig
from tasks.training.engines.tensorflow.engine import TensorFlowEngine
from tasks.training.fit import make_engine
from tasks.training.group import Cluster
from tasks.training.loop import make_plan, train
from tasks.training.meter import Meter
from tasks.training.optimizers import Adam
from tasks.training.schedules import Constant
from tasks.training.speed import Goodput, Speed
from tests.benchmarks.pairs import compare

CALL, ROWS = 20, 2000
CONFIG = TrainConfig(steps=CALL, optimizer=Adam(), schedule=Constant(), log_every=CALL)
LABEL = {"dtype": "int64", "shape": [], "classes": list("0123456789")}


class NoCheckpoints:
    """The loop without its saving: that has a row of its own."""

    def restore(self, engine: object, meter: object) -> int:
        return 0

    def begin(self, engine: object, meter: object, step: int) -> None: ...

    def save(self, engine: object, meter: object, step: int) -> None: ...

    def roll_back(self, engine: object, meter: object, spike: object) -> int:
        raise AssertionError

    def wait(self) -> None: ...


class NoJournal:
    """Points go nowhere."""

    reached = 0
    folder = None

    def append(self, step: int, metrics: dict[str, float]) -> None: ...


CASES: dict[str, tuple[Any, dict[str, Any], int, int]] = {
    "convnet": (ConvnetModel(), {"image": {"dtype": "uint8", "shape": [8, 8, 1]}, "label": LABEL}, 64, 1000),
    "resnet": (
        ResNetModel(blocks=(1, 1, 1), filters=16),
        {"image": {"dtype": "uint8", "shape": [16, 16, 3]}, "label": LABEL},
        32,
        400,
    ),
    "encoder": (
        EncoderModel(width=64, hidden=176),
        {"text": {"dtype": "uint16", "shape": [64], "vocabulary": 300, "padding": 0}, "label": LABEL},
        32,
        200,
    ),
    "transformer": (
        TransformerModel(width=64, layers=2, hidden=176),
        {"tokens": {"dtype": "uint16", "shape": [65], "vocabulary": 300, "bos": 299}},
        16,
        200,
    ),
    "table": (
        MlpModel(),
        {
            "categories": {"dtype": "int32", "shape": [8], "sizes": [50] * 8},
            "numbers": {"dtype": "float32", "shape": [12]},
            "label": LABEL,
        },
        256,
        1000,
    ),
}
"""Model, features, batch and steps of a training of each case: 5 to 20 seconds. Our updates are measured at the first
five calls, and then at each fifth."""


def measure(name: str) -> TensorFlowEngine:
    """Print the ratios of a case; return our engine."""
    model_config, features, batch, steps = CASES[name]
    config = CONFIG.model_copy(update={"batch_size": batch, "steps": steps})
    with tempfile.TemporaryDirectory() as folder:
        snapshot = open_snapshot(synthetic(Path(folder), features))
        arrays = {key: np.array(snapshot.arrays("train")[key]) for key in features}
        plan = make_plan(config, len(next(iter(arrays.values()))), [CALL])
        engine = make_engine(config, model_config, snapshot, plan, 1, Cluster())
        speed = Speed(batch)  # counts FLOPs and measures the peak once in a training: here in the first that is long

        def ours() -> None:
            actions = [
                Guard(str),
                Progress(plan, nothing, nothing),
                LogCurves(CALL, NoJournal(), speed, Goodput(nothing)),
            ]
            train(engine, plan, NoCheckpoints(), Meter(), actions)

        bare_model = model_config.build(features, 1)
        bare_optimizer = keras.optimizers.Adam(1e-3)
        bare_optimizer.build(bare_model.trainable_variables)
        pairs = tf.data.Dataset.from_tensor_slices(supervised(bare_model, arrays))
        endless = pairs.shuffle(ROWS).repeat().batch(batch, drop_remainder=True).prefetch(2)
        iterator = iter(endless)

        @tf.function
        def bare_call(iterator: object) -> tf.Tensor:
            total = 0.0
            for _ in tf.range(CALL):
                given, label = next(iterator)  # type: ignore[call-overload]
                with tf.GradientTape() as tape:
                    logits = bare_model(given, training=True)
                    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits))
                variables = bare_model.trainable_variables
                bare_optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
                total += loss
            return total

        def bare() -> None:
            for _ in range(steps // CALL):
                bare_call(iterator).numpy()

        fit_model = model_config.build(features, 1)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        fit_model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"], steps_per_execution=CALL)

        def fit() -> None:
            fit_model.fit(endless, steps_per_epoch=steps, epochs=1, verbose=0)

        ways = {"bare tf.function loop": bare, "ours": ours, "keras fit": fit}
        compare(f"{name}: {steps} steps of {batch}, {CALL} per call", ways, rounds=5)
    return engine


def supervised(model: keras.Model, arrays: dict[str, np.ndarray]) -> tuple[Any, np.ndarray]:
    """Return the inputs in the model's types, and the targets; of a language model the tokens that follow."""
    if "tokens" in arrays:
        tokens = arrays["tokens"].astype(np.int32)
        return tokens[:, :-1], tokens[:, 1:]
    given = {tensor.name: arrays[tensor.name].astype(tensor.dtype) for tensor in model.inputs}
    return given if len(given) > 1 else next(iter(given.values())), arrays["label"].astype(np.int32)


def main(names: list[str]) -> None:
    """Measure the cases; the last one has the price of a checkpoint too."""
    threads.pin(2)
    for name in names:
        engine = measure(name)
    checkpoint(engine)


def checkpoint(engine: TensorFlowEngine) -> None:
    """The price of a checkpoint: state, bytes, checksums, disk."""
    from tasks.store.files import checksums
    from tasks.store.staging import Staging
    from tasks.training.checkpoints import StagedCheckpoints, pack
    from tasks.training.primary import BestWeights

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


def synthetic(folder: Path, features: dict[str, Any] = CASES["convnet"][1]) -> Path:
    """Write random examples of these features as a snapshot; return its folder."""
    random = np.random.default_rng(1)
    files = []
    for split, name in ((split, name) for split in ("train", "validation") for name in features):
        feature, shape = features[name], (ROWS, *features[name]["shape"])
        most = 10 if name == "label" else feature.get("vocabulary", feature.get("sizes", [250])[0])
        numbers = random.normal(size=shape) if feature["dtype"] == "float32" else random.integers(1, most, shape)
        buffer = io.BytesIO()
        np.save(buffer, numbers.astype(feature["dtype"]))
        path = folder / f"{split}/{name}-00000-of-00001.npy"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(buffer.getvalue())
        files.append({"path": str(path.relative_to(folder)), "bytes": path.stat().st_size})
    counts = {"train": ROWS, "validation": ROWS}
    manifest = {"format": 1, "kind": "snapshot", "digest": "0" * 64, "counts": counts, "features": features}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "files": files}))
    return folder


def nothing(*words: object, **figures: object) -> None:
    """Nobody listens."""


if __name__ == "__main__":
    main(sys.argv[1:] or list(CASES))
