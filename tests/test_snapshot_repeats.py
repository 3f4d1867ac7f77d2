"""The bytes of records and snapshots are reproducible: after a kill, with other threads, in another process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import Records
from tasks.config import ImageSnapshot, RecordsConfig, SklearnSource
from tasks.data import records, snapshots
from tasks.processes.workbench import Workbench

SPLITS = RecordsConfig(splits={"train": 0.6, "validation": 0.1, "test": 0.3}, shards=2)
LAYOUT = ImageSnapshot(height=12, width=10, channels=3, shards=2)

GOLDEN = {
    "digits-test.tfrecord-00001-of-00002": "c301299a8645011c905b3a2b5e4c295a1ecd7b6fd44d1a6196cc6c72d0c1d225",
    "index/digits-validation.tfrecord-00000-of-00002.npy": "a1fd7c3d2e77005c9e49f408885d3ed376fcdc9bace648f558f36bee196e2a2e",  # noqa: E501
    "dataset_info.json": "afb8b3025f4722af402d4ad33e8bff03cab14c55d04c7ef1c8b4f8ceed9f8908",
    "features.json": "206bbe0f11f9d092cac217916b891383d25d1ea89a9716800dbd5e3db7bd5e1e",
    "train/image-00000-of-00002.npy": "c5be787991478b065b213fa03ff351c14775185130339c4db44d359f8496d087",
    "test/label-00001-of-00002.npy": "43728321e527ca9aac3e882684d6e6615a03a9398c2c09a496eb893652385890",
    "test/origin-00001-of-00002.npy": "c342f7eddece7a9de0f29b184bcf33682ee65614409a370f08ce154cdd39bcf5",
    "test/pieces-00001-of-00002.npy": "81c9cde7dbb6de7d16752de5c1d0738838d4ca7801873f351a572a4d51eb5fc5",
    "transform/image.json": "17372a76e82ade981ed60ac0f24d8314146e25e3a3a9744412d3413ef5203f8b",
}


def contents(root: Path) -> dict[str, str]:
    """SHA-256 by name of everything but sidecars and manifest."""
    paths = [path for path in root.rglob("*") if path.is_file() and ".pieces" not in path.parts]
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.name != "manifest.json"
    }


@pytest.fixture(scope="module")
def parent(
    tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable[..., Any], publish: Callable[..., Any]
) -> Records:
    bench = workbench_at(tmp_path_factory.mktemp("records") / "staging")
    made: Records = publish(Records, bench, records.build(bench, SklearnSource(), SPLITS))
    return made


def test_bytes_are_those_of_this_code_version(parent: Records, bench: Workbench) -> None:
    """Golden: where these change, RECORDS_VERSION or the version in `snapshots.CODE` must grow (or a library has)."""
    snapshots.build(bench, parent, LAYOUT)
    made = contents(parent.path) | contents(bench.staging.root)
    assert {name: made[name] for name in GOLDEN} == GOLDEN


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
    kept = set(before) - lost - {damaged, "transform/image.json"}
    assert all((root / name).stat().st_ino == born[name] for name in kept)


def test_another_process_hash_seed_and_number_of_threads_change_no_byte(parent: Records, tmp_path: Path) -> None:
    code = """
import json, sys
from pathlib import Path
from tasks.artifacts import Records
from tasks.config import ImageSnapshot, RecordsConfig, SklearnSource
from tasks.data import records, snapshots
from tasks.store.staging import Staging
from tasks.processes.workbench import Workbench

def bench(root):
    root.mkdir(parents=True)
    lock = root.with_suffix(".lock")
    lock.write_text(json.dumps({"token": 1}))
    nothing = lambda *values, **figures: None
    return Workbench(Staging(root, lock, 1), None, nothing, nothing, lambda: False, int(sys.argv[3]))

root, parent = Path(sys.argv[1]), Path(sys.argv[2])
splits = {"test": 0.3, "train": 0.6, "validation": 0.1}
records.build(bench(root / "records"), SklearnSource(), RecordsConfig(splits=splits, shards=2))
layout = ImageSnapshot(height=12, width=10, channels=3, shards=2)
snapshots.build(bench(root / "snapshot"), Records("0", parent, "records"), layout)
"""
    made = []
    for seed in ("1", "2"):
        root = tmp_path / seed
        command = [sys.executable, "-c", code, str(root), str(parent.path), seed]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": seed})
        made.append(contents(root / "records") | contents(root / "snapshot"))
    assert made[0] == made[1]
    assert {name: digest for name, digest in made[0].items() if name in contents(parent.path)} == contents(parent.path)
