"""The parts of a snapshot by themselves: its files and shards, batches at their ends, tags, order of threads."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.errors import Failed, Refused
from tasks.feed.augmentations import AugmentConfig, Mixup
from tasks.feed.augmenter import MIXED, OTHER_LABEL, Augmenter, input_kinds
from tasks.feed.orders import BLOCK_BYTES, ORDERS, Ordered, rows_per_block
from tasks.feed.snapshot_reader import CALL_BYTES, CALL_STEPS, BatchReader, SnapshotReader
from tasks.processes.workbench import Workbench
from tasks.records.arrays import ArrayWriter, Shards, open_array, row_bytes
from tasks.snapshots import Progress, lineage_of, parts_of, write_array
from tasks.snapshots.table import MOST_ROWS, in_order
from tasks.snapshots.tags import counted, padded_tags, shares_of
from tasks.snapshots.tokens import _chunks
from tasks.snapshots.transforms.statistics import Moments


def test_a_file_of_rows_is_little_endian_and_has_as_many_as_it_says(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    values = np.arange(6, dtype=">i4").reshape(3, 2)
    with ArrayWriter(path, np.int32, (3, 2)) as writer:
        writer.append(values[:2])
        writer.append(np.asfortranarray(values[2:]))
    assert np.load(path).dtype == np.dtype("<i4") and np.load(path).tolist() == values.tolist()
    with pytest.raises(AssertionError, match="1 rows fewer written than promised"):  # noqa: SIM117
        with ArrayWriter(path, np.int32, (3, 2)) as writer:
            writer.append(values[:2])
    with pytest.raises(KeyError), ArrayWriter(path, np.int32, (3, 2)):
        raise KeyError("the error of the work, and not that rows are missing")


def shards_of(folder: Path) -> Shards:
    """Seven rows in files of three, three and one."""
    paths = [folder / f"{number}.npy" for number in range(3)]
    for path, rows in zip(paths, np.split(np.arange(14).reshape(7, 2), [3, 6]), strict=True):
        np.save(path, rows)
    made = open_array(paths)
    assert isinstance(made, Shards)
    return made


def test_rows_of_several_files_are_found_from_both_ends_and_others_are_an_error(tmp_path: Path) -> None:
    made = shards_of(tmp_path)
    assert (len(made), made.shape, made.dtype) == (7, (7, 2), np.int64)
    assert made[np.array([[6, 0], [2, 3]])].tolist() == [[[12, 13], [0, 1]], [[4, 5], [6, 7]]]
    assert made[-1].tolist() == made[6].tolist() == [12, 13] and made[np.array([-7])].tolist() == [[0, 1]]
    assert made[2:7:2].tolist() == [[4, 5], [8, 9], [12, 13]] and made[3:3].shape == (0, 2)
    assert np.asarray(made).tolist() == np.arange(14).reshape(7, 2).tolist()
    for row in (7, -8, np.array([0, 7])):
        with pytest.raises(IndexError, match=r"of 7"):
            made[row]
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(made, copy=False)
    assert isinstance(open_array([tmp_path / "0.npy"]), np.memmap)


def test_a_split_is_divided_into_at_most_so_many_equal_parts() -> None:
    def sizes(count: int, shards: int) -> list[int]:
        parts = parts_of("train", count, shards)
        assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
        assert {(part.split, part.total) for part in parts} == {("train", len(parts))}
        return [part.stop - part.start for part in parts]

    assert sizes(7, 1) == [7] and sizes(7, 3) == [3, 3, 1] and sizes(6, 3) == [2, 2, 2]
    assert sizes(5, 4) == [2, 2, 1] and sizes(2, 9) == [1, 1], "none is empty"
    assert parts_of("test", 7, 3)[1].file("image") == "test/image-00001-of-00003.npy"


def test_rows_of_one_record_each_lead_to_it() -> None:
    lineage = lineage_of(np.array([4, 5]))
    assert lineage["origin"].tolist() == [[4, 1], [5, 1]]
    assert lineage["pieces"].tolist() == [[4, 0, 1, 0], [5, 0, 1, 0]]


def test_a_finished_array_is_not_written_again(bench: Workbench) -> None:
    write_array(bench, "train/x.npy", np.arange(3))
    write_array(bench, "train/x.npy", np.arange(5))
    assert np.load(bench.staging.root / "train/x.npy").tolist() == [0, 1, 2]
    (bench.staging.root / "train/x.npy").write_bytes(b"damaged")
    write_array(bench, "train/x.npy", np.arange(5))
    assert np.load(bench.staging.root / "train/x.npy").tolist() == [0, 1, 2, 3, 4]


def test_results_of_threads_come_in_the_order_of_the_items_and_few_are_held() -> None:
    begun: list[int] = []
    lock = threading.Lock()

    def work(item: int) -> int:
        with lock:
            begun.append(item)
        time.sleep(0.02 if item % 2 == 0 else 0.0)
        return -item

    read: list[int] = []

    def items() -> Any:
        for item in range(12):
            read.append(item)
            yield item

    results = in_order(work, items(), 3)
    assert next(results) == 0 and len(read) == 4, "one more than there are threads"
    assert list(results) == [-item for item in range(1, 12)]


def test_an_error_of_a_thread_comes_in_its_turn_and_ends_the_others() -> None:
    def work(item: int) -> int:
        if item == 2:
            raise ValueError("item 2")
        return item

    results = in_order(work, range(100), 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="item 2"):
        next(results)


def test_progress_is_reported_now_and_then_and_at_the_end(bench: Workbench) -> None:
    told: list[tuple[Any, ...]] = []
    report = Progress(replace(bench, progress=lambda *args: told.append(args)), 3 * MOST_ROWS, "examples", MOST_ROWS)
    for rows in (MOST_ROWS - 1, 1, 1, MOST_ROWS, MOST_ROWS - 1):
        report.finish(rows)
    total = 3 * MOST_ROWS
    assert told == [(done, total, "examples") for done in (MOST_ROWS, 2 * MOST_ROWS + 1, total)]


def test_tags_stand_beside_their_words_and_what_is_cut_or_unknown_is_counted() -> None:
    assert padded_tags([[2, 1], [], [3, 4, 5, 6]], 3).tolist() == [[2, 1, -1], [-1, -1, -1], [3, 4, 5]]
    ids = np.array([[5, 1, 0], [0, 0, 0], [1, 1, 9]])
    found = counted([["a", "b"], [], ["c", "d", "e", "f", "g"]], ids)
    assert found == Counter({"words": 7, "cut": 2, "unknown_words": 3})
    assert shares_of(found) == {"cut": 2 / 7, "unknown_words": 3 / 5}
    assert shares_of(Counter()) == {}


def test_records_are_encoded_in_chunks_none_of_them_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.snapshots.tokens.CHUNK_BYTES", 10)
    for sizes in ([3, 3, 3, 3, 3], [25, 1, 1], [1], [10, 10, 10], [1, 40, 1]):
        chunks = _chunks(np.array(sizes))
        assert [start for start, _ in chunks] == [0, *(stop for _, stop in chunks[:-1])] and chunks[-1][1] == len(sizes)
        assert all(stop > start for start, stop in chunks)
    assert _chunks(np.array([10, 10, 10])) == [(0, 1), (1, 2), (2, 3)]
    assert _chunks(np.array([3, 3, 3, 3, 3])) == [(0, 4), (4, 5)]


ARRAYS = {"x": np.arange(10, dtype=np.float32)[:, None], "weight": np.arange(10, dtype=np.float32) + 1}


def test_weights_of_examples_count_in_training_and_not_in_stored_order() -> None:
    stored = BatchReader(ARRAYS, "test", 4, order="stored")
    assert len(stored) == 3 and [batch["weight"].tolist() for batch in stored.batches()] == [
        [1, 1, 1, 1],
        [1, 1, 1, 1],
        [1, 1, 0, 0],
    ]
    shuffled = BatchReader(ARRAYS, "train", 4, seed=3, epochs=1).read(0, 3)
    kept = shuffled["row"].ravel()[:10]
    assert shuffled["weight"].ravel().tolist() == [*(kept + 1).tolist(), 0, 0]
    assert sorted(kept.tolist()) == list(range(10))


def test_a_reader_ends_with_its_last_epoch_and_has_no_batch_beyond() -> None:
    reader = BatchReader(ARRAYS, "train", 4, epochs=2)
    assert (len(reader), reader.end(3), reader.end(99)) == (5, 3, 5)
    assert [len(list(reader.batches(start, stop))) for start, stop in ((0, None), (3, None), (1, 3), (5, None))] == [
        *(5, 2, 2, 0)
    ]
    assert reader[4]["x"].shape == (4, 1)
    for number in (5, -1):
        with pytest.raises(IndexError):
            reader[number]
    stored = BatchReader(ARRAYS, "test", 4, order="stored", epochs=2)
    assert len(stored) == 5 and sum(batch["weight"].sum() for batch in stored.batches()) == 20
    endless = BatchReader(ARRAYS, "train", 4)
    assert endless.end(10**9) == 10**9 and endless.end(None) > 2**61


def test_a_replica_knows_the_epochs_of_its_own_rows() -> None:
    """A batch may cross epochs: 12 rows of 10 examples, of which the second half is in two."""
    whole = BatchReader(ARRAYS, "train", 12).epochs_of(0, 2)
    assert whole.tolist() == [[0] * 10 + [1] * 2, [1] * 8 + [2] * 4]
    halves = [BatchReader(ARRAYS, "train", 12, replica=replica, replicas=2).epochs_of(0, 2) for replica in (0, 1)]
    assert np.concatenate(halves, axis=1).tolist() == whole.tolist()


def test_so_many_steps_are_read_at_once_as_fit_into_the_cache() -> None:
    wide = {"x": np.zeros((2, CALL_BYTES // 8), np.float32)}
    assert BatchReader(wide, "train", 1).steps_per_call == 2
    assert BatchReader(wide, "train", 4).steps_per_call == 1, "one at least"
    assert BatchReader(wide, "train", 4, replicas=4).steps_per_call == 2, "of the replica's share"
    assert BatchReader(ARRAYS, "train", 4).steps_per_call == CALL_STEPS


def test_orders_are_made_of_the_bytes_and_the_lengths_of_an_example() -> None:
    assert rows_per_block(BLOCK_BYTES // 4) == 4 and rows_per_block(2 * BLOCK_BYTES) == 1 == rows_per_block(BLOCK_BYTES)
    assert rows_per_block(0) == BLOCK_BYTES
    features = {"a": {"shape": [3, 2], "dtype": "float32"}, "b": {"shape": [], "dtype": "uint16"}}
    assert row_bytes(features) == 26
    large = Ordered(4, BLOCK_BYTES // 2, lambda: np.arange(8))
    positions = np.arange(8)
    blocks, shuffled = (ORDERS[name](large)(positions, 8, 3, 0, "train").tolist() for name in ("blocks", "shuffled"))
    assert sorted(blocks) == sorted(shuffled) == positions.tolist() and blocks != shuffled
    assert ORDERS["stored"](large)(positions, 8, 3, 5, "train") is positions
    with pytest.raises(Refused, match="needs the length of each example"):
        BatchReader(ARRAYS, "train", 4, order="lengths")


def snapshot_at(folder: Path, **changed: Any) -> Path:
    """A snapshot folder of one array in two files."""
    (folder / "train").mkdir(parents=True)
    rows = []
    for number, values in enumerate((np.arange(3), np.arange(3, 5))):
        path = f"train/x-{number:05d}-of-00002.npy"
        np.save(folder / path, values)
        rows.append({"path": path, "bytes": (folder / path).stat().st_size})
    manifest = {
        "kind": "snapshot",
        "format": 1,
        "features": {"x": {"dtype": "int64", "shape": []}},
        "counts": {"train": 5},
        "files": rows[::-1],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | changed))
    return folder


def test_files_of_a_snapshot_are_read_in_order_and_checked_by_their_size(tmp_path: Path) -> None:
    reader = SnapshotReader(snapshot_at(tmp_path / "whole"))
    assert np.asarray(reader.arrays("train")["x"]).tolist() == [0, 1, 2, 3, 4], "whatever the order in the manifest"
    assert reader.arrays("train")["x"] is reader.arrays("train")["x"], "opened once"
    with pytest.raises(Refused, match="this snapshot has train"):
        reader.arrays("test")
    with pytest.raises(Refused, match="needs texts as tokens or ids of words"):
        reader.lengths("train")
    cut = snapshot_at(tmp_path / "cut") / "train/x-00001-of-00002.npy"
    cut.write_bytes(cut.read_bytes() + b"x")
    with pytest.raises(Failed, match="must have 144 bytes"):
        SnapshotReader(tmp_path / "cut")
    cut.unlink()
    with pytest.raises(Failed, match="missing; must have 144 bytes"):
        SnapshotReader(tmp_path / "cut")


def test_an_order_by_length_is_by_the_lengths_of_its_own_split(tmp_path: Path) -> None:
    """Validation has other lengths than train, in another order."""
    lengths = {"train": [1, 9, 1, 9, 1], "validation": [9, 9, 1, 1, 1, 5]}
    files = []
    for split, values in lengths.items():
        (tmp_path / split).mkdir()
        for name, array in (("x", np.arange(len(values))), ("lengths", np.array(values, np.int32))):
            path = f"{split}/{name}-00000-of-00001.npy"
            np.save(tmp_path / path, array)
            files.append({"path": path, "bytes": (tmp_path / path).stat().st_size})
    features, counts = {"x": {"dtype": "int64", "shape": []}}, {split: len(each) for split, each in lengths.items()}
    manifest = {"kind": "snapshot", "format": 1, "features": features, "counts": counts, "files": files}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    reader = SnapshotReader(tmp_path).reader("validation", 2, order="lengths", epochs=1)
    found = [sorted(lengths["validation"][row] for row in reader[number]["row"]) for number in range(3)]
    assert sorted(found) == [[1, 1], [1, 5], [9, 9]]


def test_moments_of_parts_are_those_of_all_values_without_the_missing() -> None:
    draws = np.random.default_rng(1).normal(1e4, 3, (50, 2, 3))
    draws[::7, 0, 1] = np.nan
    parts, one = Moments((2, 3)), Moments((2, 3))
    one.add(draws)
    for start in range(0, 50, 9):
        part = Moments((2, 3))
        part.add(draws[start : start + 9])
        parts.merge(part)
    for moments in (parts, one):
        np.testing.assert_allclose(moments.mean, np.nanmean(draws, axis=0), rtol=1e-12)
        np.testing.assert_allclose(moments.variance, np.nanvar(draws, axis=0), rtol=1e-9)
    np.testing.assert_array_equal(one.count, (~np.isnan(draws)).sum(axis=0))
    last = one.of_last_axis()
    np.testing.assert_allclose(last.mean, np.nanmean(draws, axis=(0, 1)), rtol=1e-12)
    np.testing.assert_allclose(last.variance, np.nanvar(draws, axis=(0, 1)), rtol=1e-9)
    filled = one.filled(np.full((2, 3), 7.0), 50 - one.count)
    np.testing.assert_allclose(filled.mean, np.where(np.isnan(draws), 7.0, draws).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(filled.variance, np.where(np.isnan(draws), 7.0, draws).var(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(one.count, (~np.isnan(draws)).sum(axis=0), "they stay as they were")
    assert Moments().variance == 1.0 and Moments().as_json() == {"mean": [0.0], "variance": [1.0]}


def test_a_mixed_batch_has_the_other_label_and_a_float_target() -> None:
    arrays: dict[str, Any] = {
        "sound": np.arange(24, dtype=np.float32).reshape(6, 2, 2),
        "label": np.arange(6),
        "target": np.arange(12).reshape(6, 2),
    }
    features = {
        "sound": {"dtype": "float32", "shape": [2, 2]},
        "label": {"dtype": "int64", "shape": []},
        "target": {"dtype": "int64", "shape": [2]},
    }
    configs: list[AugmentConfig] = [Mixup()]
    augmenter = Augmenter(configs, features, arrays, 5)
    layout = {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}
    after = augmenter.layout(layout)
    rows = np.arange(6)[None]
    batch = augmenter(
        {name: array[None] for name, array in arrays.items()} | {"row": rows}, np.zeros((1, 6), np.uint64)
    )
    assert {name: (batch[name].shape[2:], batch[name].dtype) for name in after} == after
    share = batch[MIXED][0][:, None]
    other = batch[OTHER_LABEL][0]
    assert sorted(other) == list(range(6)) and (share <= 0.5).all() and share.any()
    np.testing.assert_allclose(
        batch["target"][0], arrays["target"] * (1 - share) + arrays["target"][other] * share, rtol=1e-5
    )
    later = augmenter(
        {name: array[None] for name, array in arrays.items()} | {"row": rows}, np.full((1, 6), 1, np.uint64)
    )
    assert (later[OTHER_LABEL] != batch[OTHER_LABEL]).any(), "another partner in each epoch"
    assert input_kinds(features) == {"sound": "sound"}, "labels and targets are no inputs"
    assert Augmenter([], features, arrays, 5).layout(layout) == layout
