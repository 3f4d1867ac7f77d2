"""A training of seconds: ten images, a model of two small layers, seven steps."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np

from tasks import snapshots
from tasks.artifacts import Outcome
from tasks.models.architectures.mlp import MlpModel
from tasks.processes.workbench import Workbench
from tasks.sources.hashes import hashes_of
from tasks.training.config import TrainConfig
from tasks.training.ledger import LEDGER
from tasks.training.optimizers import AdamW
from tasks.training.schedules import Cosine
from tasks.training.sections import CheckpointConfig

STEPS = 7
MODEL = MlpModel(units=(8, 8), dropout=0.5)
CONFIG = TrainConfig(
    steps=STEPS,
    batch_size=4,
    optimizer=AdamW(),
    learning_rate=0.01,
    schedule=Cosine(warmup=2),
    clip_norm=1.0,
    checkpoint=CheckpointConfig(every=3),
    log_every=2,
    evaluate_every=4,
)
FILES = ("model.keras", "model.weights.h5", "architecture.json", "state/state.npz", LEDGER)


def write_hashes(bench: Workbench, split: str, count: int) -> None:
    """A hash of each of `count` records, as none of another split has it."""
    snapshots.write_hashes(bench, hashes_of([f"{split} {number}".encode() for number in range(count)]), split)


def write_snapshot(bench: Workbench) -> Outcome:
    """Ten training images of two classes, in the layout of docs/contracts.md."""
    random = np.random.default_rng(1)
    counts = {"train": 10, "validation": 5, "test": 5}
    for split, count in counts.items():
        arrays = {
            "image": random.integers(0, 256, (count, 4, 4, 1), np.uint8),
            "label": np.arange(count, dtype=np.int64) % 2,
            "origin": np.stack([np.arange(count), np.ones(count, np.int64)], 1),
            "pieces": np.stack([np.arange(count), np.zeros(count, np.int64), np.ones(count, np.int64)] * 1, 1),
        }
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array)
            bench.staging.put(f"{split}/{name}-00000-of-00001.npy", buffer.getvalue())
        write_hashes(bench, split, count)
    features = {
        "image": {"dtype": "uint8", "shape": [4, 4, 1]},
        "label": {"dtype": "int64", "shape": [], "classes": ["even", "odd"]},
    }
    return Outcome(counts=counts, features=features)


def files(bench: Workbench) -> dict[str, bytes]:
    return {name: (bench.staging.root / name).read_bytes() for name in FILES}


def stopping_after(calls: int) -> Callable[[], int]:
    """A signal that comes before the call number `calls` of the loop."""
    left = iter([0] * calls)
    return lambda: next(left, 15)
