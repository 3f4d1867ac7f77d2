"""Real digits on their way: records, snapshot and a small model fitted to them for a few seconds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tasks.artifacts import Model, Outcome, Records, Snapshot
from tests.support.benches import published, workbench
from tests.support.homes import CommandHome, kept_home


@dataclass(frozen=True)
class Digits:
    """The artifacts, which are not to be changed."""

    records: Records
    snapshot: Snapshot
    model: Model


def made(root: Path) -> Digits:
    """Make them in a folder."""
    import keras

    from tasks.feed import open_snapshot
    from tasks.models.architectures.convnet import ConvnetModel
    from tasks.models.keras_file import save
    from tasks.records import conversion
    from tasks.records.config import RecordsConfig
    from tasks.snapshots import work as snapshots
    from tasks.snapshots.config import ImageSnapshot
    from tasks.sources.kinds.catalogues import SklearnSource

    bench = workbench(root / "records")
    splits = {"train": 0.6, "validation": 0.1, "test": 0.3}
    converted = published(Records, bench, conversion.build(bench, SklearnSource(), RecordsConfig(splits=splits)))
    bench = workbench(root / "snapshot")
    layout = ImageSnapshot(height=8, width=8, channels=1, shards=2)
    snapshot = published(Snapshot, bench, snapshots.build(bench, converted, layout))

    config = ConvnetModel(dropout=0.0)
    features = snapshot.manifest["features"]
    model = config.build(features, seed=0)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    arrays = open_snapshot(snapshot.path).arrays("train")
    model.fit(arrays["image"][:], arrays["label"][:], batch_size=32, epochs=8, shuffle=False, verbose=0)
    fitted = config.build(features, seed=0)
    fitted.set_weights(model.get_weights())
    bench = workbench(root / "model")
    statistics = save(fitted, bench.staging, config, features, seed=0)
    return Digits(converted, snapshot, published(Model, bench, Outcome(counts={}, statistics=statistics)))


def kept_digits() -> Digits:
    """Make them once for this state of the code, of this file as well, and keep them for all test processes."""

    def fill(home: CommandHome) -> None:
        made(home.root)

    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    root = kept_home(f"digits-{own}", fill).root
    kinds = (Records, Snapshot, Model)
    return Digits(*(kind("0" * 64, root / kind.kind, kind.kind) for kind in kinds))
