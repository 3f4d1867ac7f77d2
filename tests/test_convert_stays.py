"""Rows stay in their split: whatever is done with columns, types and files, and whatever comes beside them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

from tasks.artifacts import Outcome, Records
from tasks.processes.workbench import Workbench
from tasks.records.assignment import Assignment
from tasks.records.config import RecordsConfig
from tasks.records.conversion import build
from tasks.records.merging import Spills
from tasks.records.reading import RecordsReader
from tasks.records.sorting import ROW, Sorter
from tasks.sources.features import KEY, Feature
from tasks.sources.hashes import bytes_of, hashes_of_columns
from tasks.sources.kinds import SourceConfig
from tests.support.raw_data import png

SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}
ROWS = [{"id": n, "age": 20 + n % 50, "city": "abc"[n % 3], "ill": "ny"[n % 2], "size": n * 1.5} for n in range(120)]
"""Of which each has other cells: by its number, and by its size."""
TYPES = {"id": "ignore", "age": "number", "city": "category", "ill": "category", "size": "number"}


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=50)


def write_tfrecord(path: Path, rows: list[dict[str, Any]]) -> None:
    import tensorflow as tf

    def feature(value: Any) -> Any:
        if isinstance(value, str):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
        if isinstance(value, int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))

    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            features = tf.train.Features(feature={name: feature(value) for name, value in row.items()})
            writer.write(tf.train.Example(features=features).SerializeToString(deterministic=True))


def write_webdataset(path: Path, rows: list[dict[str, Any]]) -> None:
    with tarfile.open(path, "w") as archive:
        for number, row in enumerate(rows):
            for name, value in row.items():
                content = str(value).encode()
                info = tarfile.TarInfo(f"{number:04d}.{name}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def write_python(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(f"def rows():\n    yield from {rows!r}\n")


WRITERS: dict[str, tuple[str, Callable[[Path, list[dict[str, Any]]], None]]] = {
    "csv": ("rows.csv", write_csv),
    "jsonl": ("rows.jsonl", write_jsonl),
    "parquet": ("rows.parquet", write_parquet),
    "tfrecord": ("rows.tfrecord", write_tfrecord),
    "webdataset": ("rows.tar", write_webdataset),
    "python": ("own_rows_stay.py", write_python),
}


def of_rows(folder: Path, kind: str, types: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """The section `source` of the rows in a folder."""
    name = WRITERS[kind][0]
    where = (
        {"function": f"{Path(name).stem}:rows", "folder": str(folder)} if kind == "python" else {"path": str(folder)}
    )
    return {"kind": kind, **where, "columns": dict(types), "label": "ill", **more}


def written(folder: Path, kind: str, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    name, write = WRITERS[kind]
    write(folder / name, rows)
    return folder


def homes(bench: Workbench, source: dict[str, Any], by: str = "size", **records: Any) -> dict[str, tuple[int, int]]:
    """The split and the hash of each row, by one of its values as text."""
    config = RecordsConfig(splits=SHARES, **records)
    opened = TypeAdapter(SourceConfig).validate_python(source).open()
    opened.fingerprint()
    sorter = Sorter(opened, config, bench.staging, json.dumps([source, records]))
    notes = [note for numbered in enumerate(opened.partitions()) for note in sorter.sort(numbered)]
    runs = Spills(bench.staging, notes, config.names)
    found = {}
    for run in runs.numbers:
        table = runs.table(run)
        for number, value in enumerate(table[by].to_pylist()):
            found[str(value)] = (runs.split(run, number), runs.value(run, ROW, number))
    return found


@pytest.mark.parametrize("kind", WRITERS)
def test_neither_the_choice_of_columns_nor_their_types_move_a_row(kind: str, tmp_path: Path, bench: Workbench) -> None:
    folder = written(tmp_path / "a", kind, ROWS)
    first = homes(bench, of_rows(folder, kind, TYPES))
    assert len(first) == 120 and {split for split, _ in first.values()} == {0, 1, 2}
    assert len({number for _, number in first.values()}) == 120
    for changed in ({"age": "ignore"}, {"age": "category", "city": "text"}, {"id": "number"}, {"city": "ignore"}):
        assert homes(bench, of_rows(folder, kind, TYPES | changed)) == first, changed


@pytest.mark.parametrize("kind", WRITERS)
def test_what_comes_beside_moves_no_row_and_what_a_row_says_does(kind: str, tmp_path: Path, bench: Workbench) -> None:
    first = homes(bench, of_rows(written(tmp_path / "a", kind, ROWS), kind, TYPES))
    new = [{**row, "size": 1000.0 + row["size"]} for row in ROWS[:30]]
    grown = homes(bench, of_rows(written(tmp_path / "b", kind, [*new, *ROWS]), kind, TYPES))
    assert {value: grown[value] for value in first} == first and len(grown) == 150
    renumbered = [{**row, "id": row["id"] + 500} for row in ROWS]
    moved = homes(bench, of_rows(written(tmp_path / "c", kind, renumbered), kind, TYPES))
    assert all(moved[value][1] != first[value][1] for value in first), "an ignored column is a part of the row"


@pytest.mark.parametrize("kind", WRITERS)
def test_a_named_key_alone_decides(kind: str, tmp_path: Path, bench: Workbench) -> None:
    """Whatever else the row says: a column that is new, a label that is corrected."""
    first = homes(bench, of_rows(written(tmp_path / "a", kind, ROWS), kind, TYPES | {"id": "number"}, key="id"), KEY)
    changed: list[dict[str, Any]] = [{**row, "ill": "yn"[row["id"] % 2], "age": 0, "new": 1} for row in ROWS]
    types = TYPES | {"id": "category", "new": "number", "size": "ignore"}
    assert homes(bench, of_rows(written(tmp_path / "b", kind, changed), kind, types, key="id"), KEY) == first
    assert set(first) == {str(number) for number in range(120)}


def test_neither_name_compression_encoding_nor_line_ends_of_a_file_move_a_row(tmp_path: Path, bench: Workbench) -> None:
    rows = [{**row, "city": f"Zürich {row['id']}"} for row in ROWS]
    first = homes(bench, of_rows(written(tmp_path / "a", "csv", rows), "csv", TYPES))
    text = (tmp_path / "a/rows.csv").read_text()
    for folder, name, content, more in (
        ("b", "2026.csv", text.encode(), {}),
        ("c", "rows.csv.gz", gzip.compress(text.encode()), {}),
        ("d", "rows.csv", text.encode("latin-1"), {"encoding": "latin-1"}),
        ("e", "rows.csv", text.replace("\n", "\r\n").encode("utf-8-sig"), {}),
        ("f", "rows.csv", text.encode("utf-16"), {"encoding": "utf-16"}),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(content)
        assert homes(bench, of_rows(tmp_path / folder, "csv", TYPES, **more)) == first, name


@pytest.mark.parametrize("kind", ["image_folder", "text_files"])
def test_a_file_stays_by_its_content_under_any_name_and_class(kind: str, tmp_path: Path, bench: Workbench) -> None:
    def hashes(folder: Path, name: Callable[[int], str]) -> list[tuple[int, int]]:
        for number in range(60):
            path = folder / name(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(number) if kind == "image_folder" else f"text {number}\n".encode())
        more = {"glob": "**/*", "class_folders": True} if kind == "text_files" else {}
        found = homes(bench, {"kind": kind, "path": str(folder), **more}, KEY)
        return [found[name(number)] for number in range(60)]

    suffix = "png" if kind == "image_folder" else "txt"
    first = hashes(tmp_path / "a", lambda number: f"{'xy'[number % 2]}/{number}.{suffix}")
    assert hashes(tmp_path / "b", lambda number: f"{'yx'[number % 2]}/renamed{number}.{suffix}") == first
    assert len({number for _, number in first}) == 60


@pytest.mark.parametrize("types", [{"age": "number"}, {"age": "category"}, {"age": "text"}])
def test_a_group_stays_whatever_its_type_and_beats_the_key(
    types: dict[str, str], tmp_path: Path, bench: Workbench
) -> None:
    folder = written(tmp_path / "a", "csv", ROWS)
    given = TYPES | {"id": "number"} | types
    grouped = homes(bench, of_rows(folder, "csv", given, key="id", group="age"), KEY)
    as_number = homes(bench, of_rows(folder, "csv", given | {"age": "number"}, key="id", group="age"), KEY)
    assert grouped == as_number
    by_group: dict[int, set[int]] = {}
    for row in ROWS:
        by_group.setdefault(row["age"], set()).add(grouped[str(row["id"])][0])
    assert len(by_group) == 50 and all(len(splits) == 1 for splits in by_group.values())


def test_a_number_is_one_group_in_any_spelling(tmp_path: Path, bench: Workbench) -> None:
    """As of two exports of one table; a larger one than float32 can tell apart is one of its own."""
    spelled = [{**row, "age": ["7", "7.0", "07", "7e0"][row["id"] % 4]} for row in ROWS]
    near = [{**row, "age": 16_777_216 + row["id"], "size": 500 + row["size"]} for row in ROWS]
    source = of_rows(written(tmp_path / "a", "csv", spelled + near), "csv", TYPES, group="age")
    found = homes(bench, source)
    assert len({found[str(row["size"])][0] for row in spelled}) == 1
    assert {found[str(row["size"])][0] for row in near} == {0, 1, 2}


def test_rows_without_a_numeric_group_are_no_group() -> None:
    """Whatever text means that it is missing."""
    texts = pa.array(["NA", "NA", "nan", "nan", "", "7", "7.0", None, "inf", "inf"])
    rows = np.arange(len(texts), dtype=np.uint64)
    group = Feature("number", "float32", role="group")
    hashes, alone = Assignment(RecordsConfig(), {"age": group}, ()).hashes({"age": texts}, rows)
    assert np.flatnonzero(~alone).tolist() == [5, 6] and hashes[5] == hashes[6]
    assert hashes[alone].tolist() == rows[alone].tolist(), "each decides for itself"


def converted(bench: Workbench, source: dict[str, Any], **records: Any) -> Outcome:
    return build(bench, TypeAdapter(SourceConfig).validate_python(source), RecordsConfig(splits=SHARES, **records))


def by_id(bench: Workbench, publish: Callable, outcome: Outcome) -> dict[str, str]:
    reader = RecordsReader(publish(Records, bench, outcome).path)
    return {reader.key(split, row): split for split, count in reader.counts.items() for row in range(count)}


def test_copies_share_the_split_of_the_smallest_hash_and_only_that_one_can_take_them_along(
    tmp_path: Path, benches: Callable, publish: Callable
) -> None:
    """Of rows with a key, equal in their inputs: those whose number is equal modulo 40."""
    types = {"id": "number", "age": "number", "ill": "category"}

    def splits(name: str, count: int, **records: Any) -> tuple[dict[str, str], Outcome]:
        rows = [{"id": n, "age": n % 40, "ill": "ny"[n // 40 % 2]} for n in range(count)]
        bench = benches(name)
        outcome = converted(bench, of_rows(written(tmp_path / name, "csv", rows), "csv", types, key="id"), **records)
        return by_id(bench, publish, outcome), outcome

    own, _ = splits("own", 120, duplicates="keep")
    tied, outcome = splits("tied", 120)
    assert outcome.statistics["duplicates"]["across_splits"] == 0 and outcome.counts["duplicates"] == 80
    hashes = homes(benches("h"), of_rows(tmp_path / "own", "csv", types, key="id"), KEY)
    for age in range(40):
        members = [str(number) for number in range(age, 120, 40)]
        smallest = min(members, key=lambda key: hashes[key][1])
        assert {tied[key] for key in members} == {own[smallest]}
    grown, _ = splits("grown", 121)
    assert {key for key in tied if grown[key] != tied[key]} <= {"0", "40", "80"}, "those of one more copy"


def test_copies_in_two_groups_are_counted_and_not_tied(tmp_path: Path, bench: Workbench) -> None:
    rows = [{"id": n, "age": n % 30, "ill": "ny"[n % 2], "who": f"p{n % 12}"} for n in range(120)]
    types = {"id": "number", "age": "number", "ill": "category", "who": "category"}
    folder = written(tmp_path / "a", "csv", rows)
    outcome = converted(bench, of_rows(folder, "csv", types, key="id", group="who"))
    assert outcome.counts["duplicates"] == 90
    assert outcome.statistics["duplicates"]["across_splits"] > 10


def test_of_official_splits_only_what_a_hash_divides_is_tied(
    tmp_path: Path, bench: Workbench, publish: Callable
) -> None:
    """A copy in the source's own test split stays there; validation is carved out of train, copies together."""
    rows = [{"id": n, "age": n % 40, "ill": "ny"[n % 2], "fold": "test" if n >= 120 else "train"} for n in range(160)]
    types = {"id": "number", "age": "number", "ill": "category", "fold": "category"}
    source = of_rows(written(tmp_path / "a", "csv", rows), "csv", types, key="id", split="fold")
    outcome = build(
        bench,
        TypeAdapter(SourceConfig).validate_python(source),
        RecordsConfig(splits="official", official={"train": ("train",), "test": ("test",)}, validation_share=0.4),
    )
    found = by_id(bench, publish, outcome)
    assert {found[str(n)] for n in range(120, 160)} == {"test"}
    carved = [{found[str(n)] for n in range(age, 120, 40)} for age in range(40)]
    assert all(len(splits) == 1 for splits in carved) and {split for splits in carved for split in splits} == {
        "train",
        "validation",
    }
    assert outcome.statistics["duplicates"]["across_splits"] == 40


