"""The numbers of a table are standardised by the train split alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tasks.artifacts import Records, Snapshot
from tasks.config import MlpModel, RecordsConfig, SklearnSource, TableSnapshot
from tasks.data import open_snapshot, records, snapshots
from tasks.models import build
from tasks.processes.workbench import Workbench


def test_mean_and_variance_are_those_of_the_train_split(benches: Callable[[str], Workbench], publish: Callable) -> None:
    bench = benches("records")
    config = RecordsConfig(splits={"train": 0.4, "validation": 0.3, "test": 0.3})
    made = publish(Records, bench, records.build(bench, SklearnSource(dataset="diabetes"), config))
    bench = benches("snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, TableSnapshot()))
    reader, features = open_snapshot(snapshot.path), snapshot.manifest["features"]
    for name in ("numbers", "target"):
        means = {split: np.asarray(reader.arrays(split)[name][:], np.float64).mean(0) for split in config.splits}
        np.testing.assert_allclose(features[name]["mean"], means["train"], rtol=1e-9)
        variance = np.asarray(reader.arrays("train")[name][:], np.float64).var(0)
        np.testing.assert_allclose(features[name]["variance"], variance, rtol=1e-9)
        for split in ("validation", "test"):
            assert not np.allclose(features[name]["mean"], means[split], rtol=1e-3)
    model = build(MlpModel(task="regression", units=(4,)), features, seed=0)
    rescaled = np.asarray(model.get_layer("numbers_rescale")(np.asarray(reader.arrays("train")["numbers"][:])))
    np.testing.assert_allclose(rescaled.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(rescaled.std(0), 1, rtol=1e-3)
