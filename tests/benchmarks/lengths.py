"""An epoch of an encoder's training on texts of very different lengths: `train.order: lengths` against `shuffled`, and
against a bare loop with tf.data's `bucket_by_sequence_length` (eight buckets, a shuffle buffer of all texts).

Goal: `lengths` is as fast as the bare loop, and faster than `shuffled` by about the share of padding.
"""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tasks.feed import open_snapshot
from tasks.models.architectures.encoder import EncoderModel
from tasks.processes import threads
from tasks.training.config import TrainConfig
from tasks.training.engines.tensorflow.engine import TensorFlowEngine, make_objective
from tasks.training.engines.tensorflow.optimizers import make_optimizer
from tasks.training.engines.tensorflow.step import Step, trimmed
from tasks.training.engines.tensorflow.strategies import OneDeviceStrategy
from tasks.training.engines.tensorflow.weights import Weights
from tasks.training.feeding import Feed
from tasks.training.loop import make_plan
from tasks.training.optimizers import Adam
from tasks.training.schedules import Constant
from tests.benchmarks.pairs import Way, compare

TEXTS, LENGTH, BATCH, CALL = 2048, 256, 32, 8
VOCABULARY = 4096
STEPS = TEXTS // BATCH
MODEL = EncoderModel(width=64, layers=2, heads=4, hidden=176, dropout=0.0)
BUCKETS = [LENGTH * part // 8 for part in range(1, 8)]


def main() -> None:
    """Lengths are log-normal with a median of 40 tokens, at most 256."""
    threads.pin(2)
    with tempfile.TemporaryDirectory() as name:
        snapshot = open_snapshot(write(Path(name)))
        texts, labels = (np.array(snapshot.arrays("train")[key]) for key in ("text", "label"))
        lengths = np.asarray(snapshot.lengths("train"))

        def ours(order: str) -> Way:
            config = TrainConfig(steps=10**6, batch_size=BATCH, optimizer=Adam(), schedule=Constant(), order=order)
            plan = make_plan(config, TEXTS, [CALL])
            plan.pace.longest = CALL
            model = MODEL.build(snapshot.features, 1)
            objective = make_objective("classification", config, snapshot)
            step = Step(
                model,
                make_optimizer(Adam(), model.trainable_variables),
                objective,
                padded=trimmed(order, snapshot.features),
            )
            engine = TensorFlowEngine(
                step, OneDeviceStrategy(), Feed(snapshot, plan, 1), Weights(model.variables, [], step.optimizer), None
            )
            engine.seek(0)
            rows, _ = snapshot.reader("train", BATCH, seed=1, order=order).rows(0, STEPS)
            share = 1 - lengths[rows].sum() / (lengths[rows].max(axis=1) * BATCH).sum()
            print(f"{order}: {share:.1%} of the longest texts' batches is padding")

            def epoch() -> None:
                for _ in range(STEPS // CALL):
                    engine.step(plan.rates(0, CALL))

            return epoch

        model = MODEL.build(snapshot.features, 1)
        optimizer = keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        cut = tf.data.Dataset.from_tensor_slices((texts.astype(np.int32), lengths, labels))
        dataset = cut.map(lambda text, length, label: (text[:length], label))
        dataset = dataset.shuffle(TEXTS, seed=1).repeat()
        dataset = dataset.bucket_by_sequence_length(lambda text, _: tf.shape(text)[0], BUCKETS, [BATCH] * 8)
        endless = iter(dataset.prefetch(2))

        @tf.function
        def bare_call(iterator: object) -> tf.Tensor:
            total = 0.0
            for _ in tf.range(CALL):
                text, label = next(iterator)  # type: ignore[call-overload]
                with tf.GradientTape() as tape:
                    logits = model(text, training=True)
                    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits))
                variables = model.trainable_variables
                optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
                total += loss
            return total

        def bare() -> None:
            for _ in range(STEPS // CALL):
                bare_call(endless).numpy()

        ways = {"lengths": ours("lengths"), "shuffled": ours("shuffled"), "bare, bucket_by_sequence_length": bare}
        compare(f"an epoch of {TEXTS} texts", ways)


def write(folder: Path) -> Path:
    """Texts as a snapshot."""
    random = np.random.default_rng(1)
    lengths = np.clip(random.lognormal(np.log(40), 0.8, TEXTS), 1, LENGTH).astype(np.int32)
    tokens = random.integers(1, VOCABULARY, (TEXTS, LENGTH)).astype(np.uint16)
    arrays = {
        "text": np.where(np.arange(LENGTH) < lengths[:, None], tokens, 0).astype(np.uint16),
        "label": random.integers(0, 10, TEXTS),
        "lengths": lengths,
    }
    files = []
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, array)
        path = folder / f"train/{name}-00000-of-00001.npy"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(buffer.getvalue())
        files.append({"path": str(path.relative_to(folder)), "bytes": path.stat().st_size})
    features = {
        "text": {"dtype": "uint16", "shape": [LENGTH], "vocabulary": VOCABULARY, "padding": 0},
        "label": {"dtype": "int64", "shape": [], "classes": list("0123456789")},
    }
    manifest = {"format": 1, "kind": "snapshot", "digest": "0" * 64, "counts": {"train": TEXTS}, "features": features}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "files": files}))
    return folder


if __name__ == "__main__":
    main()