def test_records_have_the_hash_of_each_row_in_their_order(tmp_path: Path, bench: Workbench, publish: Callable) -> None:
    source = of_rows(written(tmp_path / "a", "csv", ROWS), "csv", TYPES | {"id": "number"}, key="id")
    outcome = converted(bench, source, shards=3)
    reader = RecordsReader(publish(Records, bench, outcome).path)
    hashes = homes(bench, source, KEY)
    for split, count in reader.counts.items():
        expected = [hashes[reader.key(split, row)][1] for row in range(count)]
        assert reader.row_hashes(split).tolist() == expected


def test_a_hash_is_of_values_and_not_of_how_they_are_held() -> None:
    number, text = pa.array([1, None, 3]), pa.array(["a", "", None])
    first = hashes_of_columns({"n": number, "t": text}, 3)
    others = {
        "t": pa.chunked_array(
            [pa.array(["a", ""]).dictionary_encode(), pa.array([None], pa.string()).dictionary_encode()]
        ),
        "n": number.cast(pa.int8()),
    }
    assert hashes_of_columns(others, 3).tolist() == first.tolist()
    assert hashes_of_columns({"n": number, "t": pa.array(["a", None, None])}, 3)[1] != first[1], "empty is not missing"
    assert hashes_of_columns({"n": pa.array(["1", "13"]), "t": pa.array(["11", "1"])}, 2).tolist() != (
        hashes_of_columns({"n": pa.array(["11", "1"]), "t": pa.array(["1", "31"])}, 2).tolist()
    )
    nested = [pa.array([[1, 2]]), pa.array([[1, 2]]).cast(pa.large_list(pa.int32())), pa.array([[2, 1]])]
    hashes = [hashes_of_columns({"n": each}, 1)[0] for each in nested]
    assert hashes[0] == hashes[1] != hashes[2]
    assert len(hashes_of_columns({}, 2)) == 2


def test_bytes_of_a_value_are_those_of_any_equal_one() -> None:
    assert bytes_of({"a": 1, "b": [1.5, None]}) == bytes_of({"b": (1.5, None), "a": np.int32(1)})
    different: list[Any] = [1, 1.0, "1", b"1", True, None, [1], [[1]], {"a": 1}, np.ones(1), np.ones(1, np.float32)]
    assert len({bytes_of(value) for value in different}) == len(different)
    assert bytes_of(object()) == bytes_of(object()), "whose text has an address"
    import tensorflow as tf

    tensors = [tf.constant([1.0, 2.0]), tf.constant([1.0, 3.0])]
    assert bytes_of(tensors[0]) == bytes_of(tensors[0].numpy()) != bytes_of(tensors[1])
