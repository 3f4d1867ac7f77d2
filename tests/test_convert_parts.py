"""Parts of a conversion by themselves: spills, copies, keys, shared inputs, splits, budgets; and kinds of values."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from tasks.errors import Failed, Refused
from tasks.processes.workbench import Workbench
from tasks.reader.values import NO_TIME
from tasks.records import conversion, duplicates, merging
from tasks.records import duplicates as parts_of_runs
from tasks.records import reading as columns
from tasks.records.assignment import Assignment
from tasks.records.column_types import column_type, merge_by_key
from tasks.records.column_types.media import NotAnImage, pixel_sums
from tasks.records.config import RecordsConfig
from tasks.records.merging import Merger, Regrouper, Shard, Spills
from tasks.records.near import Compared, search
from tasks.records.near.search import Near
from tasks.records.profile import profile
from tasks.records.reading import RecordsReader, missing_of, read_manifest
from tasks.records.rules import Rules
from tasks.records.sorting import CONTENT, PLACE, ROW, SPLIT, TIED, Sorter, Spill, hash_of, hashed, write_spill
from tasks.sources import Bad, Partition, Rows
from tasks.sources.features import KEY, KEY_FEATURE, Feature, of_role
from tasks.sources.hashes import SPACE, digests
from tasks.sources.hashes import places as split_of_keys
from tasks.sources.kinds.tables import JsonlSource
from tasks.sources.record_files import RecordFile, decode
from tests.support.benches import RowsSource
from tests.support.raw_data import png

NAMES = ["test", "train"]
FEATURES = {
    KEY: KEY_FEATURE,
    "text": Feature("text", "string"),
    "other": Feature("text", "string"),
    "label": Feature("label", "int64", role="label", classes=("a", "b")),
}
TOP = SPACE - 1


def spill_of(bench: Workbench, number: int, rows: list[dict[str, Any]]) -> Spill:
    """Write a spill of rows given by `key`, `place`, `split`, and more; other columns have defaults."""
    rows = sorted(rows, key=lambda row: (row["split"], row["place"]))
    columns = {
        KEY: pa.array([row["key"] for row in rows], pa.large_string()),
        "text": pa.array([row.get("text", row["key"]) for row in rows], pa.large_string()),
        "other": pa.array([row["key"] for row in rows], pa.large_string()),
        "label": pa.array([row.get("label", "a") for row in rows]),
        PLACE: pa.array([row["place"] for row in rows], pa.uint64()),
        SPLIT: pa.array([row["split"] for row in rows], pa.int64()),
        CONTENT[0]: pa.array([row.get("content", (n + 1, 0))[0] for n, row in enumerate(rows)], pa.uint64()),
        CONTENT[1]: pa.array([row.get("content", (0, n + 1))[1] for n, row in enumerate(rows)], pa.uint64()),
        ROW: pa.array([row.get("own", n) for n, row in enumerate(rows)], pa.uint64()),
        TIED: pa.array([row.get("tied", True) for row in rows]),
        hash_of("text"): pa.array([row.get("hash", 100 + n) for n, row in enumerate(rows)], pa.uint64()),
        hash_of("other"): pa.array([9000 + 100 * number + n for n in range(len(rows))], pa.uint64()),
    }
    spill = Spill(number)
    spill.splits = np.bincount([row["split"] for row in rows], minlength=2).tolist()
    table = pa.table(columns)
    spill.read, spill.bytes = len(rows), table.nbytes
    write_spill(bench.staging, table, spill, "plan")
    return spill


def spills_of(bench: Workbench, *rows: list[dict[str, Any]]) -> Spills:
    return Spills(bench.staging, [spill_of(bench, number, each) for number, each in enumerate(rows)], NAMES)


def row(key: str, place: int = 5, split: int = 1, **more: Any) -> dict[str, Any]:
    return {"key": key, "place": place, "split": split, **more}


def keys(table: pa.Table) -> list[str]:
    return table[KEY].to_pylist()


def test_rows_of_a_run_are_found_by_split_and_place_at_both_ends(bench: Workbench) -> None:
    spills = spills_of(bench, [row("a", 0, 0), row("b", TOP, 0), row("c", 7, 1), row("d", 9, 1), row("e", TOP, 1)])
    assert spills.counts == {"test": 2, "train": 3} and spills.total == 5
    assert keys(spills.slice(0, 0, 0, SPACE)) == ["a", "b"] and keys(spills.slice(0, 1, 0, SPACE)) == ["c", "d", "e"]
    assert keys(spills.slice(0, 1, 7, 9)) == ["c"] and keys(spills.slice(0, 1, 8, SPACE)) == ["d", "e"]
    assert keys(spills.slice(0, 1, 10, TOP)) == [] and keys(spills.slice(0, 0, TOP, SPACE)) == ["b"]
    assert spills.split(0, 1) == 0 and spills.split(0, 2) == 1


def test_rows_of_a_split_are_those_of_all_runs(bench: Workbench) -> None:
    spills = spills_of(
        bench, [row("a"), row("b", split=0)], [], [row("c", 6), row("d", 7), row("e", split=0), row("f", 8)]
    )
    assert (spills.counts, spills.total, spills.numbers) == ({"test": 2, "train": 4}, 6, [0, 2])
    assert [spills.split(2, number) for number in range(4)] == [0, 1, 1, 1]


def merged(bench: Workbench, spills: Spills, dropped: dict[int, Any], shards: int = 2) -> list[list[str]]:
    """The keys of train's shards, in order."""
    merger = Merger(bench.staging, "rows", FEATURES, spills, dropped)
    made = []
    for number in range(shards):
        shard = Shard("train", number, shards)
        tables = list(merger._ranges(shard))
        made.append([key for table in tables for key in keys(table)])
        assert merger._count(shard) == len(made[-1]) == merger.write(shard).examples
    return made


def test_a_shard_has_the_rows_of_all_runs_by_place_without_those_that_are_dropped(bench: Workbench) -> None:
    half = SPACE // 2
    spills = spills_of(
        bench,
        [row("x", 3, 0), row("a", 1), row("d", 40), row("z", TOP)],
        [row("y", 1, 0), row("w", 2, 0), row("b", 2), row("c", 30), row("e", half), row("f", half + 5)],
    )
    assert merged(bench, spills, {}) == [["a", "b", "c", "d"], ["e", "f", "z"]]
    dropped = {0: np.array([False, True, False, False]), 1: np.array([True, False, False, True, False, True])}
    assert merged(bench, spills, dropped) == [["b", "d"], ["e", "z"]], "as an earlier attempt wrote other rows"
    assert merged(bench, spills, {}, shards=1) == [["a", "b", "c", "d", "e", "f", "z"]], "places are unsigned"


