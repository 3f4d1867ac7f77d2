"""Reading a snapshot: the same batches from any step, at any world size, by tf.data and by numpy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Records, Snapshot
from tasks.config.task import WEIGHT
from tasks.errors import Refused
from tasks.feed import open_snapshot
from tasks.feed.orders import batch_rows
from tasks.feed.snapshot_reader import BatchReader, SnapshotReader
from tasks.records import conversion
from tasks.records.arrays import open_array
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import ImageSnapshot
from tasks.sources.kinds.catalogues import SklearnSource
from tasks.training.config import TrainConfig
from tasks.training.feeding import Feed
from tasks.training.loop import make_plan

Batch = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def snapshot(
    tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable[..., Any], publish: Callable[..., Any]
) -> SnapshotReader:
    bench = workbench_at(tmp_path_factory.mktemp("records") / "staging")
    parent = publish(Records, bench, conversion.build(bench, SklearnSource(), RecordsConfig(shards=1)))
    bench = workbench_at(tmp_path_factory.mktemp("snapshot") / "staging")
    layout = ImageSnapshot(height=8, width=8, channels=1, shards=2)
    return open_snapshot(publish(Snapshot, bench, snapshots.build(bench, parent, layout)).path)


def served(snapshot: SnapshotReader, split: str, batch_size: int, **options: Any) -> list[Batch]:
    return list(snapshot.dataset(split, batch_size, **options).as_numpy_iterator())


def same(left: list[Batch], right: list[Batch]) -> None:
    assert len(left) == len(right)
    for ours, theirs in zip(left, right, strict=True):
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])


def test_batches_hold_the_rows_they_name(snapshot: SnapshotReader) -> None:
    arrays = snapshot.arrays("train")
    for step, batch in enumerate(served(snapshot, "train", 32, seed=4, stop=60)):
        rows, _ = batch_rows(step, 32, snapshot.counts["train"], 4)
        np.testing.assert_array_equal(batch["row"], rows[0])
        np.testing.assert_array_equal(batch["image"], arrays["image"][batch["row"]])
        np.testing.assert_array_equal(batch["label"], arrays["label"][batch["row"]])


def test_shapes_are_static_and_the_length_is_known(snapshot: SnapshotReader) -> None:
    dataset = snapshot.dataset("train", 32, stop=11, start=3)
    assert len(dataset) == 8
    assert dataset.element_spec["image"].shape == (32, 8, 8, 1)
    assert dataset.element_spec["row"].shape == (32,)


@pytest.mark.parametrize("start", [1, 7, 8, 13, 44, 59, 60])
def test_going_on_at_any_step_gives_the_tail(snapshot: SnapshotReader, start: int) -> None:
    whole = served(snapshot, "train", 32, seed=1, stop=60)
    same(served(snapshot, "train", 32, seed=1, start=start, stop=60), whole[start:])


def test_a_late_step_of_an_endless_dataset_comes_at_once(snapshot: SnapshotReader) -> None:
    late = 10**9
    first = next(snapshot.dataset("train", 32, seed=1, start=late).as_numpy_iterator())
    rows, _ = batch_rows(late, 32, snapshot.counts["train"], 1)
    np.testing.assert_array_equal(first["row"], rows[0])


@pytest.mark.parametrize("order", ["shuffled", "stored"])
def test_replicas_share_one_global_batch(snapshot: SnapshotReader, order: str) -> None:
    whole = served(snapshot, "validation", 24, order=order, stop=20)
    for replicas in (2, 4):
        parts = [
            served(snapshot, "validation", 24, order=order, stop=20, replica=replica, replicas=replicas)
            for replica in range(replicas)
        ]
        joined = [
            {name: np.concatenate([part[name] for part in step]) for name in step[0]}
            for step in zip(*parts, strict=True)
        ]
        same(joined, whole)


def test_stored_order_is_one_pass_with_a_short_end(snapshot: SnapshotReader) -> None:
    served_rows = [batch["row"] for batch in served(snapshot, "test", 50, order="stored")]
    assert np.concatenate(served_rows).tolist() == list(range(snapshot.counts["test"]))
    assert [len(rows) for rows in served_rows[:-1]] == [50] * (len(served_rows) - 1)
    same(served(snapshot, "test", 50, order="stored", start=2), served(snapshot, "test", 50, order="stored")[2:])


def test_numpy_batches_are_the_datasets(snapshot: SnapshotReader) -> None:
    plain = list(snapshot.reader("train", 32, seed=3).batches(start=5, stop=30))
    assert all(batch.pop("weight").tolist() == [1] * 32 for batch in plain)
    same(plain, served(snapshot, "train", 32, seed=3, start=5, stop=30))


def test_numpy_batches_end_full_with_weightless_rows(snapshot: SnapshotReader) -> None:
    count = snapshot.counts["test"]
    batches = list(snapshot.reader("test", 50, order="stored").batches())
    assert all(len(batch["row"]) == len(batch["weight"]) == 50 for batch in batches)
    rows = np.concatenate([batch["row"] for batch in batches])
    weights = np.concatenate([batch["weight"] for batch in batches])
    assert weights.dtype == np.float32
    assert rows[weights > 0].tolist() == list(range(count))


def test_rows_past_the_last_epoch_have_no_weight_whatever_their_own() -> None:
    arrays = {"x": np.arange(10.0), WEIGHT: np.arange(1, 11, dtype=np.float32)}
    reader = BatchReader(arrays, "train", 4, seed=3, epochs=1)
    batches = [reader[number] for number in range(len(reader))]
    weights = np.concatenate([batch[WEIGHT] for batch in batches])
    rows = np.concatenate([batch["row"] for batch in batches])
    np.testing.assert_array_equal(weights[:10], arrays[WEIGHT][rows[:10]])
    np.testing.assert_array_equal(weights[10:], [0, 0])
    stored = BatchReader(arrays, "train", 4, order="stored")
    np.testing.assert_array_equal(stored[2][WEIGHT], [1, 1, 0, 0])  # metrics are of examples without weights


def test_epochs_show_each_example_as_often(snapshot: SnapshotReader) -> None:
    count = snapshot.counts["validation"]
    batches = list(snapshot.reader("validation", 64, seed=2, epochs=3).batches())
    seen = np.zeros(count)
    for batch in batches:
        np.add.at(seen, batch["row"], batch["weight"])
    assert len(batches) == -(-3 * count // 64)
    assert (seen == 3).all()


def test_steps_show_each_example_floor_or_ceil_as_often(snapshot: SnapshotReader) -> None:
    rows = np.concatenate([batch["row"] for batch in islice(snapshot.reader("train", 64, seed=2).batches(), 50)])
    assert set(np.bincount(rows)) <= {50 * 64 // snapshot.counts["train"], 50 * 64 // snapshot.counts["train"] + 1}


def test_several_shards_read_as_one_array(snapshot: SnapshotReader) -> None:
    images = snapshot.arrays("train")["image"]
    whole = np.asarray(images)
    assert len(images) == len(whole) == snapshot.counts["train"]
    half = -(-len(whole) // 2)
    for rows in (slice(None), slice(half - 2, half + 2), slice(None, None, -7), np.array([half, 0, half - 1, -1])):
        np.testing.assert_array_equal(images[rows], whole[rows])
    np.testing.assert_array_equal(images[half], whole[half])
    with pytest.raises(IndexError):
        images[len(whole)]


def test_an_unknown_split_and_an_uneven_batch_are_refused(snapshot: SnapshotReader) -> None:
    with pytest.raises(Refused, match="test, train, validation"):
        snapshot.arrays("dev")
    with pytest.raises(Refused, match="use 30 or 33"):
        snapshot.dataset("train", 32, replicas=3)


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_a_training_is_fed_the_datasets_batches_by_replica(snapshot: SnapshotReader, replicas: int) -> None:
    """In calls of any length, from any step; in the last epoch with the weights of its end."""
    plan = make_plan(TrainConfig(epochs=1, batch_size=32), snapshot.counts["train"], [5])
    whole = list(snapshot.reader("train", 32, seed=6, epochs=1).batches(start=3))
    calls, parts = [1, 4, 2, 7, 1], []
    calls.append(plan.steps - 3 - sum(calls))
    for replica in range(replicas):
        feed = Feed(snapshot, plan, 6, replica, replicas)
        feed.seek(3)
        parts.append([feed.take(steps) for steps in calls])
        feed.close()
    fed = [
        {name: np.concatenate([part[name][number] for part in call]) for name in call[0]}
        for call in zip(*parts, strict=True)
        for number in range(len(call[0]["row"]))
    ]
    same(fed, whole)
    assert 0 < fed[-1]["weight"].sum() < 32


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int64", "float32"])
@pytest.mark.parametrize("parts", [1, 3])
def test_tensorflow_gathers_from_the_files_own_pages(tmp_path: Path, dtype: str, parts: int) -> None:
    from tasks.feed.snapshot_reader import tensor_of

    values = np.random.default_rng(0).integers(0, 200, (10, 3)).astype(dtype)
    paths = [tmp_path / f"{number}.npy" for number in range(parts)]
    for path, part in zip(paths, (values[:4], values[4:8], values[8:]) if parts == 3 else (values,), strict=True):
        np.save(path, part)
    gather = tensor_of(open_array(paths))
    rows = np.array([[9, 0], [4, 4], [3, 7]])
    np.testing.assert_array_equal(gather(rows).numpy(), values[rows])
    with open(paths[0], "r+b") as file:  # a copy would not see this
        file.seek(-values[0].nbytes * (4 if parts == 3 else 10), 2)
        file.write(b"\x01" * values[0].nbytes)
    assert (gather(rows).numpy()[0, 1].tobytes()) == b"\x01" * values[0].nbytes
