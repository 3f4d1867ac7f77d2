"""A table of two classes with a slice in which the label is random, and its stages up to the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.artifacts import Model, Outcome, Records, Snapshot
from tasks.feed import open_snapshot
from tasks.models.architectures.mlp import MlpModel
from tasks.models.keras_file import save
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TableSnapshot
from tasks.sources import Piece, Rows, Source
from tasks.sources.features import Feature

ROWS = 2400
COUNTRIES = ("DE", "FR", "IT")
SPLITS = {"train": 0.4, "validation": 0.3, "test": 0.3}


class Loans(Source):
    """Applications with age, income, country and a note; `granted` follows income, but for the old in FR."""

    @property
    def features(self) -> Mapping[str, Feature]:
        return {
            "age": Feature("number", "float32"),
            "income": Feature("number", "float32"),
            "country": Feature("category", "string"),
            "note": Feature("text", "string"),
            "granted": Feature("label", "int64", role="label", classes=("no", "yes")),
        }

    def fingerprint(self) -> list[tuple[str, str]]:
        return [(f"{number:05d}", f"{number:064d}") for number in range(ROWS)]

    def pieces(self) -> list[Piece]:
        return [Piece("all", ROWS, ())]

    def read(self, piece: Piece) -> Iterator[Rows]:
        keys = [key for key, _ in self.fingerprint()]
        random = np.random.default_rng(11)
        age, income = random.uniform(20, 80, ROWS), random.normal(0, 1, ROWS)
        country = random.choice(COUNTRIES, ROWS)
        granted = random.random(ROWS) < np.where(income > 0.3, 0.9, 0.1)
        odd = (age > 65) & (country == "FR")
        granted[odd] = random.random(int(odd.sum())) < 0.5
        notes = [f"wishes to buy a {'house' if rich else 'bicycle'} soon" for rich in income > 0]
        columns = {
            "age": pa.array(np.where(random.random(ROWS) < 0.05, np.nan, age).astype(np.float32)),
            "income": pa.array(income.astype(np.float32)),
            "country": pa.array(country.tolist()),
            "note": pa.array(notes),
            "granted": pa.array(np.where(granted, "yes", "no").tolist()),
        }
        yield Rows(columns, pa.array(keys), keys.__getitem__)


@dataclass(frozen=True)
class Made:
    """Records, snapshot and a model that was fitted for a second."""

    records: Records
    snapshot: Snapshot
    model: Model


def make(root: Path, workbench: Callable[[Path], Any], publish: Any) -> Made:
    """Make the stages up to a model that is too sure of itself: its last layer's weights are doubled."""
    import keras

    bench = workbench(root / "records")
    made = publish(Records, bench, conversion.convert(bench, "loans", Loans(), RecordsConfig(splits=SPLITS)))
    bench = workbench(root / "snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, TableSnapshot()))
    config, features = MlpModel(units=(8,), dropout=0.0), snapshot.manifest["features"]
    model = config.build(features, seed=0)
    model.compile(keras.optimizers.Adam(0.03), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    arrays = open_snapshot(snapshot.path).arrays("train")
    inputs = {tensor.name: np.asarray(arrays[tensor.name][:]) for tensor in model.inputs}
    model.fit(inputs, np.asarray(arrays["label"][:]), batch_size=64, epochs=6, shuffle=False, verbose=0)
    fitted = config.build(features, seed=0)
    weights = model.get_weights()
    fitted.set_weights([*weights[:-2], weights[-2] * 2, weights[-1] * 2])
    bench = workbench(root / "model")
    statistics = save(fitted, bench.staging, config, features, seed=0)
    return Made(made, snapshot, publish(Model, bench, Outcome(counts={}, statistics=statistics)))
