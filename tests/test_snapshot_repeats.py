"""The bytes of records and snapshots are reproducible: after a kill, with other threads, in another process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Records
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import ImageSnapshot
from tasks.sources.kinds.catalogues import SklearnSource
from tests.support.benches import contents
from tests.support.fresh import in_fresh_process

SPLITS = RecordsConfig(splits={"train": 0.6, "validation": 0.1, "test": 0.3}, shards=2)
LAYOUT = ImageSnapshot(height=12, width=10, channels=3, shards=2)

GOLDEN = {
    "digits-test.tfrecord-00001-of-00002": "0b8b1ea432351411a732e992407b464dfa5d42745ba5c0f56d612ddf26b03d35",
    "index/digits-validation.tfrecord-00000-of-00002.npy": "e267f3dd0ed0f40e80798a1d0e176eb8003a92ea2f646c6b37f44eb18c48b60d",  # noqa: E501
    "dataset_info.json": "99f4b8427caf2ac83a167fb1df4c858016c17d579152fa1b74fc307722096ec6",
    "features.json": "206bbe0f11f9d092cac217916b891383d25d1ea89a9716800dbd5e3db7bd5e1e",
    "train/image-00000-of-00002.npy": "6444842bd586cd69d624b81258fdae41630faa2ccc57aea978913ba70865a445",
    "test/label-00001-of-00002.npy": "23dd9957fc2505b65796aa11c2bbae1ade13f607eb11cf1583f96b0adc71d3be",
    "test/origin-00001-of-00002.npy": "b2cdee2d878d1a53d2156e34419b29f9cf0576743b6c591809b050448e91185d",
    "test/pieces-00001-of-00002.npy": "3caac42aa8739d8da2d71a408566a18298c418446b4622f0ff2e573f07512e0f",
    "transform/transform.json": "ce35db4ed1fd915064632baa2fa9c0eed54b595d749adb83ac0262ce5cf53cdb",
}


@pytest.fixture(scope="module")
def parent(
    tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable[..., Any], publish: Callable[..., Any]
) -> Records:
    bench = workbench_at(tmp_path_factory.mktemp("records") / "staging")
    made: Records = publish(Records, bench, conversion.build(bench, SklearnSource(), SPLITS))
    return made


def test_bytes_are_those_of_this_code_version(parent: Records, bench: Workbench) -> None:
    """Golden: where these change, RECORDS_VERSION or the version in its section must grow (or a library has)."""
    snapshots.build(bench, parent, LAYOUT)
    made = contents(parent.path) | contents(bench.staging.root)
    assert {name: made[name] for name in GOLDEN} == GOLDEN


def test_images_are_fitted_as_the_settings_say(parent: Records, benches: Callable[[str], Workbench]) -> None:
    """Square digits to a size of twice the width: `pad` has black at both sides, `stretch` and `crop` have not."""
    sides = {}
    for fit in ("stretch", "crop", "pad"):
        bench = benches(fit)
        snapshots.build(bench, parent, ImageSnapshot(height=8, width=16, channels=1, fit=fit))
        images = np.load(bench.staging.root / "test/image-00000-of-00001.npy")
        sides[fit] = bool(images[:, :, :4].any() or images[:, :, 12:].any())
        described = json.loads((bench.staging.root / "transform/transform.json").read_text())
        assert described["transforms"]["image"]["fit"] == fit
    assert sides == {"stretch": True, "crop": True, "pad": False}


def test_a_killed_snapshot_goes_on_with_what_was_whole(parent: Records, bench: Workbench) -> None:
    root = bench.staging.root
    first = snapshots.build(bench, parent, LAYOUT)
    before = contents(root)
    born = {name: (root / name).stat().st_ino for name in before}
    lost = {"train/image-00001-of-00002.npy", "test/label-00000-of-00002.npy", "validation/pieces-00000-of-00002.npy"}
    for name in lost:
        (root / name).unlink()
    damaged = "test/image-00000-of-00002.npy"
    (root / damaged).write_bytes(b"\0" + (root / damaged).read_bytes()[1:])

    assert snapshots.build(bench, parent, LAYOUT) == first
    assert contents(root) == before
    # a shard's arrays are made together: those of a row come from the same records
    remade = {
        f"{split}/{name}-0000{shard}" for split, shard in (("train", 1), ("test", 0)) for name in ("image", "label")
    }
    kept = {
        name for name in before if not name.startswith("checkpoints/") and name not in lost and name[:-13] not in remade
    }
    assert [name for name in kept if (root / name).stat().st_ino != born[name]] == []


def test_another_process_hash_seed_and_number_of_threads_change_no_byte(
    parent: Records, bench: Workbench, tmp_path: Path
) -> None:
    """Here are two threads and a hash seed drawn at random, there are one thread and a given seed."""
    code = """
import json, sys
from pathlib import Path
from tasks.artifacts import Records
from tasks.snapshots.config import ImageSnapshot
from tasks.records.config import RecordsConfig
from tasks.sources.kinds.catalogues import SklearnSource
from tasks.snapshots import work as snapshots
from tasks.records import conversion
from tasks.store.staging import Staging
from tasks.processes.workbench import Workbench

def bench(root):
    root.mkdir(parents=True)
    lock = root.with_suffix(".lock")
    lock.write_text(json.dumps({"token": 1}))
    nothing = lambda *values, **figures: None
    return Workbench(Staging(root, lock, 1), None, nothing, nothing, lambda: False, threads=1)

root, parent = Path(sys.argv[1]), Path(sys.argv[2])
splits = {"test": 0.3, "train": 0.6, "validation": 0.1}
conversion.build(bench(root / "records"), SklearnSource(), RecordsConfig(splits=splits, shards=2))
layout = ImageSnapshot(height=12, width=10, channels=3, shards=2)
snapshots.build(bench(root / "snapshot"), Records("0", parent, "records"), layout)
print(hash("text"))
"""
    hashed = in_fresh_process(code, tmp_path / "there", parent.path, ours=True)
    assert int(hashed) != hash("text")
    snapshots.build(bench, parent, LAYOUT)
    here, there = contents(parent.path), contents(tmp_path / "there/records")
    assert {name: there[name] for name in here} == here
    assert contents(tmp_path / "there/snapshot") == contents(bench.staging.root)
