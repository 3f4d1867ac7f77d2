"""A snapshot of digits: its content, and the way back to the records."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tasks.artifacts import Records, Snapshot
from tasks.errors import Failed, Refused
from tasks.feed import open_snapshot
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.column_types.media import PixelSums
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import ImageSnapshot
from tasks.sources.kinds.catalogues import SklearnSource

SPLITS = RecordsConfig(splits={"train": 0.6, "validation": 0.1, "test": 0.3}, shards=2)
LAYOUT = ImageSnapshot(height=8, width=8, channels=1, shards=3)


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> Records:
    bench = workbench_at(tmp_path_factory.mktemp("records") / "staging")
    return publish(Records, bench, conversion.build(bench, SklearnSource(), SPLITS))


@pytest.fixture(scope="module")
def snapshot(
    parent: Records, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable
) -> SnapshotReader:
    bench = workbench_at(tmp_path_factory.mktemp("snapshot") / "staging")
    made = publish(Snapshot, bench, snapshots.build(bench, parent, LAYOUT))
    return open_snapshot(made.path)


def test_rows_are_the_records_pixel_for_pixel(parent: Records, snapshot: SnapshotReader) -> None:
    reader = RecordsReader(parent.path)
    assert snapshot.counts == reader.counts
    for split, count in snapshot.counts.items():
        arrays = snapshot.arrays(split)
        assert arrays["image"].shape == (count, 8, 8, 1)
        assert arrays["image"].dtype == np.uint8
        assert arrays["label"].shape == (count,)
        assert arrays["label"].dtype == np.int64
        for row, example in enumerate(reader.iterate(split)):
            pixels = np.asarray(Image.open(io.BytesIO(example["image"][0])))
            np.testing.assert_array_equal(arrays["image"][row][..., 0], pixels)
            assert arrays["label"][row] == example["label"][0]


def test_plain_numpy_reads_equal_shards_but_the_last(snapshot: SnapshotReader) -> None:
    files = sorted(snapshot.path.glob("train/image-*-of-00003.npy"))
    parts = [np.load(file, mmap_mode="r") for file in files]
    assert len(parts) == 3
    assert len(parts[0]) == len(parts[1]) >= len(parts[2]) > 0
    np.testing.assert_array_equal(np.concatenate(parts), np.asarray(snapshot.arrays("train")["image"]))


def test_features_name_layout_and_classes(snapshot: SnapshotReader) -> None:
    assert snapshot.features == {
        "image": {"shape": [8, 8, 1], "dtype": "uint8", "role": "input"},
        "label": {"shape": [], "dtype": "int64", "classes": [str(digit) for digit in range(10)], "role": "label"},
    }
    shipped = json.loads((snapshot.path / "transform/transform.json").read_bytes())
    assert shipped["arrays"] == {"image": {"dtype": "uint8", "shape": [8, 8, 1]}}
    assert shipped["classes"] == [str(digit) for digit in range(10)]


def test_rows_lead_back_to_keys(parent: Records, snapshot: SnapshotReader) -> None:
    reader = RecordsReader(parent.path)
    rows = np.array([0, 100, snapshot.counts["test"] - 1])
    assert snapshot.keys("test", rows, parent.path) == [reader.key("test", int(row)) for row in rows]
    np.testing.assert_array_equal(snapshot.pieces("test", 100), [[100, 0, 1, 0]])


def test_other_sizes_and_channels_are_converted(parent: Records, bench: Workbench, publish: Callable) -> None:
    made = publish(Snapshot, bench, snapshots.build(bench, parent, ImageSnapshot(height=12, width=10, channels=3)))
    images = open_snapshot(made.path).arrays("validation")["image"]
    assert images.shape[1:] == (12, 10, 3)
    np.testing.assert_array_equal(images[..., 0], images[..., 2])
    payload = RecordsReader(parent.path).example("validation", 5)["image"][0]
    theirs = Image.open(io.BytesIO(payload)).resize((10, 12), Image.Resampling.BILINEAR)
    assert np.abs(images[5, ..., 0].astype(int) - np.asarray(theirs)).max() <= 1


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"no manifest\.json"):
        open_snapshot(tmp_path)


def test_a_cut_file_is_named(parent: Records, bench: Workbench, publish: Callable) -> None:
    made = publish(Snapshot, bench, snapshots.build(bench, parent, LAYOUT))
    file = made.path / "test/label-00001-of-00003.npy"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(Failed, match=r"test/label-00001-of-00003\.npy"):
        open_snapshot(made.path)


def test_a_record_that_is_no_image_is_named(
    bench: Workbench,
    benches: Callable[[str], Workbench],
    publish: Callable,
    rows_source: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Convert lets none through; records that were made elsewhere may hold one."""
    rows = {f"row/{n}": (b"no image" if n == 7 else png(n), n % 2) for n in range(60)}
    plain = PixelSums((4, 4, 1), [0], [0])
    monkeypatch.setattr("tasks.records.column_types.media.pixel_sums", lambda payload, max_pixels: plain)
    outcome = conversion.convert(bench, "rows", rows_source(rows), RecordsConfig(shards=1))
    made = publish(Records, bench, outcome)
    with pytest.raises(Failed, match="row/7: image: 8 bytes, cannot identify image file"):
        snapshots.build(benches("snapshot"), made, ImageSnapshot(height=4, width=4, channels=1))


def png(number: int) -> bytes:
    payload = io.BytesIO()
    Image.fromarray(np.full((4, 4), number, np.uint8)).save(payload, format="PNG")
    return payload.getvalue()


def test_reading_needs_no_tensorflow(snapshot: SnapshotReader) -> None:
    code = (
        "import sys; from tasks import sources; from tasks.snapshots import work; "
        "from tasks.records import conversion; "
        "from tasks.feed import open_snapshot, orders; "
        f"print(open_snapshot({str(snapshot.path)!r}).arrays('train')['label'][:3].sum()); "
        "assert not {'tensorflow', 'keras', 'jax', 'mlflow', 'prefect'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
