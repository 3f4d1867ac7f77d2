"""A table is standardised by its train split, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tasks.artifacts import Records, Snapshot
from tasks.config import RecordsConfig, SklearnSource, TableSnapshot
from tasks.data import open_snapshot, records, snapshots
from tasks.workbench import Workbench


@pytest.mark.parametrize("feature", ["numbers", "target"])
def test_mean_and_variance_are_those_of_the_train_split(
    feature: str, bench: Workbench, benches: Callable[[str], Workbench], publish: Callable
) -> None:
    source = SklearnSource(name="diabetes", dataset="diabetes")
    made = publish(Records, bench, records.build(bench, source, RecordsConfig()))
    bench = benches("snapshot")
    reader = open_snapshot(publish(Snapshot, bench, snapshots.build(bench, made, TableSnapshot())).path)
    told = reader.features[feature]
    means = {split: np.asarray(reader.arrays(split)[feature], np.float64).mean(axis=0) for split in reader.counts}
    np.testing.assert_allclose(told["mean"], means["train"])
    np.testing.assert_allclose(told["variance"], np.asarray(reader.arrays("train")[feature], np.float64).var(axis=0))
    assert all(np.abs(means[split] - means["train"]).max() > 0.1 for split in ("validation", "test"))
