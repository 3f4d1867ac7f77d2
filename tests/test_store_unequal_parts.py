"""A store and its home where there are several: parents, stagings, folders, models of one audit log."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import Refused
from tasks.runs import collection, differences
from tasks.runs.audit import Audit, Entry
from tasks.runs.differences import PlannedArtifact
from tasks.runs.home import Home
from tasks.store.files import PARTIAL
from tasks.store.lock import MOST, Watch
from tasks.store.staging import Staging
from tasks.store.store import Store, digest_of

FOLDERS = ("store", "runs", "prefect", "mlartifacts")


def entry(before: str | None, after: str, model: str = "digits", alias: str = "champion") -> Entry:
    return Entry("promote", model, after, "export", alias, before, after, "run", "ada", "as stated", "reason")


def test_the_versions_that_were_ever_champion_are_of_one_model_and_of_both_ends_of_a_move(tmp_path: Path) -> None:
    audit = Audit(Home(tmp_path).make())
    for each in (
        entry(None, "1"),
        entry("7", "8"),  # 7 was made champion by hand
        entry(None, "2", alias="candidate"),
        entry("20", "21", model="other"),
        entry(None, "30", model="third"),
    ):
        audit.begin(each, {})
        audit.close()
    assert audit.ever_champion("digits") == {"1", "7", "8"} and audit.ever_champion("other") == {"20", "21"}
    assert audit.champions("digits") == ["1", "7", "8"] and audit.champions("third") == ["30"]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_home_has_each_of_its_folders_and_says_which_cannot_be_one(name: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.readable() is home, "it need not be there"
    home.make()
    assert all((home.root / folder).is_dir() for folder in FOLDERS)
    (home.root / name).rmdir()
    (home.root / name).write_text("a file")
    with pytest.raises(Refused, match=f"home/{name}: "):
        home.make()
    if name in ("store", "runs"):
        with pytest.raises(Refused, match=f"home/{name}: not a folder"):
            home.readable()
    else:
        home.readable()


def inputs_of(kind: str, number: int, **parents: str) -> dict[str, Any]:
    code = {"version": 1, "libraries": {}}
    config = {kind: {"number": number}}
    return {"kind": kind, "format": 1, "config": config, "parents": parents, "sources": [], "code": code}


def published(store: Store, kind: str, number: int, **parents: str) -> str:
    inputs = inputs_of(kind, number, **parents)
    digest = digest_of(inputs)
    folder = store.path(kind, digest)
    folder.mkdir(parents=True)
    manifest = {"kind": kind, "digest": digest, "inputs": inputs, "parents": parents, "files": []}
    manifest["created"] = "2026-01-01T00:00:00+00:00"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return digest


def test_a_difference_of_each_parent_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    records = published(store, "records", 1)
    snapshot = published(store, "snapshot", 1, records=records)
    model = published(store, "model", 1, snapshot=snapshot)
    published(store, "report", 1, model=model, snapshot=snapshot)
    other_records = PlannedArtifact("records", inputs_of("records", 2), {})
    planned_snapshot = inputs_of("snapshot", 1, records=other_records.digest)
    other_snapshot = PlannedArtifact("snapshot", planned_snapshot, {"records": other_records})
    other_model = PlannedArtifact(
        "model", inputs_of("model", 3, snapshot=other_snapshot.digest), {"snapshot": other_snapshot}
    )
    wanted = PlannedArtifact(
        "report",
        inputs_of("report", 4, model=other_model.digest, snapshot=other_snapshot.digest),
        {"model": other_model, "snapshot": other_snapshot},
    )
    found = differences.nearest(store, wanted)
    assert found is not None
    assert sorted(map(str, found[1])) == ["model.number: 1 → 3", "records.number: 1 → 2", "report.number: 1 → 4"]


def test_all_ancestors_of_what_is_used_stay(tmp_path: Path) -> None:
    home = Home(tmp_path).make()
    store = Store(home.store)
    records = published(store, "records", 1)
    snapshot, other = (published(store, "snapshot", number, records=records) for number in (1, 2))
    model, teacher = (published(store, "model", number, snapshot=each) for number, each in ((1, snapshot), (2, other)))
    taught = published(store, "model", 3, prepared=model, snapshot=snapshot, teacher=teacher)
    run = tmp_path / "runs/one"
    run.mkdir()
    (run / "uses").write_text(f"model/{taught}\nreport/missing\n")

    class Run:
        folder = run

    found = collection.used(home, [Run()])  # type: ignore[list-item]
    assert found == {
        f"model/{taught}",
        "report/missing",
        f"model/{model}",
        f"model/{teacher}",
        f"snapshot/{snapshot}",
        f"snapshot/{other}",
        f"records/{records}",
    }


def test_every_staging_that_nobody_needs_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path).make()
    monkeypatch.setattr(collection, "used", lambda *given: {"model/b", "study/kept"})
    sizes = {"model/a": 3, "model/b": 5, "snapshot/c": 7, "records/d": 11}
    for name, size in sizes.items():
        folder = home.store / ".staging" / name
        folder.mkdir(parents=True)
        (folder / "piece").write_bytes(bytes(size))
    home.studies.mkdir()
    for study in ("gone1", "gone2", "kept"):
        (home.studies / f"{study}.db").write_bytes(bytes(2))
    for dry_run in (True, False):
        dropped = {row.what: row.bytes for row in collection.collect(home, 5, dry_run=dry_run)}
        staged = {"staging of model/a": 3, "staging of snapshot/c": 7, "staging of records/d": 11}
        assert dropped == {**staged, "study/gone1": 2, "study/gone2": 2}
    left = sorted(
        path.relative_to(home.store / ".staging").as_posix() for path in (home.store / ".staging").glob("*/*")
    )
    assert left == ["model/b"] and sorted(path.stem for path in home.studies.glob("*.db")) == ["kept"]


def test_what_a_killed_attempt_had_not_finished_goes_from_every_folder(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "staging", tmp_path / "lock", 1)
    for name in ("piece", "deep/piece", "deep/er/piece"):
        for path in (staging.root / name, staging.root / f"{name}.12{PARTIAL}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("content")
    staging.clear()
    left = sorted(path.relative_to(staging.root).as_posix() for path in staging.root.rglob("*") if path.is_file())
    assert left == ["deep/er/piece", "deep/piece", "piece"]


def test_silence_is_what_the_waiter_saw_by_itself_and_ends_with_a_heartbeat(tmp_path: Path) -> None:
    """A waiter that was suspended has seen no silence in that time; a heartbeat changes the time of the file alone."""
    path, now = tmp_path / "lock", [0.0]
    path.write_text("{}")
    watch = Watch(path, lambda: now[0])
    silences = []
    for passed in (0.25, 500.0, 0.5):
        now[0] += passed
        silences.append(watch.look())
    assert silences == [0.25, 0.25 + MOST, 0.75 + MOST]
    os.utime(path, (9, 9))
    now[0] += 0.25
    assert watch.look() == 0.0
    now[0] += 0.25
    assert watch.look() == 0.25
    path.write_text('{"token": 2}')
    os.utime(path, (9, 9))
    assert watch.look() == 0.0, "another holder"
