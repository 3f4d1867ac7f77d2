"""Convert with invalid data, kills, and sources that change."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.artifacts import Records
from tasks.errors import Failed
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.conversion import build, convert
from tasks.records.reading import RecordsReader
from tasks.records.sorting import RUNS
from tasks.sources import Piece, Rows
from tasks.sources.kinds.catalogues import SklearnSource
from tasks.sources.sklearn import Digits
from tasks.store.files import checksums
from tests.support.interruptions import goes_on_from_any_piece
from tests.support.raw_data import png

CONFIG = RecordsConfig(shards=2)


def many(count: int = 200) -> dict[str, tuple[bytes | None, int]]:
    return {f"row/{number:04d}": (png(number), number % 2) for number in range(count)}


def files(root: Path) -> dict[str, tuple[str, int]]:
    """Content and inode of everything written, without the sidecars."""
    paths = [path for path in root.rglob("*") if path.is_file() and ".pieces" not in path.parts]
    return {path.relative_to(root).as_posix(): (checksums(path).sha256, path.stat().st_ino) for path in paths}


def test_interrupted_at_any_piece_it_goes_on(
    benches: Callable[[str], Workbench], rows_source: Callable[..., Any]
) -> None:
    rows = rows_source(many(60))
    goes_on_from_any_piece(lambda bench: convert(bench, "rows", rows, CONFIG), benches, least=5)


def test_a_killed_convert_goes_on_with_what_was_whole(bench: Workbench) -> None:
    root = bench.staging.root
    first = build(bench, SklearnSource(), CONFIG)
    before = files(root)
    lost = ["digits-train.tfrecord-00001-of-00002", "index/digits-test.tfrecord-00000-of-00002.npy"]
    (root / lost[0]).unlink()
    (root / ".pieces" / f"{lost[1]}.json").unlink()  # killed between the file and its sidecar
    (root / "digits-train.tfrecord-00001-of-00002.99.partial").write_bytes(b"half a shard")

    assert build(bench, SklearnSource(), CONFIG) == first
    after = {name: value for name, value in files(root).items() if not name.endswith(".partial")}
    assert {name: after[name][0] for name in after} == {name: before[name][0] for name in before}
    shards = [name.rpartition("/")[2].removesuffix(".npy") for name in lost]
    kept = [name for name in after if ".tfrecord-" in name and not any(shard in name for shard in shards)]
    assert len(kept) == 12, "four shards with the offsets and the hashes of their rows"
    assert all(after[name] == before[name] for name in kept)


def test_a_shard_of_another_listing_is_not_adopted(bench: Workbench, rows_source: Callable) -> None:
    convert(bench, "rows", rows_source(many()), CONFIG)
    rows = many() | {"row/0000": (png(99), 1)}
    convert(bench, "rows", rows_source(rows), CONFIG)
    stored = [path.read_bytes() for path in bench.staging.root.glob("rows-*")]
    assert any(png(99) in content for content in stored)


def test_bad_examples_within_the_budget_are_left_out_and_named(
    bench: Workbench, rows_source: Callable, publish: Callable
) -> None:
    rows = many() | {"row/0003": (None, 0), "row/0010": (b"no image", 1), "row/0020": (png(20)[:40], 0)}
    outcome = convert(bench, "rows", rows_source(rows), RecordsConfig(bad_budget=3))
    assert outcome.counts["quarantined"] == 3
    assert outcome.counts["examples"] == 197
    bad = outcome.statistics["quarantined"]
    assert [key for key, *_ in bad] == ["row/0003", "row/0010", "row/0020"]
    assert not any("0x" in why for _, why, _ in bad), "an address would differ from run to run"
    lines = [
        json.loads(line)
        for path in bench.staging.pieces("quarantine")
        for line in (bench.staging.root / path).read_text().splitlines()
    ]
    assert {line["key"]: line["reason"] for line in lines} == {key: why for key, why, _ in bad}
    assert next(line for line in lines if line["key"] == "row/0010")["values"] == {
        "image": "8 bytes",
        "label": "class1",
    }
    reader = RecordsReader(publish(Records, bench, outcome).path)
    keys = {reader.key(split, row) for split, count in reader.counts.items() for row in range(count)}
    assert keys == set(rows) - {"row/0003", "row/0010", "row/0020"}


def test_bad_examples_over_the_budget_fail_the_run_by_name(bench: Workbench, rows_source: Callable) -> None:
    rows = many() | {"row/0003": (None, 0), "row/0010": (b"no image", 1)}
    with pytest.raises(Failed, match=r"row/00(03|10)") as caught:
        convert(bench, "rows", rows_source(rows), RecordsConfig(bad_budget=1))
    assert caught.value.field == "records.bad_budget"


def test_one_class_only_fails(bench: Workbench, rows_source: Callable) -> None:
    with pytest.raises(Failed, match="one class only, class1"):
        convert(bench, "rows", rows_source({key: (payload, 1) for key, (payload, _) in many().items()}), CONFIG)


def test_an_empty_split_fails_with_a_remedy(bench: Workbench, rows_source: Callable) -> None:
    config = RecordsConfig(splits={"train": 0.998, "validation": 0.001, "test": 0.001})
    with pytest.raises(Failed, match=r"records.splits.validation: .*raise its share"):
        convert(bench, "rows", rows_source(many(20)), config)


@pytest.mark.usefixtures("tf")
def test_an_empty_shard_of_a_full_split_is_well(bench: Workbench, rows_source: Callable, publish: Callable) -> None:
    outcome = convert(bench, "rows", rows_source(many(60)), RecordsConfig(shards=40))
    path = publish(Records, bench, outcome).path
    assert any(file.stat().st_size == 0 for file in path.glob("rows-test.tfrecord-*"))
    reader = RecordsReader(path)
    assert len({reader.key("test", row) for row in range(reader.counts["test"])}) == outcome.counts["test"]

    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(path))
    assert len(list(builder.as_dataset(split="test"))) == outcome.counts["test"]


def test_a_source_that_changes_while_it_is_read_fails(bench: Workbench, rows_source: Callable) -> None:
    class Restless(rows_source):  # type: ignore[misc]
        def read(self, piece: Piece) -> Iterator[Rows]:
            yield from super().read(piece)
            self.rows["row/0042"] = (png(43), 1)

    with pytest.raises(Failed, match="row/0042: added, removed or changed"):
        convert(bench, "rows", Restless(many()), CONFIG)


def test_broken_rows_of_the_digits_are_quarantined(tmp_path: Path, bench: Workbench) -> None:
    packaged = Path(find_spec("sklearn").origin).parent / "datasets/data/digits.csv.gz"  # type: ignore[union-attr,arg-type]
    rows = gzip.decompress(packaged.read_bytes()).splitlines()
    rows[5] = b"x" + rows[5]
    rows[7] = b"1,2,3"
    rows[9] = rows[9].rpartition(b",")[0] + b",11"
    path = tmp_path / "digits.csv.gz"
    path.write_bytes(gzip.compress(b"\n".join(rows)))
    outcome = convert(bench, "digits", Digits(path), RecordsConfig(bad_budget=3))
    assert [key for key, *_ in outcome.statistics["quarantined"]] == ["digits/00005", "digits/00007", "digits/00009"]


def test_a_growing_source_moves_no_example(
    bench: Workbench, benches: Callable, rows_source: Callable, publish: Callable
) -> None:
    def splits(bench: Workbench, count: int) -> dict[str, str]:
        outcome = convert(bench, "rows", rows_source(many(count)), CONFIG)
        reader = RecordsReader(publish(Records, bench, outcome).path)
        return {reader.key(split, row): split for split, rows in reader.counts.items() for row in range(rows)}

    small, large = splits(bench, 150), splits(benches("grown"), 400)
    assert small == {key: split for key, split in large.items() if key in small}


def test_a_group_stays_together(bench: Workbench, rows_source: Callable, publish: Callable) -> None:
    rows = many(300)
    groups = {key: f"writer{number % 30}" for number, key in enumerate(rows)}
    outcome = convert(bench, "rows", rows_source(rows, groups), CONFIG)
    reader = RecordsReader(publish(Records, bench, outcome).path)
    homes: dict[str, set[str]] = {}
    for split, count in reader.counts.items():
        for row in range(count):
            homes.setdefault(groups[reader.key(split, row)], set()).add(split)
    assert all(len(all_values) == 1 for all_values in homes.values())


def test_the_number_of_shards_changes_no_order(
    bench: Workbench, benches: Callable, rows_source: Callable, publish: Callable
) -> None:
    orders = []
    for each, shards in ((bench, 1), (benches("many"), 7)):
        outcome = convert(each, "rows", rows_source(many()), RecordsConfig(shards=shards))
        reader = RecordsReader(publish(Records, each, outcome).path)
        orders.append([reader.key("train", row) for row in range(reader.counts["train"])])
    assert orders[0] == orders[1]


def test_the_fingerprint_lists_every_key_and_content_sorted() -> None:
    listed = SklearnSource().open().fingerprint()
    assert len(listed) == 1797
    assert listed == sorted(listed)
    assert all(len(digest) == 64 for _, digest in listed)
    assert listed == SklearnSource().open().fingerprint()


def test_ten_broken_examples_are_named_the_others_counted_and_what_is_written_is_kept(
    bench: Workbench, rows_source: Callable
) -> None:
    broken = {f"row/{number:04d}": (None, 0) for number in range(0, 65, 5)}
    with pytest.raises(Failed) as failed:
        convert(bench, "rows", rows_source(many() | broken), CONFIG)
    names = "; ".join(f"{key} (no payload)" for key in sorted(broken)[:10])
    assert failed.value.saw == f"13 bad: {names} and 3 more"
    written = {name: (bench.staging.root / name).stat().st_mtime_ns for name in bench.staging.pieces(RUNS)}
    outcome = convert(bench, "rows", rows_source(many() | broken), CONFIG.model_copy(update={"bad_budget": 13}))
    assert outcome.counts["quarantined"] == 13
    assert written == {name: (bench.staging.root / name).stat().st_mtime_ns for name in written} and len(written) > 3


def test_a_source_of_which_all_is_broken_is_not_read_to_its_end(
    bench: Workbench, rows_source: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "HOPELESS", 15)
    with pytest.raises(Failed, match=r"and \d+ more, and [1-9]\d* pieces of the source were not looked at; at most 0"):
        convert(bench, "rows", rows_source({key: (key.encode(), 0) for key in many()}), CONFIG)


def photos(count: int) -> dict[str, tuple[bytes | None, int]]:
    """Images, every fifth of which is cut off."""
    random = np.random.default_rng(0)
    rows: dict[str, tuple[bytes | None, int]] = {}
    for number in range(count):
        buffer = io.BytesIO()
        Image.fromarray(random.integers(0, 256, (300, 250 + number), np.uint8)).save(buffer, "PNG")
        content = buffer.getvalue()
        rows[f"row/{number:04d}"] = (content[: len(content) // (1 + (number % 5 == 4))], number % 2)
    return rows


def test_records_do_not_depend_on_the_processes(
    benches: Callable, rows_source: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "ALONE_BYTES", 0)
    lenient = RecordsConfig(bad_budget=24, splits={"train": 0.4, "validation": 0.3, "test": 0.3})
    folders, outcomes = [], []
    for threads in (1, 4):
        bench = dataclasses.replace(benches(f"threads{threads}"), threads=threads)
        outcomes.append(convert(bench, "rows", rows_source(photos(120)), lenient))
        folders.append(bench.staging.root)
    assert outcomes[0] == outcomes[1] and outcomes[0].counts["quarantined"] == 24
    for path in sorted(folders[0].rglob("*.tfrecord-*")):
        assert path.read_bytes() == (folders[1] / path.relative_to(folders[0])).read_bytes()


def test_an_image_of_too_many_pixels_is_unreadable_before_it_is_decoded(
    bench: Workbench, benches: Callable, rows_source: Callable
) -> None:
    small = many()["row/0001"][0]
    assert small is not None
    header = struct.pack(">II", 30_000, 20_000) + small[24:29]  # of the same file, of another size
    bomb = small[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + small[33:]
    with pytest.raises(Failed) as failed:
        convert(bench, "rows", rows_source(many() | {"row/0003": (bomb, 0)}), CONFIG)
    saw = "30,000 x 20,000 = 600,000,000 pixels; records.max_pixels is 64,000,000"
    assert failed.value.saw == f"1 bad: row/0003 (image: {saw})"
    with pytest.raises(Failed, match="not a whole image"):
        large = CONFIG.model_copy(update={"max_pixels": 10**9})
        convert(benches("large"), "rows", rows_source(many() | {"row/0003": (bomb, 0)}), large)