def test_a_shard_of_many_ranges_has_the_offsets_of_them_all(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "RANGE_BYTES", 300)
    rows = [row(f"{number:02d}", number * SPACE // 20) for number in range(20)]
    merger, shard = Merger(bench.staging, "rows", FEATURES, spills_of(bench, rows), {}), Shard("train", 0, 1)
    assert max(table.num_rows for table in merger._ranges(shard)) < 10, "a few are in memory together"
    written = merger.write(shard)
    file = bench.staging.root / shard.file("rows")
    kept = RecordFile(file, np.load(bench.staging.root / f"index/{file.name}.npy"))
    assert [decode(payload)[KEY] for payload in kept] == [[f"{number:02d}".encode()] for number in range(20)]
    assert (written.examples, written.bytes) == (20, file.stat().st_size)


def test_an_index_of_other_rows_is_written_anew(bench: Workbench) -> None:
    """A kill may leave the shard of these rows beside the index of others."""
    merger = Merger(bench.staging, "rows", FEATURES, spills_of(bench, [row("a"), row("bb", 6)]), {})
    shard = Shard("train", 0, 1)
    merger.write(shard)
    index = f"index/{shard.file('rows')}.npy"
    right = (bench.staging.root / index).read_bytes()
    with bench.staging.piece(index, plan="another") as piece:
        piece.path.write_bytes(b"of other rows")
    merger.write(shard)
    assert (bench.staging.root / index).read_bytes() == right


def test_what_is_measured_is_that_of_features_whose_names_have_dots() -> None:
    values = pa.chunked_array([pa.array([1, 2])])
    found = merging._measured(pa.table({".sums.user.photo": values, ".sums.x": values, PLACE: values, "a.b": values}))
    assert {name: list(of) for name, of in found.items()} == {"user.photo": ["sums"], "x": ["sums"]}


def test_a_shard_is_written_anew_where_rows_drops_or_features_are_others(bench: Workbench) -> None:
    spills = spills_of(bench, [row("a"), row("b", 6)], [row("c", 7)])

    def plan(features: dict[str, Feature] = FEATURES, dropped: Any = None, given: Spills = spills) -> str:
        return Merger(bench.staging, "rows", features, given, dropped or {})._plan

    other = {**FEATURES, "label": Feature("label", "int64", role="label", classes=("b", "a"))}
    first, second = ({0: np.array(mask)} for mask in ([True, False], [False, True]))
    of_spills = [plan(), plan(other), plan(dropped=first), plan(dropped=second)]
    spill_of(bench, 1, [row("changed", 7)])
    of_spills.append(plan(given=Spills(bench.staging, spills.notes, NAMES)))
    assert len(set(of_spills)) == 5 and plan(dropped=first) == plan(dropped={0: np.array([True, False])})


def read_from(bench: Workbench, rows: list[dict[str, Any]], shards: int = 2) -> RecordsReader:
    """The reader of records of these rows."""
    merger = Merger(bench.staging, "rows", FEATURES, spills_of(bench, rows), {})
    for split in NAMES:
        for number in range(shards):
            merger.write(Shard(split, number, shards))
    manifest = {"kind": "records", "features": {name: each.as_json() for name, each in FEATURES.items()}}
    (bench.staging.root / "manifest.json").write_text(json.dumps(manifest))
    return RecordsReader(bench.staging.root)


NINE = [row(f"{number:02d}", number * SPACE // 9) for number in range(9)] + [row("tt", 0, 0)]


def test_records_are_found_by_their_number_in_a_split_whatever_shard_has_them(bench: Workbench) -> None:
    reader = read_from(bench, NINE)
    assert reader.counts == {"test": 1, "train": 9}
    assert [reader.key("train", number) for number in range(9)] == [f"{number:02d}" for number in range(9)]
    assert [example[KEY] for example in reader.iterate("train", 3, 6)] == [[b"03"], [b"04"], [b"05"]]
    assert len(list(reader.iterate("train", 4))) == 5
    assert reader.sizes("train", 3, 6).tolist() == [len(reader.raw("train", number)) + 16 for number in (3, 4, 5)]
    for number in (-1, 9):
        with pytest.raises(IndexError):
            reader.raw("train", number)
    assert reader.single_input("text") is None, "there are two"
    with pytest.raises(Refused, match="must be a snapshot"):
        read_manifest(reader.path, "snapshot")


def test_rows_are_grouped_up_to_so_many_and_so_many_bytes_but_one_at_least(bench: Workbench) -> None:
    reader = read_from(bench, NINE)
    [size] = set(reader.sizes("train").tolist())
    assert reader.groups("train", 0, 9, 4, 99 * size) == [(0, 4), (4, 8), (8, 9)]
    assert reader.groups("train", 3, 8, 4, 99 * size) == [(3, 7), (7, 8)], "none beyond the end that is asked for"
    assert reader.groups("train", 0, 5, 99, 2 * size) == [(0, 2), (2, 4), (4, 5)]
    assert reader.groups("train", 0, 3, 99, 2 * size - 1) == [(0, 1), (1, 2), (2, 3)]
    assert reader.groups("train", 0, 2, 99, 1) == [(0, 1), (1, 2)]


def test_records_without_one_of_their_shards_are_not_read(bench: Workbench) -> None:
    reader = read_from(bench, NINE)
    (reader.path / "index/rows-train.tfrecord-00001-of-00002.npy").unlink()
    with pytest.raises(Failed, match="1 of 2 shards of train"):
        RecordsReader(reader.path)


def test_copies_are_those_whose_whole_content_is_the_same_wherever_they_are(bench: Workbench) -> None:
    spills = spills_of(
        bench,
        [row("b", content=(5, 5)), row("x", 6, content=(5, 6), label="b"), row("t", 1, 0, content=(8, 8))],
        [row("a", content=(5, 5), label="b"), row("c", 7, content=(5, 5)), row("u", 1, 0, content=(8, 8))],
    )
    found = duplicates.find(spills, FEATURES, "drop", {})
    assert (found.contents, found.examples, found.across_splits, found.label_conflicts) == (2, 3, 0, 1)
    assert found.conflicts == [{"labels": ["b", "a", "a"], "keys": ["a", "b", "c"]}]
    left_out = {
        spills.value(spill, KEY, int(at)) for spill, mask in found.dropped.items() for at in np.flatnonzero(mask)
    }
    assert left_out == {"b", "c", "u"}, "all but the first by key"
    assert duplicates.find(spills, FEATURES, "group", {}).dropped == {}
    without = duplicates.find(spills, FEATURES, "drop", {1: np.array([True, True, True])})
    assert (without.contents, without.examples) == (0, 0), "rows that are left out for another reason are no copies"


def test_conflicts_are_of_labels_and_of_targets_and_the_first_by_key_are_named(bench: Workbench) -> None:
    pairs = [
        {**row(f"{99 - number:02d}{side}", 200 - 2 * number - (side == "b"), content=(number + 1, 0)), "label": side}
        for number in range(25)
        for side in "ab"
    ]
    spills, target = spills_of(bench, pairs), {**FEATURES, "label": Feature("category", "string", role="target")}
    for features in (FEATURES, target):
        found = duplicates.find(spills, features, "group", {})
        assert found.label_conflicts == 25
        assert [conflict["keys"][0] for conflict in found.conflicts] == [f"{number}a" for number in range(75, 95)]


def test_a_content_in_several_splits_is_counted_once(bench: Workbench) -> None:
    same = [row(key, n, n % 2, content=(5, 5)) for n, key in enumerate("abcd")]
    found = duplicates.find(spills_of(bench, same), FEATURES, "keep", {})
    assert (found.contents, found.examples, found.across_splits) == (1, 3, 1)


def test_a_key_is_twice_where_two_rows_of_a_place_have_it(bench: Workbench) -> None:
    """Two keys of one hash are two keys."""
    duplicates.check_keys(spills_of(bench, [row("a", 5), row("b", 5)], [row("c", 5)]))
    with pytest.raises(Failed, match="source.key: b; occurs twice"):
        duplicates.check_keys(spills_of(bench, [row("a", 5), row("b", 5)], [row("b", 5)]))


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 1 << 20])
def test_every_row_is_in_one_part_of_the_hash_space(
    rows_at_once: int, bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the first and the last hash, and those at a border."""
    monkeypatch.setattr(parts_of_runs, "PART", rows_at_once)
    hashes = [0, 1, SPACE // 2 - 1, SPACE // 2, SPACE // 3, 2 * SPACE // 3, TOP - 1, TOP]
    rows = [row(str(value), 5 + n, hash=value) for n, value in enumerate(hashes)]
    spills = spills_of(bench, rows[:3], rows[3:])
    tables = list(parts_of_runs.parts(spills, (hash_of("text"), PLACE), {}))
    assert sorted(int(value) for table in tables for value in table[hash_of("text")]) == sorted(hashes)
    assert len(tables) == -(-len(rows) // rows_at_once)
    for table in tables:
        for spill, at, place in zip(table["spill"], table["row"], table[PLACE], strict=True):
            assert spills.value(int(spill), PLACE, int(at)) == place
    left = list(parts_of_runs.parts(spills, (PLACE,), {1: np.array([True] * 4 + [False])}))
    assert sum(len(table[PLACE]) for table in left) == 4


def test_neighbours_that_are_equal_are_groups() -> None:
    values = np.array([1, 1, 2, 3, 3, 3])
    order = np.array([10, 11, 12, 13, 14, 15])
    found = [group.tolist() for group in parts_of_runs.neighbours(values[1:] == values[:-1], order)]
    assert found == [[10, 11], [13, 14, 15]]
    assert list(parts_of_runs.neighbours(np.zeros(0, bool), order[:1])) == []


def test_an_input_in_train_and_in_test_is_counted_by_its_examples_of_test(bench: Workbench) -> None:
    """A missing input, which has the hash 0, is none that they share."""
    spills = spills_of(
        bench,
        [row("a1", 1, 1, hash=7), row("a2", 2, 1, hash=7), row("m1", 3, 1, hash=0), row("n", 4, 1, hash=11)],
        [row("t1", 1, 0, hash=7), row("t0", 2, 0, hash=7), row("m2", 3, 0, hash=0), row("o", 4, 0, hash=12)],
    )
    assert duplicates.find_shared(spills, FEATURES, {}) == {
        "text": {"contents": 1, "examples": 2, "keys": [["a1", "t0"]]}
    }
    in_words = list(duplicates.suspicions(duplicates.find_shared(spills, FEATURES, {}), FEATURES))
    assert in_words == [
        "text: 1 text is in train and, with other values beside, in 2 examples of test (a1 and t0); a score on test "
        "may be too high"
    ]
    assert duplicates.find_shared(spills, FEATURES, {1: np.array([True, True, False, False])}) == {}
    alone = {name: feature for name, feature in FEATURES.items() if name != "other"}
    assert duplicates.find_shared(spills, alone, {}) == {}, "of one input that is the content"


def test_contents_of_files_and_texts_are_compared_column_by_column_where_there_are_several() -> None:
    kinds = ("text", "words", "image", "audio", "number", "category", "time")
    features = {f"a {kind}": Feature(kind, "string") for kind in kinds}  # type: ignore[arg-type]
    assert sorted(hashed(features)) == ["a audio", "a image", "a text", "a words"]
    assert hashed({"a text": features["a text"], "b": Feature("text", "string", role="group")}) == []
    assert hashed({"a text": features["a text"], "b": Feature("number", "float32")}) == ["a text"]


def moved_to_test(bench: Workbench, spills: Spills, rows: list[int]) -> Spill:
    """Move rows of the first spill, as its file has them now."""
    spills = Spills(bench.staging, spills.notes, NAMES)
    spills.move(np.zeros(len(rows), np.int32), np.array(rows, np.int32), np.zeros(len(rows), np.int64))
    return Regrouper(bench.staging, spills).regroup(0)


def test_rows_that_move_keep_their_order_in_their_new_split(bench: Workbench) -> None:
    spills = spills_of(bench, [row("a", 5, 0), row("b", 1, 1), row("c", 4, 1), row("d", 9, 1)])
    note = moved_to_test(bench, spills, [1, 2])
    moved = Spills(bench.staging, [note], NAMES)
    assert moved.counts == {"test": 3, "train": 1} and note.moved and note.file != spills.notes[0].file
    assert keys(moved.slice(0, 0, 0, SPACE)) == ["b", "c", "a"] and keys(moved.slice(0, 1, 0, SPACE)) == ["d"]
    again = moved_to_test(bench, spills, [3])
    assert again.splits == [2, 2], "what an earlier attempt moved is not used where others move"
    all_of_train = moved_to_test(bench, spills, [1, 2, 3])
    assert all_of_train.splits == [4, 0], "a split that loses all of its rows is still one"
    spill_of(bench, 0, [row("A", 5, 0), row("B", 1, 1), row("C", 4, 1), row("D", 9, 1)])
    note = moved_to_test(bench, spills, [1, 2, 3])
    assert keys(Spills(bench.staging, [note], NAMES).slice(0, 0, 0, SPACE)) == ["B", "C", "A", "D"], "of other rows"


def test_repeated_inputs_of_several_contents_are_found_but_not_missing_ones(bench: Workbench) -> None:
    spills = spills_of(
        bench,
        [row("a", 1, hash=7, content=(1, 1)), row("b", 2, hash=7, content=(2, 2)), row("c", 3, hash=0, content=(3, 3))],
        [row("d", 1, hash=0, content=(4, 4)), row("e", 2, hash=8, content=(5, 5)), row("f", 3, hash=8, content=(5, 5))],
    )
    assert search._repeated(spills, hash_of("text")) == {7}


class Alike(Compared):
    """Rows of the same text and other contents alone: nothing is compared."""

    bands: list[str] = []


@pytest.mark.parametrize("handling", ["report", "drop", "group"])
def test_near_duplicates_are_dropped_and_moved_in_the_run_that_each_is_in(bench: Workbench, handling: Any) -> None:
    """Of two spills of unequal sizes; the first by key is in one, then in the other, so is the smallest hash."""
    spills = spills_of(
        bench,
        [
            row("b", 1, hash=7, content=(1, 1), own=2),
            row("w", 2, hash=6, content=(7, 7)),
            row("x", 3, hash=8, content=(3, 3), label="b", own=2),
        ],
        [
            row("c", 3, split=0, hash=7, content=(2, 2), own=3),
            row("a", 1, split=1, hash=8, content=(4, 4), own=3),
            row("d", 2, split=0, hash=7, content=(1, 1), own=4),
            row("y", 5, split=1, hash=9, content=(5, 5)),
            row("z", 6, split=0, hash=8, content=(6, 6), own=1),
        ],
    )
    near = search.find(spills, Alike("text", "text", 0.8, handling), FEATURES, lambda done, total: None)
    assert (near.groups, near.examples, near.across_splits) == (2, 3, 2)
    assert [pair["keys"] for pair in near.pairs] == [["a", "z"], ["b", "c"]], "a pair of two splits, where there is one"
    assert near.label_conflicts == 1 and near.conflicts == [{"labels": ["a", "b"], "keys": ["a", "x"]}]
    dropped = {spill: mask.tolist() for spill, mask in near.dropped.items()}
    others = {1: [False, True, True, False, False], 0: [False, False, True]}  # in order of split and place
    assert dropped == (others if handling == "drop" else {})
    splits = {spill: spills.moved[spill].tolist() for spill in sorted(spills.moved)}
    assert splits == ({0: [1, 1, 0], 1: [1, 1, 0, 0, 1]} if handling == "group" else {})


def test_rows_that_either_search_drops_are_dropped_once() -> None:
    one = {0: np.array([True, False, False]), 2: np.array([True])}
    other = {0: np.array([True, True, False]), 1: np.array([False, True])}
    both = conversion._together(one, other)
    assert {spill: mask.tolist() for spill, mask in both.items()} == {
        0: [True, True, False],
        1: [False, True],
        2: [True],
    }


def test_counts_add_up_to_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = [
        Spill(0, read=10, quarantined=2, filtered=1, skipped=1, bad=[["k", "r", "p"]], left_out=[["b", "r", "p"]]),
        Spill(1, read=20, left_out=[["a", "r", "p"]], skipped=1),
    ]
    copies = duplicates.Copies("drop", contents=1, examples=3, dropped={0: np.array([True, False, True])})
    near = Near("text", 0.8, "drop", examples=2, dropped={1: np.array([True, True, False])}, label_conflicts=4)
    counts = conversion._counts(notes, copies, near)
    assert counts == {
        "read": 30,
        "quarantined": 2,
        "filtered": 1 + 2 + 2 + 2,
        "examples": 30 - 2 - 7,
        "skipped": 2,
        "duplicates": 3,
        "near_duplicates": 2,
    }
    statistics = conversion._statistics(notes, counts, copies, near)
    assert statistics["quarantined"] == [["k", "r", "p"]]
    assert statistics["skipped"] == [["a", "r", "p"], ["b", "r", "p"]]
    assert statistics["metrics"]["convert/near_label_conflicts"] == 4 and statistics["metrics"]["convert/read"] == 30
    assert statistics["metrics"]["convert/label_conflicts"] == 0, "copies that agree are looked for too"
    assert (
        "convert/label_conflicts"
        not in conversion._statistics(notes, counts, duplicates.Copies("drop"), near)["metrics"]
    )
    monkeypatch.setattr(conversion, "NAMED", 1)
    many = [*notes, Spill(2, bad=[["a", "r", "p"], ["z", "r", "p"]])]
    named = conversion._statistics(many, counts, copies, near)
    assert (named["quarantined"], named["skipped"]) == ([["a", "r", "p"]], [["a", "r", "p"]])
    plain = conversion._counts(notes, duplicates.Copies("group"), None)
    assert plain["filtered"] == 3 and "near_duplicates" not in plain


@pytest.mark.parametrize(("budget", "bad", "fails"), [(2, 2, False), (2, 3, True), (0.1, 1, False), (0.1, 2, True)])
def test_a_budget_is_a_number_or_a_share_of_what_was_read_rounded_down(budget: Any, bad: int, fails: bool) -> None:
    """Of 19 rows a tenth is 1."""
    notes = [Spill(0, read=19, quarantined=bad, bad=[["k", "broken", "k"]] * bad)]
    if not fails:
        conversion._refuse_bad(notes, budget, 0)
        return
    with pytest.raises(Failed, match=f"{bad} bad: k .broken.*, and 4 partitions of the source were not looked at"):
        conversion._refuse_bad(notes, budget, 4)


def test_classes_of_the_data_are_sorted_whatever_the_order_of_pieces_and_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    label = {"label": Feature("label", "int64", role="label")}
    counted: list[dict[str, int]] = [{"owl": 1, "cat": 2}, {"dog": 1, "cat": 1}]
    notes = [Spill(number, classes={"label": each, "other": {"no": 1}}) for number, each in enumerate(counted)]
    assert conversion._with_classes(label, notes)["label"].classes == ("cat", "dog", "owl")
    assert conversion._with_classes(FEATURES, notes)["label"].classes == ("a", "b"), "those that are named stay"
    monkeypatch.setattr(conversion, "MAX_CLASSES", 2)
    with pytest.raises(Failed, match="3 classes; a label has at most 2"):
        conversion._with_classes(label, notes)
    monkeypatch.setattr(conversion, "MAX_CLASSES", 3)
    assert len(conversion._with_classes(label, notes)["label"].classes or ()) == 3


def test_an_empty_split_names_the_setting_that_would_fill_it() -> None:
    times: Any = {"validation": "2024-01-01", "test": "2024-02-01"}
    of_time, official = RecordsConfig(splits="time", split_times=times), RecordsConfig(splits="official")
    shares = RecordsConfig(splits={"train": 0.5, "validation": 0.25, "test": 0.25})
    for config, remedy in ((of_time, "records.split_times"), (official, "records.official"), (shares, "now 0.25")):
        conversion._refuse_empty(config, {"train": 1, "validation": 1, "test": 1}, 0)
        with pytest.raises(Failed, match="test") as failed:
            conversion._refuse_empty(config, {"train": 1, "validation": 1, "test": 0}, 0)
        assert remedy in failed.value.remedy


def test_runs_are_those_of_a_content_its_features_its_pieces_and_what_decides_a_row() -> None:
    rows = {f"k{number}": (png(number), number % 2) for number in range(3)}
    source, config = RowsSource(rows), RecordsConfig()
    pieces = source.partitions()
    halved = [Partition(f"{pieces[0].name}{half}", 1, ()) for half in range(2)]
    listed = source.fingerprint()
    plans = [
        conversion._digest(source, config, listed, pieces),
        conversion._digest(RowsSource(rows, classes=3), config, listed, pieces),
        conversion._digest(source, RecordsConfig(split_seed=1), listed, pieces),
        conversion._digest(source, config, listed[1:], pieces),
        conversion._digest(source, config, listed, halved),
    ]
    assert len(set(plans)) == 5
    assert conversion._digest(source, RecordsConfig(bad_budget=3), listed, pieces) == plans[0]


def test_a_source_that_changed_names_what_came_went_or_changed() -> None:
    before = [("a", "1"), ("b", "2"), ("c", "3")]
    conversion._refuse_changed(before, list(before))
    for after, named in (([("a", "1"), ("b", "9"), ("c", "3")], "b"), (before[:2], "c"), ([("A", "1"), *before], "A")):
        with pytest.raises(Failed) as failed:
            conversion._refuse_changed(before, after)
        assert failed.value.field == named and "with it 0 others" in failed.value.saw


def test_splits_by_time_begin_at_their_times() -> None:
    times = {"validation": "2024-03-01", "test": "2024-06-01T12:00:00+02:00"}
    config = RecordsConfig(splits="time", split_times=times)  # type: ignore[arg-type]
    assignment = Assignment(config, {"when": Feature("time", "int64", role="time")}, ())
    march, june = datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 6, 1, 10, tzinfo=UTC)
    moments = [int(each.timestamp()) * 10**6 + more for each in (march, june) for more in (-1, 0, 1)]
    zeros = np.zeros(6, np.uint64)
    numbers, _ = assignment.numbers(pa.table({"when": moments}), {}, zeros, None, {})
    found = [assignment.names[number] for number in numbers]
    assert found == ["train", "validation", "validation", "validation", "test", "test"]


def by_name(given: list[str], known: tuple[str, ...], **config: Any) -> tuple[list[str], dict[int, str]]:
    settings = RecordsConfig.model_validate({"splits": "official", **config})
    assignment = Assignment(settings, {}, known)
    hashes = np.arange(len(given), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bad: dict[int, str] = {}
    numbers, _ = assignment.numbers(pa.table({"x": given}), {}, hashes, pa.array(given), bad)
    return [assignment.names[number] if number >= 0 else "-" for number in numbers], bad


def test_splits_of_the_source_are_known_by_their_usual_names_in_any_case() -> None:
    names = ["Train", "VAL", "dev", "testing", "training"]
    assert by_name(names, tuple(sorted(names))) == (["train", "validation", "validation", "test", "train"], {})


def test_names_that_are_given_are_taken_as_they_are_and_others_are_bad() -> None:
    given = {"official": {"train": ["A", "B"], "validation": ["v"], "test": ["T"]}}
    found, bad = by_name(["A", "T", "B", "v"], ("A", "B", "T", "v"), **given)
    assert found == ["train", "test", "train", "validation"] and not bad
    with pytest.raises(Refused, match="becomes one of train, validation, test"):
        by_name(["A"], ("A", "a"), **given)


def test_validation_is_carved_out_of_train_alone_where_the_source_has_none() -> None:
    found, _ = by_name(["train"] * 400 + ["test"] * 100, ("test", "train"), validation_share=0.25)
    assert set(found[400:]) == {"test"} and 70 < found[:400].count("validation") < 130
    assert set(found[:400]) == {"train", "validation"}
    other, _ = by_name(["train"] * 400, ("test", "train"), validation_share=0.25, split_seed=1)
    assert other != found[:400], "another seed, another validation"
    whole, _ = by_name(["train"] * 400 + ["dev"], ("dev", "train"))
    assert set(whole[:400]) == {"train"} and whole[400] == "validation"


def test_conditions_see_missing_values_and_name_the_rows_of_the_whole_batch(tmp_path: Any) -> None:
    features = {"age": Feature("number", "float32"), "city": Feature("category", "string")}
    features |= {"when": Feature("time", "int64")}
    table = pa.table(
        {"age": pa.array([20.0, np.nan, 5.0, 40.0]), "city": ["Rome", "Oslo", "Rome", ""], "when": [0, 1, NO_TIME, 2]}
    )
    rows = np.array([0, 1, 3])

    def kept(condition: str) -> list[int]:
        return Rules(features, RecordsConfig(filter=condition)).keep(table, rows).tolist()

    assert kept("age IS NULL") == [1] and kept("age > 10") == [0, 3]
    assert kept("city IS NULL") == [3] and kept("city <> 'Rome'") == [1]
    assert kept("when IS NULL") == [] and Rules(features, RecordsConfig()).keep(table, rows) is rows
    rules = tmp_path / "rules.yaml"
    rules.write_text("columns: {age: {min: 10, nullable: false}}\n")
    checked = Rules(features, RecordsConfig(schema_file=str(rules)))
    bad: dict[int, str] = {0: "earlier", 3: "earlier"}
    checked.check(table, np.array([1, 2, 3]), bad)
    assert bad == {0: "earlier", 1: "age: missing", 2: "age: 5; must be at least 10", 3: "earlier"}


@pytest.mark.parametrize(
    ("bound", "first"), [("2024-06-01T00:00", 0), ("2024-06-01T00:00+02:00", -7200), ("2024-05-31T22:00-03:00", 3600)]
)
def test_a_bound_of_times_is_in_utc_or_at_its_own_offset(bound: str, first: int, tmp_path: Any) -> None:
    """`first`: seconds from the midnight at which the 1st of June began in UTC."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(f'columns: {{when: {{min: "{bound}"}}}}\n')
    midnight = 1_717_200_000
    times = [(midnight + first + second) * 10**6 for second in (-1, 0)]
    bad: dict[int, str] = {}
    checked = Rules({"when": Feature("time", "int64")}, RecordsConfig(schema_file=str(rules)))
    checked.check(pa.table({"when": times}), np.arange(2), bad)
    assert list(bad) == [0]


def cast(feature: Feature, values: Any) -> tuple[list[Any], dict[int, str]]:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    typed = column_type(feature).typed(array, 10**6)
    return typed.values.to_pylist(), dict(typed.bad)


def test_a_weight_is_above_0_and_a_target_is_there() -> None:
    weight, target = (Feature("number", "float32", role=role) for role in ("weight", "target"))  # type: ignore[arg-type]
    _, bad = cast(weight, [1.0, 0.0, -2.0, None, 1e39])
    assert bad.keys() == {1, 2, 3, 4} and bad[1] == "0 is not above 0" and bad[3] == "missing"
    _, bad = cast(target, [1.0, None, -2.0])
    assert bad == {1: "missing"}


def test_an_array_of_another_size_or_with_a_text_is_bad_and_the_others_are_whole() -> None:
    feature = Feature("number", "float32", (2,))
    values, bad = cast(feature, pa.array([["1", "2"], ["3"], ["x", "4"], None, ["5", "6"]]))
    assert bad[1] == "1 values, not 2" and bad[2] == "'x' is not a number" and bad[3] == "0 values, not 2"
    assert values[0] == [1.0, 2.0] and values[4] == [5.0, 6.0]


def test_arrays_within_arrays_are_counted_whole_and_their_bad_rows_named() -> None:
    rows = [
        [["1", "2"], ["3", "4"]],
        [["5"]],
        [],
        [["6", "x"], ["7", "8"]],
        [["9", "1", "2"], ["3"]],
        [["1", "NA"], []],
    ]
    made = column_type(Feature("number", "float32", (2, 2))).typed(pa.array(rows))
    reasons = {1: "1 values, not 4", 2: "0 values, not 4", 3: "'x' is not a number", 5: "2 values, not 4"}
    assert made.bad == reasons
    values = made.values.to_pylist()
    assert (values[0], values[4]) == ([1, 2, 3, 4], [9, 1, 2, 3])


def test_sounds_are_counted_and_timed_by_their_rate() -> None:
    sound = Feature("audio", "string")
    measured = {"frames": pa.array([800, 0, 1600, 300, 100]), "rate": pa.array([8000, 0, 8000, 100, 8000])}
    values = pa.array([b"a", b"", b"b", b"c", b"d"], pa.large_binary())
    state = column_type(sound).state(values, measured)
    assert state["rates"] == {"100": {"sounds": 1, "frames": 300}, "8000": {"sounds": 3, "frames": 2500}}
    shown = column_type(sound).summary(state)
    assert shown["rates"]["8000"] == {"sounds": 3, "seconds": 2500 / 8000} and shown["missing"] == 1


def arrays_of(*rows: Any) -> pa.Array:
    values = np.array(rows, np.float32).reshape(len(rows), -1)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


NAN = float("nan")
LACKING: dict[str, tuple[Feature, pa.Array, list[int]]] = {
    "number": (Feature("number", "float32"), pa.array([1.0, NAN, 0.0, NAN], pa.float32()), [1, 3]),
    "number[1]": (Feature("number", "float32", (1,)), arrays_of([1.0], [NAN], [0.0]), [1]),
    "number[3]": (
        Feature("number", "float32", (3,)),
        arrays_of([1, 2, 3], [NAN, 2, 3], [1, 2, NAN], [NAN, NAN, NAN], [0, 0, 0]),
        [1, 2, 3],
    ),
    "number[2, 2]": (
        Feature("number", "float32", (2, 2)),
        arrays_of([[1, 2], [3, 4]], [[1, 2], [3, NAN]], [[NAN, NAN], [3, 4]]),
        [1, 2],
    ),
    "time": (Feature("time", "int64"), pa.array([0, NO_TIME, -1, 1]), [1]),
    "category": (Feature("category", "string"), pa.array(["a", "", "0", " "], pa.string()), [1]),
    "text": (Feature("text", "string"), pa.array(["a", "", "0", " "], pa.large_string()), [1]),
    "words": (Feature("words", "string"), pa.array([["a"], [], [""], ["a", ""]], pa.list_(pa.string())), [1]),
    "image": (Feature("image", "uint8", (-1, -1, 1)), pa.array([b"a", b"", b"\0"], pa.large_binary()), [1]),
    "audio": (Feature("audio", "string"), pa.array([b"", b"a", b"\0"], pa.large_binary()), [0]),
}
"""Values of each type of column, and the rows that lack a value, or some of an array."""


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("name", LACKING)
def test_a_row_that_lacks_any_value_of_a_column_counts_as_missing(name: str, chunked: bool) -> None:
    """In the statistics of records, in what conditions see, and in those of a snapshot alike."""
    feature, column, rows = LACKING[name]
    assert np.flatnonzero(np.asarray(column_type(feature).missing(column))).tolist() == rows
    parts = pa.chunked_array([column.slice(0, 2), column.slice(2)]) if chunked else column
    assert missing_of(columns.typed(parts, feature), feature) == len(rows)
    if feature.kind not in ("image", "audio"):  # these are no files
        assert column_type(feature).summary(column_type(feature).state(column, {}))["missing"] == len(rows)


@pytest.mark.parametrize(
    ("feature", "column"),
    [
        (Feature("number", "float32"), pa.array([1.0, None], pa.float32())),
        (Feature("time", "int64"), pa.array([1, None], pa.int64())),
        (Feature("category", "string"), pa.array(["a", None], pa.string())),
        (Feature("text", "string"), pa.array(["a", None], pa.large_string())),
        (Feature("words", "string"), pa.array([["a"], None], pa.list_(pa.string()))),
        (Feature("image", "uint8", (-1, -1, 1)), pa.array([b"a", None], pa.large_binary())),
        (Feature("audio", "string"), pa.array([b"a", None], pa.large_binary())),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_a_null_of_a_column_is_a_missing_value(feature: Feature, column: pa.Array) -> None:
    assert missing_of(columns.typed(column, feature), feature) == 1


def test_the_deviation_of_numbers_is_that_of_all_of_them_and_merges() -> None:
    feature = Feature("number", "float32")
    kind = column_type(feature)
    given = np.array([1.0, 2.0, 4.0, np.nan, 9.0], np.float32)
    states = [kind.state(pa.array(part), {}) for part in (given[:2], given[2:4], given[4:], given[3:4])]
    whole = states[0]
    for state in states[1:]:
        whole = kind.merge(whole, state)
    summary = kind.summary(whole)
    assert (summary["count"], summary["missing"], summary["min"], summary["max"]) == (4, 2, 1.0, 9.0)
    assert (summary["mean"], summary["std"]) == pytest.approx((4.0, float(np.std([1, 2, 4, 9]))))


def test_states_merge_by_what_they_are() -> None:
    one = {"min": 3, "max": 5, "count": 2, "lists": [1, 2], "inner": {"min": 1, "sum": 4}}
    other = {"min": 2, "max": 9, "count": 3, "lists": [10, 20], "inner": {"min": 7, "sum": 1}, "more": 6}
    merged_state = {"min": 2, "max": 9, "count": 5, "lists": [11, 22], "inner": {"min": 1, "sum": 5}, "more": 6}
    assert merge_by_key(one, other) == merge_by_key(other, one) == merged_state


def test_tags_are_names_or_numbers_of_classes_and_none_is_missing() -> None:
    feature = Feature("tags", "int64", role="label", classes=("O", "B", "I"))
    values, bad = cast(feature, [["O", "2"], ["0", "3"], ["B", None], [], ["X"], None])
    assert values[0] == ["O", "I"] and bad.keys() == {1, 2, 3, 4, 5}
    assert bad[1] == "tag 1: '3' is none of source.classes" and bad[2] == "tag 1: missing" and bad[3] == "missing"
    bucket = Feature("tags", "int64", role="label", classes=("O", "B", "(other)"))
    assert cast(bucket, [["1", "2", "X", "O"]]) == ([["B", "(other)", "(other)", "O"]], {}), "2 is no class's number"
    numbers = Feature("tags", "int64", role="label", classes=("0", "7"))
    assert cast(numbers, [["7", "0"], ["1"]])[1] == {1: "tag 0: '1' is none of source.classes"}


def test_tags_are_as_many_as_words_in_every_row() -> None:
    from tasks.records.column_types.categories import unequal

    features = {"words": Feature("words", "string"), "tags": Feature("tags", "int64", role="label")}
    table = pa.table({"words": [["a", "b"], ["a"], ["a", "b"]], "tags": [["O", "O"], ["O", "O"], ["O"]]})
    assert unequal(features, table) == {
        1: "2 tags in tags for 1 words in words",
        2: "1 tags in tags for 2 words in words",
    }


def test_a_time_that_splits_or_orders_must_be_there() -> None:
    texts = ["2024-05-31T18:30:00", " 2024-05-31 ", "", None, "soon"]
    values, bad = cast(Feature("time", "int64"), texts)
    assert values[0] == 1717180200 * 10**6 and values[1] == 1717113600 * 10**6
    assert values[2:4] == [NO_TIME, NO_TIME] and bad.keys() == {4}
    _, bad = cast(Feature("time", "int64", role="time"), texts)
    assert bad == {2: "missing", 3: "missing", 4: "'soon' is not a time in ISO 8601"}


def test_a_category_is_written_as_an_integer_where_it_is_one() -> None:
    values, bad = cast(Feature("category", "string"), [1.0, 2.5, np.nan, 2.0**60])
    assert values == ["1", "2.5", "", values[3]] and "e" in values[3] and not bad
    long, bad = cast(Feature("category", "string"), ["x" * 1024, "x" * 1025])
    assert bad.keys() == {1} and len(long[0]) == 1024


@pytest.fixture
def most_values(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda number: monkeypatch.setattr("tasks.records.column_types.categories.MAX_VALUES", number)


def test_categories_are_counted_up_to_so_many_and_the_most_frequent_come_first(
    most_values: Callable[[int], None],
) -> None:
    feature = Feature("category", "string")
    kind = column_type(feature)
    one = kind.state(pa.array(["b", "a", "a", ""]), {})
    other = kind.state(pa.array(["b", "c"]), {})
    both = kind.summary(kind.merge(one, other))
    assert both == {"count": 6, "missing": 1, "distinct": 3, "top": [["a", 2], ["b", 2], ["c", 1]]}
    most_values(2)
    too_many = kind.merge(one, other)
    assert kind.summary(kind.merge(too_many, one)) == {"count": 10, "missing": 2, "distinct": None, "top": []}


class Batches(RowsSource):
    """A source that yields a piece in batches of two rows."""

    def read(self, piece: Partition) -> Iterator[Rows]:
        for start in range(0, len(piece.where), 2):
            yield from super().read(Partition(piece.name, 1, piece.where[start : start + 2]))


def sorted_by(bench: Workbench, name: str, **config: Any) -> tuple[list[Spill], list[pa.Table]]:
    """The spills of seven pictures of two classes."""
    rows: Any = {f"k{number}": (png(number), int(number > 4)) for number in range(7)}
    source = Batches(rows)
    sorter = Sorter(source, RecordsConfig(**config), bench.staging, name)
    spills = sorter.sort((0, source.partitions()[0]))
    return spills, [Spills(bench.staging, [spill], sorter._assignment.names).table(0) for spill in spills]


def test_a_run_has_the_rows_and_classes_of_all_its_batches_by_place(bench: Workbench) -> None:
    [spill], [table] = sorted_by(bench, "one")
    assert (spill.read, spill.rows, spill.classes, spill.last) == (7, 7, {"label": {"class0": 5, "class1": 2}}, True)
    places = dict(zip(keys(table), table[PLACE].to_pylist(), strict=True))
    expected = split_of_keys(digests([key.encode() for key in places])[:, 0], 0).tolist()
    assert list(places.values()) == expected, "a keyed hash of the key"
    order = list(zip(table[SPLIT].to_pylist(), table[PLACE].to_pylist(), strict=True))
    assert order == sorted(order)
    _, [other] = sorted_by(bench, "two", split_seed=1)
    assert dict(zip(keys(other), other[PLACE].to_pylist(), strict=True)) != places


class Skipping(Batches):
    """Of which one row more is skipped than batches were before, but for the first two."""

    def read(self, piece: Partition) -> Iterator[Rows]:
        for number, rows in enumerate(super().read(piece)):
            rows.skipped = [Bad(f"s{number}.{each}", "no text", f"file {each}") for each in range(max(number - 1, 0))]
            yield rows


def test_what_is_left_out_of_a_piece_is_that_of_all_its_batches(bench: Workbench) -> None:
    """Nine pictures: of three the payload or the class is none, of the others two are filtered."""
    labels = {0: 0, 1: 0, 2: 1, 3: 9, 4: 0, 5: 0, 6: 0, 7: 1, 8: 0}
    rows = {f"k{number}": (None if number in (1, 6) else png(number), label) for number, label in labels.items()}
    source = Skipping(rows)
    sorter = Sorter(source, RecordsConfig(filter="label = 'class0'"), bench.staging, "plan")
    [spill] = sorter.sort((0, source.partitions()[0]))
    assert (spill.read, spill.rows, spill.filtered, spill.skipped, spill.quarantined) == (15, 4, 2, 6, 3)
    assert spill.classes == {"label": {"class0": 4}}
    assert [key for key, *_ in spill.left_out] == ["s2.0", "s3.0", "s3.1", "s4.0", "s4.1", "s4.2"]
    assert [key for key, *_ in spill.bad] == ["k1", "k3", "k6"]
    lines = (bench.staging.root / spill.quarantine).read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["k1", "k3", "k6"]
    again = Sorter(Skipping(rows), RecordsConfig(filter="label = 'class0'"), bench.staging, "plan")
    assert again.sort((0, source.partitions()[0])) == [spill]
    bench.staging.drop(spill.quarantine)
    assert again.sort((0, source.partitions()[0])) == [spill]
    assert len((bench.staging.root / spill.quarantine).read_text().splitlines()) == 3, "bad rows are not lost"


def test_a_note_lists_so_many_rows_that_are_left_out(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.records.sorting.NAMED", 4)
    source = Skipping({f"k{number}": (png(number), 0) for number in range(9)})
    [spill] = Sorter(source, RecordsConfig(), bench.staging, "plan").sort((0, source.partitions()[0]))
    assert (spill.skipped, [key for key, *_ in spill.left_out]) == (6, ["s2.0", "s3.0", "s3.1", "s4.0"])


def test_each_run_of_a_piece_has_its_own_rows_and_its_own_bad_ones(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Batches({f"k{number}": (None if number in (1, 6) else png(number), 0) for number in range(9)})
    monkeypatch.setattr("tasks.records.sorting.SPILL_BYTES", 1)
    sizes = [
        spill.bytes for spill in Sorter(source, RecordsConfig(), bench.staging, "one").sort((0, source.partitions()[0]))
    ]
    monkeypatch.setattr("tasks.records.sorting.SPILL_BYTES", max(sizes))
    spills = Sorter(source, RecordsConfig(), bench.staging, "two").sort((0, source.partitions()[0]))
    assert [spill.rows for spill in spills] == [3, 3, 1] and len(sizes) == 5, "of two batches, two and one"
    assert [[key for key, *_ in spill.bad] for spill in spills] == [["k1"], ["k6"], []]
    assert [spill.quarantined for spill in spills] == [1, 1, 0]


class InMemory(RowsSource):
    """Of these columns."""

    def __init__(self, features: dict[str, Feature], columns: dict[str, Any]) -> None:
        super().__init__({})
        self.declared, self.columns = features, columns

    @property
    def features(self) -> dict[str, Feature]:
        return self.declared

    def read(self, piece: Partition) -> Iterator[Rows]:
        names = [f"k{number}" for number in range(len(next(iter(self.columns.values()))))]
        yield Rows({name: pa.array(each) for name, each in self.columns.items()}, pa.array(names), names.__getitem__)


def quarantined(bench: Workbench, features: dict[str, Feature], columns: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of bad rows of these columns, in a split of their own each."""
    sorter = Sorter(InMemory(features, columns), RecordsConfig(), bench.staging, str(list(features)))
    [spill] = sorter.sort((0, Partition("x", 1, ())))
    return [json.loads(line) for line in (bench.staging.root / spill.quarantine).read_text().splitlines()]


def test_a_bad_row_has_its_first_reason_and_the_beginning_of_its_values(bench: Workbench) -> None:
    number = Feature("number", "float32")
    columns = {"a": ["x", "1", "1"], "b": ["y", "2", "z"], "c": ["w" * 300, "w", "w"]}
    lines = quarantined(bench, {"a": number, "b": number, "c": Feature("text", "string")}, columns)
    assert [(line["key"], line["reason"].partition(":")[0]) for line in lines] == [("k0", "a"), ("k2", "b")]
    assert lines[0]["values"] == {"a": "x", "b": "y", "c": "w" * 200}


def test_a_row_with_more_words_than_tags_is_bad_and_a_column_of_splits_is_no_feature(bench: Workbench) -> None:
    features = {
        "words": Feature("words", "string", (-1,)),
        "tags": Feature("tags", "int64", (-1,), role="label", classes=("x", "y")),
        "part": Feature("category", "string", role="split"),
    }
    columns = {"words": [["a", "b"], ["c", "d"]], "tags": [["x"], ["y", "x"]], "part": ["train", "train"]}
    [line] = quarantined(bench, features, columns)
    assert (line["key"], line["reason"]) == ("k0", "1 tags in tags for 2 words in words")
    sorter = Sorter(InMemory(features, columns), RecordsConfig(), bench.staging, "plan")
    assert set(sorter.features) == {KEY, "words", "tags"}


def test_a_large_piece_has_several_runs_of_which_the_last_says_so(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.records.sorting.SPILL_BYTES", 1)
    spills, tables = sorted_by(bench, "one")
    assert [(spill.part, spill.last, spill.rows) for spill in spills] == [
        (0, False, 2),
        (1, False, 2),
        (2, False, 2),
        (3, True, 1),
    ]
    assert sorted(key for table in tables for key in keys(table)) == [f"k{number}" for number in range(7)]
    again, _ = sorted_by(bench, "one")
    assert again == spills, "those of an earlier attempt"
    bench.staging.drop(spills[2].file)
    monkeypatch.setattr("tasks.records.sorting.SPILL_BYTES", 1 << 30)
    assert [spill.rows for spill in sorted_by(bench, "one")[0]] == [7], "all of a piece or none"
    assert sorted_by(bench, "another plan")[0][0].rows == 7


def test_a_split_that_dropping_copies_leaves_empty_is_no_split(tmp_path: Path, bench: Workbench) -> None:
    lines = [{"x": number % 4, "fold": fold, "y": "ab"[number % 2]} for fold, number in FOLDS]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    columns: Any = {"x": "number", "fold": "category", "y": "category"}
    source = JsonlSource(path=str(tmp_path), glob="*.jsonl", columns=columns, label="y", split="fold")
    with pytest.raises(Failed, match="records.splits official: test: no example of 4, 8 of them copies") as failed:
        conversion.build(bench, source, RecordsConfig(splits="official", duplicates="drop"))
    assert failed.value.remedy == "add data, or change records.official"


FOLDS = [(fold, number) for fold in ("train", "val", "test") for number in range(4)]


def test_features_of_a_role_are_in_order_of_name() -> None:
    """That of arrays and of what is hashed."""
    named = {name: Feature("text", "string") for name in ("b", "c", "a")} | {"0": FEATURES["label"]}
    assert list(of_role(named, "input")) == ["a", "b", "c"] and list(of_role(named, "label")) == ["0"]


def test_a_palette_counts_as_its_colours_and_what_is_transparent_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.reader.image.STRIP", 2)  # a row at a time
    palette = Image.new("P", (2, 3), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    for options, shape, total in (({}, (3, 2, 3), [60, 120, 180]), ({"transparency": 1}, (3, 2, 4), [60, 120, 180, 0])):
        payload = io.BytesIO()
        palette.save(payload, "PNG", **options)
        found = pixel_sums(payload.getvalue(), 6)
        assert (found.shape, found.sums, found.squares[0]) == (shape, total, 600)
        with pytest.raises(NotAnImage, match="2 x 3 = 6 pixels; records.max_pixels is 5"):
            pixel_sums(payload.getvalue(), 5)


def test_a_column_that_tells_the_label_is_suspicious(bench: Workbench) -> None:
    """The length of a text, by class."""
    rows = [row(f"k{n:02d}", n, text="x" * (1 + 3 * (n % 2)), label="ab"[n % 2]) for n in range(12)]
    states = {"train": {"label": {"classes": {"a": 6, "b": 60}}}}
    made = profile(spills_of(bench, rows), FEATURES, states)
    assert made["columns"]["text"]["association"] == 1.0
    assert [line.partition(" exactly")[0] for line in made["suspicions"] if "exactly" in line] == ["text tells label"]
    assert [line for line in made["suspicions"] if "class" in line] == ["class a of label: 6 examples in train"]
