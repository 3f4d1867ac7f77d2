"""A folder of images: unchanged in the records, upright in the snapshot; damaged ones are named."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tasks.artifacts import Records, Snapshot
from tasks.errors import Failed, Refused
from tasks.feed import open_snapshot
from tasks.processes.workbench import Workbench
from tasks.reader import Reader
from tasks.reader.image import flat
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import ImageSnapshot
from tasks.sources.kinds.folders import ImageFolderSource
from tests.support.raw_data import RED, SIDE, flag, kinds

CONFIG = RecordsConfig(splits={"train": 0.4, "validation": 0.3, "test": 0.3}, shards=1, duplicates="keep")


def fill(root: Path, count: int = 30) -> Path:
    """Two classes of plain images, no two alike, so that no split is empty."""
    for number in range(count):
        path = root / ("dark" if number % 2 else "light") / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.full((5, 4, 3), 20 if number % 2 else 230, np.uint8)
        pixels[0, 0, 0] = number
        Image.fromarray(pixels).save(path)
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill(tmp_path / "pictures")


def source(folder: Path, **more: object) -> ImageFolderSource:
    return ImageFolderSource.model_validate({"path": str(folder), **more})


def test_every_kind_of_file_comes_out_as_a_viewer_shows_it(
    folder: Path, bench: Workbench, benches: Callable, publish: Callable
) -> None:
    for name, (image, options) in kinds().items():
        image.save(folder / "dark" / name, **options)
    made = publish(Records, bench, conversion.build(bench, source(folder), CONFIG))
    bench = benches("snapshot")
    layout = ImageSnapshot(height=SIDE, width=SIDE, channels=3)
    snapshot = open_snapshot(publish(Snapshot, bench, snapshots.build(bench, made, layout)).path)
    reader = Reader.open(snapshot.path / "transform")
    wanted = np.asarray(flag()).astype(int)
    seen = set()
    for split, count in snapshot.counts.items():
        arrays = snapshot.arrays(split)
        for row, key in enumerate(snapshot.keys(split, list(range(count)), made.path)):
            pixels = arrays["image"][row]
            np.testing.assert_array_equal(reader([{"image": str(folder / key)}])["image"][0], pixels, err_msg=key)
            assert arrays["label"][row] == ["dark", "light"].index(key.partition("/")[0])
            if (name := key.rpartition("/")[2]) in kinds():
                seen.add(name)
                inner = np.abs(pixels - wanted)[[2, 2, -3, -3], [2, -3, 2, -3]]
                assert inner.max() <= (40 if name == "cmyk.jpg" else 8), (
                    f"{name}: {pixels[[2, 2, -3, -3], [2, -3, 2, -3]]}"
                )
    assert seen == set(kinds())


def test_grey_of_one_and_of_sixteen_bits_keeps_its_level(
    folder: Path, bench: Workbench, benches: Callable, publish: Callable
) -> None:
    levels = np.arange(SIDE * SIDE, dtype=np.uint16).reshape(SIDE, SIDE)
    Image.fromarray(levels << 8 | 255).save(folder / "dark/sixteen.png")
    Image.fromarray(levels.astype(np.uint8) > 127).save(folder / "dark/one.png")
    Image.fromarray(np.stack([levels, np.full_like(levels, 255)], -1).astype(np.uint8)).save(folder / "dark/alpha.png")
    made = publish(Records, bench, conversion.build(bench, source(folder), CONFIG))
    bench = benches("snapshot")
    layout = ImageSnapshot(height=SIDE, width=SIDE, channels=1)
    snapshot = open_snapshot(publish(Snapshot, bench, snapshots.build(bench, made, layout)).path)
    collected = {}
    for split, count in snapshot.counts.items():
        keys = snapshot.keys(split, list(range(count)), made.path)
        collected |= dict(zip(keys, np.asarray(snapshot.arrays(split)["image"])[..., 0], strict=True))
    np.testing.assert_array_equal(collected["dark/sixteen.png"], levels)
    np.testing.assert_array_equal(collected["dark/one.png"], np.where(levels > 127, 255, 0))
    np.testing.assert_array_equal(collected["dark/alpha.png"], levels)


def test_records_hold_the_files_byte_for_byte_and_tfds_reads_them(
    folder: Path, bench: Workbench, publish: Callable, tf: object
) -> None:
    made = publish(Records, bench, conversion.build(bench, source(folder), CONFIG))
    reader = RecordsReader(made.path)
    for split in reader.counts:
        for example in reader.iterate(split):
            key = example["key"][0].decode()
            assert example["image"][0] == (folder / key).read_bytes()
            assert reader.features["label"].classes[int(example["label"][0])] == key.partition("/")[0]

    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(made.path))
    [first] = builder.as_dataset(split="test[:1]")
    assert first["image"].shape == (5, 4, 3)


def test_classes_are_the_sorted_folders_that_hold_an_image(folder: Path, bench: Workbench) -> None:
    (folder / "a_first_but_empty").mkdir()
    (folder / "notes").mkdir()
    (folder / "notes/readme.txt").write_text("no image")
    deep = folder / "dark/of/night"
    deep.mkdir(parents=True)
    Image.new("L", (3, 3)).save(deep / "x.png")
    outcome = conversion.build(bench, source(folder), CONFIG)
    assert outcome.features["label"]["classes"] == ["dark", "light"]
    assert outcome.counts["examples"] == 31
    assert "dark/of/night/x.png" in dict(source(folder).open().fingerprint())
    assert "dark/of/night/x.png" not in dict(source(folder, exclude=["of"]).open().fingerprint())


@pytest.mark.parametrize("name", ["truncated.png", "truncated.jpg", "empty.png", "text.jpg"])
def test_a_broken_image_ends_the_run_by_name_or_is_left_out_within_the_budget(
    name: str, folder: Path, bench: Workbench, benches: Callable
) -> None:
    whole = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    Image.fromarray(noise).save(whole, "PNG" if name.endswith("png") else "JPEG")
    content = {"empty.png": b"", "text.jpg": b"not an image"}.get(name, whole.getvalue()[: len(whole.getvalue()) // 2])
    (folder / "light" / name).write_bytes(content)
    with pytest.raises(Failed, match=f"light/{name}") as failed:
        conversion.build(bench, source(folder), CONFIG)
    assert (failed.value.field, failed.value.exit_code) == ("records.bad_budget", 1)
    assert "\n" not in str(failed.value)
    outcome = conversion.build(benches("lenient"), source(folder), CONFIG.model_copy(update={"bad_budget": 1}))
    assert (outcome.counts["examples"], outcome.counts["quarantined"]) == (30, 1)
    assert outcome.statistics["quarantined"][0][0] == f"light/{name}"


def test_a_broken_exif_turns_nothing(tmp_path: Path) -> None:
    flag().save(tmp_path / "x.jpg", exif=b"Exif\0\0no such thing", quality=98, subsampling=0)
    pixels = np.asarray(flat((tmp_path / "x.jpg").read_bytes(), (SIDE, SIDE)))
    assert np.abs(pixels[2, 2].astype(int) - RED).max() <= 8


def test_one_class_only_fails(folder: Path, bench: Workbench) -> None:
    with pytest.raises(Failed, match="one class only, dark") as failed:
        conversion.build(bench, source(folder, glob="dark/*"), CONFIG)
    assert failed.value.exit_code == 1


def test_what_a_listing_shows_is_refused_before_anything_is_read(folder: Path) -> None:
    (folder / "loose.png").write_bytes(b"")
    for config, field, says in [
        (source(folder / "nowhere"), "source.path", "no such file or folder"),
        (source(folder / "dark/01.png"), "source.path", "not a folder"),
        (source(folder, glob="*/*.gif"), "source.path", "no file of"),
        (source(folder), "source.path", "loose.png; an image is in the folder of its class"),
    ]:
        with pytest.raises(Refused, match=says) as refused:
            config.check()
        assert (refused.value.field, refused.value.exit_code) == (field, 2)
    source(folder, exclude=["loose.png"]).check()
