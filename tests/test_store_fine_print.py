"""What the store and the runs keep: exactly what was written, under the name it belongs to, and nothing of others."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from tasks.artifacts import Artifact, Model, Outcome, Records
from tasks.compression import judgement
from tasks.config.compose import load
from tasks.errors import Damaged, Failed, Refused, Stopped, Superseded
from tasks.evaluation.gates import Verdict, open_gates, reasons, tags_of
from tasks.runs import differences, runs
from tasks.runs.audit import Audit, Entry
from tasks.runs.collection import Needs, collect, needed_by_releases, used
from tasks.runs.differences import PlannedArtifact
from tasks.runs.home import Home, find_home, is_local
from tasks.runs.runs import Run, opened, resolve_run
from tasks.store import files, lock, staging
from tasks.store.files import CHUNK, canonical, checksums, replacing, write
from tasks.store.journal import JournalFile, read
from tasks.store.lock import locked, place
from tasks.store.store import Store, digest_of
from tests.support.homes import DIGITS


def inputs_of(number: int, kind: str = "records", **parents: str) -> dict[str, Any]:
    code = {"version": 1, "libraries": {}}
    return {"kind": kind, "config": {"number": number}, "parents": parents, "sources": [], "code": code}


def published(store: Store, number: int = 1, content: bytes = b"bytes", **parents: str) -> Artifact:
    inputs = inputs_of(number, **parents)
    with store.claim(Records, digest_of(inputs), "records") as claim:
        claim.staging.put("part", content)
        return claim.publish(inputs, Outcome(counts={}), {"run": "r"})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


def test_a_file_that_has_grown_is_damaged_by_its_size_alone(store: Store) -> None:
    made = published(store)
    (made.path / "part").write_bytes(b"bytes and more")
    assert store.fault("records", made.digest, made.path) == ("part", "has 14 bytes instead of 5")


def test_a_manifest_of_other_inputs_or_of_another_kind_is_not_this_artifact(store: Store) -> None:
    made = published(store)
    manifest = json.loads((made.path / "manifest.json").read_bytes())
    other = made.path.parent / "other"
    for change in ({"inputs": inputs_of(2)}, {"kind": "model"}, {"digest": "0" * 64}):
        other.mkdir(exist_ok=True)
        (other / "part").write_bytes(b"bytes")
        (other / "manifest.json").write_text(json.dumps({**manifest, **change}))
        found = Store(store.root / "elsewhere").fault("records", made.digest, other)
        assert found is not None and found[0] == "manifest.json", change
    (other / "manifest.json").write_text(json.dumps(manifest))
    assert Store(store.root / "elsewhere").fault("records", made.digest, other) is None


def test_a_manifest_that_was_changed_since_it_was_verified_is_found(store: Store) -> None:
    """Its inputs are the same, and so are its files; the counts are what pages and the export read."""
    made = published(store)
    manifest = json.loads((made.path / "manifest.json").read_bytes())
    (made.path / "manifest.json").write_text(json.dumps({**manifest, "counts": {"examples": 9}}))
    assert store.fault("records", made.digest, made.path) == ("manifest.json", "has been changed")


@pytest.mark.parametrize("content", [b"", b"{torn", b"\xff", None])
def test_what_was_verified_is_hashed_again_where_the_cache_of_it_is_damaged(
    content: bytes | None, store: Store
) -> None:
    made = published(store)
    [cache] = (store.root / ".verified").rglob("*.json")
    cache.unlink() if content is None else cache.write_bytes(content)
    assert store.find(Records, made.digest, "records") is not None
    assert json.loads(cache.read_bytes()), "and is written anew"


@pytest.mark.parametrize("content", [b"", b"{torn", b"{}", b'{"bytes": 5}', None])
def test_a_piece_whose_sidecar_is_damaged_must_be_written(content: bytes | None, store: Store) -> None:
    with store.claim(Records, digest_of(inputs_of(1)), "records") as claim:
        claim.staging.put("part", b"bytes", rows=3)
        assert claim.staging.adopt("part") == {"rows": 3}
        [sidecar] = [path for path in claim.staging.root.rglob("part.json") if path.parent != claim.staging.root]
        sidecar.unlink() if content is None else sidecar.write_bytes(content)
        assert claim.staging.adopt("part") is None


def test_verify_hashes_what_the_cache_calls_verified(store: Store) -> None:
    made = published(store)
    cache = store.root / ".verified/records" / f"{made.digest}.json"
    part = made.path / "part"
    part.write_bytes(b"bytez")
    stat = part.stat()
    known = json.loads(cache.read_bytes())
    known["part"] = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
    cache.write_text(json.dumps(known))
    assert store.fault("records", made.digest, made.path) is None, "what the cache says is believed"
    found = store.verify(made.path)
    assert found is not None and found[0] == "part" and "has sha256" in found[1]


def test_checksums_are_of_the_whole_file_and_not_of_its_last_part(tmp_path: Path) -> None:
    content = os.urandom(CHUNK + 3)
    (tmp_path / "file").write_bytes(content)
    found = checksums(tmp_path / "file")
    assert found.bytes == CHUNK + 3 and found.crc32c == f"{google_crc32c.value(content):08x}"


def test_canonical_json_is_one_text_for_one_value_and_none_for_what_is_no_number() -> None:
    assert canonical({"b": 1, "a": {"d": [1.5, "ü"], "c": None}}) == '{"a":{"c":null,"d":[1.5,"ü"]},"b":1}'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": math.nan})


def test_a_rename_is_on_the_disk_when_a_write_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[str, Path]] = []
    real = os.replace
    monkeypatch.setattr(files, "sync", lambda path: events.append(("sync", path)))

    def replace(old: Path, new: Path) -> None:
        events.append(("replace", new))
        real(old, new)

    monkeypatch.setattr(os, "replace", replace)
    write(tmp_path / "name", b"content")
    assert [kind for kind, _ in events] == ["sync", "replace", "sync"]
    assert events[0][1].name.startswith("name.") and events[2] == ("sync", tmp_path)


def test_two_processes_that_write_a_file_write_two_drafts(tmp_path: Path) -> None:
    with replacing(tmp_path / "name") as draft, replacing(tmp_path / "name") as other:
        assert draft != other and {draft.suffix, other.suffix} == {files.PARTIAL}
        draft.write_bytes(b"ours")
        other.write_bytes(b"theirs")
    with contextlib.suppress(RuntimeError), replacing(tmp_path / "name") as draft:
        draft.write_bytes(b"torn")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["name"] and (tmp_path / "name").read_bytes() == b"ours"


def test_a_holder_that_has_gone_on_is_not_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the observation that it was silent and its end it has shown a sign of life."""
    import psutil

    holder = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    path = tmp_path / "x.lock"
    owner = {"token": 1, "pid": holder.pid, "started": psutil.Process(holder.pid).create_time()}
    path.write_text(json.dumps({**owner, "host": place()}))
    now = [0.0]
    watch = lock.Watch(path, lambda: now[0])
    said: list[str] = []
    now[0] += 1
    assert watch.look() > 0
    os.utime(path)
    lock._end(watch, said.append, lock.SILENCE)
    assert holder.poll() is None and said == []
    now[0] += 1
    lock._end(watch, said.append, lock.SILENCE)
    assert holder.wait(10) is not None and "ending it and taking over" in said[0]


def test_a_heartbeat_goes_on_after_an_error_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[Path] = []
    over = threading.Event()

    def utime(path: Path) -> None:
        beats.append(path)
        if len(beats) == 1:
            raise OSError("the disk is full")
        over.set()

    monkeypatch.setattr(lock, "BEAT", 0.001)
    monkeypatch.setattr(os, "utime", utime)
    lock._beat(tmp_path, over)
    assert len(beats) == 2


def test_a_signature_covers_the_longer_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    for _ in range(2):
        with locked(path) as held:
            assert json.loads(path.read_bytes())["pid"] == os.getpid()
            held.check("x")
        assert json.loads(path.read_bytes()) == {"token": held.token}
    path.write_bytes(b"\xff\xfe no token")
    with pytest.raises(Failed, match="cannot be read; it holds the token of the last attempt"), locked(path):
        pass


def test_a_rewritten_piece_has_no_sidecar_until_it_is_whole(store: Store) -> None:
    """Killed between the rename of the new content and the writing of its sidecar, the old one must not be there."""
    with store.claim(Records, "d", "records") as claim:
        claim.staging.put("a", b"first", rows=1)

        def killed(path: Path, content: bytes) -> None:
            assert not path.exists()
            raise RuntimeError("killed")

        with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError, match="killed"):
            patch.setattr(staging, "write", killed)
            claim.staging.put("a", b"other", rows=2)
        assert (claim.staging.root / "a").read_bytes() == b"other" and claim.staging.adopt("a") is None
        assert claim.staging.pieces() == {}


def test_a_piece_is_dropped_with_its_sidecar_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    real = Path.unlink
    with store.claim(Records, "d", "records") as claim:
        claim.staging.put("model/a", b"first")

        def unlink(path: Path, missing_ok: bool = False) -> None:
            removed.append(path.name)
            real(path, missing_ok)

        monkeypatch.setattr(Path, "unlink", unlink)
        claim.staging.drop("model/a")
        monkeypatch.undo()
        assert removed == ["a.json", "a"] and claim.staging.pieces() == {}


def test_room_is_asked_for_beyond_what_is_there_with_a_margin(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def free(size: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Disk(size))

    with store.claim(Records, "d", "records") as claim:
        claim.staging.put("a", bytes(1 << 20))
        present = sum(path.stat().st_size for path in claim.staging.root.rglob("*") if path.is_file())
        free(staging.MARGIN + 1000)
        claim.staging.reserve(present + 1000)
        with pytest.raises(Failed, match="needs about"):
            claim.staging.reserve(present + 1001)
        free(staging.MARGIN - 1)
        with pytest.raises(Failed, match="make room"):
            claim.staging.reserve(0)


class Disk:
    """A disk with so much room."""

    def __init__(self, free: int) -> None:
        self.free = free


def test_pieces_of_a_folder_are_named_alone_and_in_order(store: Store) -> None:
    with store.claim(Records, "d", "records") as claim:
        for name in ("b/z", "b/a", "c", "a"):
            claim.staging.put(name, name.encode())
        assert list(claim.staging.pieces()) == ["a", "b/a", "b/z", "c"]
        assert list(claim.staging.pieces("b/")) == ["b/a", "b/z"]


def test_only_what_has_a_row_is_published(store: Store) -> None:
    inputs = inputs_of(1)
    with store.claim(Records, digest_of(inputs), "records") as claim:
        for name in ("part", "checkpoints/1/state"):
            claim.staging.put(name, b"bytes")
        (claim.staging.scratch("library") / "log.json").write_text("{}")
        (claim.staging.root / "left.json").write_text("{}")
        made = claim.publish(inputs, Outcome(counts={}), {"run": "r"})
    assert sorted(path.name for path in made.path.rglob("*")) == ["manifest.json", "part"]


def test_a_superseded_attempt_publishes_nothing(store: Store) -> None:
    inputs = inputs_of(1)
    with store.claim(Records, digest_of(inputs), "records") as claim:
        claim.staging.put("part", b"bytes")
        claim.staging.lock.write_text(json.dumps({"token": claim.staging.token + 1}))
        with pytest.raises(Superseded):
            claim.publish(inputs, Outcome(counts={}), {"run": "r"})
        assert not store.path("records", digest_of(inputs)).exists()


def test_a_copy_that_was_fetched_is_on_the_disk_before_it_has_its_name(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.store import store as module

    made = published(Store(tmp_path / "other"))
    with store.claim(Records, made.digest, "records") as claim:
        folder = claim.staging.scratch("fetched")
        for name in ("part", "manifest.json"):
            (folder / name).write_bytes((made.path / name).read_bytes())
        assert claim.fault(folder) is None
        events: list[tuple[str, Path]] = []
        monkeypatch.setattr(module, "sync", lambda path: events.append(("sync", path)))
        real = os.rename

        def rename(old: Path, new: Path) -> None:
            events.append(("rename", new))
            real(old, new)

        monkeypatch.setattr(os, "rename", rename)
        taken = claim.take(folder)
    named = events.index(("rename", taken.path))
    assert {("sync", folder / "part"), ("sync", folder / "manifest.json"), ("sync", folder)} <= set(events[:named])
    assert events[named + 1 :][:2] == [("sync", taken.path.parent), ("sync", store.root)]
    (taken.path / "part").write_bytes(b"bytez")
    with pytest.raises(Damaged):
        store.find(Records, made.digest, "records")


def test_artifacts_are_listed_by_their_time_and_not_by_their_name(store: Store) -> None:
    made = sorted((published(store, number) for number in range(4)), key=lambda each: each.digest, reverse=True)
    for second, each in enumerate(made):
        manifest = json.loads((each.path / "manifest.json").read_bytes())
        manifest["created"] = f"2026-01-01T00:00:0{second}+00:00"
        (each.path / "manifest.json").write_text(json.dumps(manifest))
    assert [each.digest for each in store.artifacts()] == [each.digest for each in made]


def test_where_nothing_can_be_noted_as_verified_an_artifact_is_used_all_the_same(store: Store) -> None:
    made = published(store)
    shutil.rmtree(store.root / ".verified")
    (store.root / ".verified").write_bytes(b"no folder can be made here, as on a disk that is read-only")
    assert store.find(Records, made.digest, "records") is not None


def test_what_is_synced_is_closed_again(tmp_path: Path) -> None:
    """A conversion syncs thousands of files, and a process may have so many open."""
    before = set(Path("/proc/self/fd").iterdir())
    for _ in range(20):
        files.sync(tmp_path)
    assert len(set(Path("/proc/self/fd").iterdir()) - before) < 20


@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_who_does_not_find_the_own_token_may_not_write(content: bytes | None, tmp_path: Path) -> None:
    (tmp_path / "l").write_text(json.dumps({"token": 3}))
    mine = lock.Lock(tmp_path / "l", 3)
    mine.check("it")
    (tmp_path / "l").unlink() if content is None else (tmp_path / "l").write_bytes(content)
    with pytest.raises(Superseded):
        mine.check("it")


def test_a_token_is_on_the_disk_before_its_holder_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that a power cut takes back would be given out a second time."""
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append(json.loads(Path(f"/proc/self/fd/{descriptor}").read_bytes())["token"])

    monkeypatch.setattr(os, "fsync", fsync)
    with locked(tmp_path / "l") as mine:
        assert synced == [mine.token]


def test_what_a_library_writes_to_is_empty_each_time(store: Store) -> None:
    with store.claim(Records, "d", "records") as claim:
        (claim.staging.scratch("saved") / "of an attempt that was killed").write_bytes(b"x")
        folder = claim.staging.scratch("saved")
        assert list(folder.iterdir()) == []
        (folder / "whole").write_bytes(b"bytes")
        claim.staging.take(folder)
        assert list(claim.staging.pieces()) == ["whole"] and not folder.exists()


def test_a_manifest_has_all_that_the_work_said_of_its_result(store: Store) -> None:
    inputs, spans = inputs_of(1), [{"from": 5, "threads": 2}]
    outcome = Outcome({"train": 3}, {"a": 1}, {"mean": 2.0}, layouts=spans, also={"steps": 7, "kind": "model"})
    with store.claim(Records, digest_of(inputs), "records") as claim:
        manifest = claim.publish(inputs, outcome, {"run": "r", "layout": {"threads": 1}}).manifest
    told = ("counts", "features", "statistics", "steps", "parents", "inputs", "kind")
    assert [manifest[name] for name in told] == [{"train": 3}, {"a": 1}, {"mean": 2.0}, 7, {}, inputs, "records"]
    assert manifest["produced_by"] == {"run": "r", "layout": {"threads": 1, "spans": spans}}


def test_what_has_no_manifest_is_not_published(store: Store) -> None:
    made = published(store)
    store.path("records", "0" * 64).mkdir()
    assert store.published() == store.published("records") == [made.path]


def test_a_kind_before_a_digest_leaves_out_the_others(store: Store) -> None:
    made = published(store)
    shutil.copytree(made.path, store.path("model", made.digest))
    for kind in ("records", "model"):
        assert store.resolve(f"{kind}/{made.digest[:8]}").kind == store.resolve(made.digest[:8], kind).kind == kind
    with pytest.raises(Refused, match="model/"):
        store.resolve(made.digest[:8])


def test_the_children_of_an_artifact_are_those_that_have_it_as_a_parent(store: Store) -> None:
    first, other = published(store), published(store, 2)
    child = published(store, 3, snapshot=first.digest)
    published(store, 4, snapshot=child.digest)
    assert [each.digest for each in store.children_of(first.digest)] == [child.digest]
    assert store.children_of(other.digest) == store.children_of("snapshot") == []
    assert {name: each.digest for name, each in store.parents_of(child).items()} == {"snapshot": first.digest}


def test_nothing_names_no_artifact(store: Store) -> None:
    made = published(store)
    for reference in ("", "records/"):
        with pytest.raises(Refused, match="no such artifact"):
            store.resolve(reference)
    assert store.resolve(f"records/{made.digest[:6]}").digest == made.digest
    with pytest.raises(Refused, match="a kind is one of"):
        store.resolve(f"thing/{made.digest}")
    with pytest.raises(Refused):
        store.resolve(made.digest, "model")


def entry(before: str | None, after: str, action: str = "promote", **more: str) -> Entry:
    alias, model = more.get("alias", "champion"), more.get("model", "digits")
    return Entry(action, model, after, "e", alias, before, after, "run", "gate", "by the gate", "reason")


def test_the_champions_of_a_log_are_in_order_and_those_that_were_rolled_back_are_none(home: Home) -> None:
    audit = Audit(home)

    def champions(*entries: Entry) -> list[str]:
        audit.path.unlink(missing_ok=True)
        for each in entries:
            audit.begin(each, {})
            audit.close()
        return audit.champions("digits")

    one, two, three = entry(None, "1"), entry("1", "2"), entry("2", "3")
    assert champions(one, two, three) == ["1", "2", "3"]
    assert champions(one, two, three, entry("3", "2", "rollback")) == ["1", "2"]
    assert champions(one, two, three, entry("3", "1", "rollback")) == ["1"], "what came between was left, too"
    assert champions(one, two, entry("2", "2")) == ["1", "2"], "nothing was moved"
    assert champions(one, entry("7", "8")) == ["1", "7", "8"], "moved by hand meanwhile"
    assert champions(one, entry("1", "2", alias="candidate"), entry(None, "9", model="other")) == ["1"]
    assert audit.ever_champion("digits") == {"1"}


@pytest.mark.parametrize("line", ["", "{", "5", "null", "[]", '["sum"]', '"sum"', "{}", '{"sum": 1}', "\udcff"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_whatever_is_no_entry_is_the_fault_of_its_line(line: str, place: int, home: Home) -> None:
    audit = Audit(home)
    for before, after in ((None, "1"), ("1", "2")):
        audit.begin(entry(before, after), {})
        audit.close()
    lines = audit.path.read_bytes().splitlines()
    lines.insert(place, line.encode(errors="surrogateescape"))
    audit.path.write_bytes(b"".join(each + b"\n" for each in lines))
    fault = audit.fault()
    assert fault is not None and fault[0] == place + 1
    with pytest.raises(Failed) as failed:
        audit.rows()
    assert failed.value.field == f"{audit.path} line {place + 1}"


def test_a_line_that_a_killed_process_wrote_is_not_written_twice(home: Home) -> None:
    audit = Audit(home)
    audit.begin(entry(None, "1"), {"tags": {}})
    begun = audit._begun.read_bytes()
    audit.close()
    audit._begun.write_bytes(begun)  # killed before it was deleted
    assert audit.begun() is not None
    audit.close()
    assert len(audit.rows()) == 1 and audit.begun() is None


def test_a_line_is_on_the_disk_before_the_change_is_forgotten(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    audit, events, real = Audit(home), list[str](), (os.fsync, Path.unlink)

    def fsync(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real[0](descriptor)

    def unlink(path: Path, missing_ok: bool = False) -> None:
        events.append(f"forgotten {path.name}")
        real[1](path, missing_ok)

    audit.begin(entry(None, "1"), {})
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "unlink", unlink)
    audit.close()
    assert events == ["audit.jsonl", "home", "forgotten audit.begun.json", "home"]


def run_of(home: Home, seed: int, exit_code: int | None = 0) -> Run:
    with opened(home, "pipeline", load(DIGITS, [("seed", str(seed))]), new=True, prefect_id=None, waiting=print) as run:
        if exit_code is not None:
            run.end(exit_code, "completed", None)
    return Run(home, run.folder.rename(home.runs / f"2026{seed:04d}-000000-digits-0000"))


def test_gc_keeps_what_a_kept_artifact_was_made_of_and_says_without_deleting(home: Home) -> None:
    store = Store(home.store)
    first = published(store, 1)
    second = published(store, 2, records=first.digest)
    lost = published(store, 3)
    run_of(home, 1).use("records", second.digest)
    damaged = home.store / ".damaged/old"
    damaged.mkdir(parents=True)
    (home.studies / "x").parent.mkdir(exist_ok=True)
    (home.studies / "one.db").write_bytes(b"12345")
    assert used(home, runs.find_runs(home)) == {f"records/{each.digest}" for each in (first, second)}
    said = [(row.what, row.bytes) for row in collect(home, 5, dry_run=True)]
    assert said[1][0] == f"records/{lost.digest}" and said[2] == ("study/one", 5)
    assert damaged.exists() and lost.path.exists() and (home.studies / "one.db").exists()
    assert [(row.what, row.bytes) for row in collect(home, 5, dry_run=False)] == said
    assert not damaged.exists() and not lost.path.exists() and not (home.studies / "one.db").exists()
    assert first.path.exists() and second.path.exists()
    assert not (home.store / ".verified/records" / f"{lost.digest}.json").exists()


def test_of_older_runs_a_release_alone_keeps_its_artifacts(home: Home) -> None:
    """What was released and lost its gate has a release.json, too; a run without one is over."""
    old = [run_of(home, seed, exit_code) for seed, exit_code in enumerate((0, 3, 0))]
    for number, run in enumerate(old):
        run.use("records", f"d{number}")
    for run in old[:2]:
        (run.folder / "release.json").write_text("{}")
    run_of(home, 8)
    assert Needs(home, 1).names == {"records/d0"}
    assert Needs(home, 2).names == {"records/d0", "records/d2"}
    made = published(Store(home.store))
    old[0].use("records", made.digest)
    assert needed_by_releases(home) == {f"records/{made.digest}"}, "the others are not in the store"


def test_the_trials_of_a_kept_run_keep_their_models_and_those_of_a_release_do_not(home: Home) -> None:
    from tasks.runs.runs import open_trial

    runs_of = [run_of(home, seed) for seed in range(2)]
    for number, run in enumerate(runs_of):
        open_trial(run, 0, run.config).use("model", f"trial{number}")
    (runs_of[0].folder / "release.json").write_text("{}")
    assert Needs(home, 1).names == {"model/trial1"}


def test_a_run_notes_what_it_uses_once(home: Home) -> None:
    run = run_of(home, 1)
    for digest in ("a", "b", "a"):
        run.use("model", digest)
    assert (run.folder / "uses").read_text() == "model/a\nmodel/b\n"


def test_a_run_notes_what_it_uses_on_the_disk_before_it_uses_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or gc, after a power cut, removes what a run that goes on has made."""
    run, synced, real = run_of(home, 1), list[bytes](), os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").read_bytes())

    monkeypatch.setattr(os, "fsync", fsync)
    run.use("model", "a")
    assert synced == [b"model/a\n"]


def test_an_attempt_begins_with_the_lock_of_its_run_and_without_the_results_of_the_last_one(home: Home) -> None:
    """They are used again one by one, and a page of the attempt would show them as its own before."""
    config = load(DIGITS)
    with opened(home, "pipeline", config, new=False, prefect_id=None, waiting=print) as run:
        run.made("train", Model("a", home.store / "a", "model"), 1.0)
        run.end(1, "failed", {"field": "a"})
    with opened(home, "pipeline", config, new=False, prefect_id=None, waiting=print) as again:
        assert again.folder == run.folder and again.lock is not None and run.lock is not None
        assert again.lock.token == run.lock.token + 1
        record = Run(home, run.folder).record
        assert (record["stages"], record["exit_code"], record["status"]) == ({}, None, "running")
        assert [each["attempt"] for each in record["attempts"]] == [1, 2]


def test_a_line_is_whole_where_the_disk_takes_a_part_at_a_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    audit, real = Audit(home), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, content[:100]))
    for each in (entry(None, "1"), entry("1", "2")):
        audit.begin(each, {})
        audit.close()
    monkeypatch.undo()
    assert audit.fault() is None and audit.champions("digits") == ["1", "2"]


def test_a_result_replaces_the_one_of_its_name_alone(home: Home) -> None:
    run = run_of(home, 1)
    for name, digest in (("seed_1", "a"), ("seed_2", "b"), ("seed_1", "c")):
        run.made("train", Model(digest, home.store / digest, name), 1.23456, cached=False)
    rows = Run(home, run.folder).record["stages"]["train"]
    assert [(row["name"], row["digest"], row["seconds"]) for row in rows] == [
        ("seed_2", "b", 1.235),
        ("seed_1", "c", 1.235),
    ]


def test_a_stop_before_the_run_recorded_its_end_is_its_end(home: Home) -> None:
    with pytest.raises(Stopped), opened(home, "pipeline", load(DIGITS, []), new=True, prefect_id=None, waiting=print):
        raise Stopped(signal.SIGTERM)
    [run] = runs.find_runs(home)
    assert run.record["status"] == "stopped" and run.exit_code == Stopped(signal.SIGTERM).exit_code
    assert run.record["attempts"][0]["ended"]


def test_a_run_that_ended_while_it_was_waited_for_is_not_continued(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(DIGITS, [])
    with opened(home, "pipeline", config, new=True, prefect_id=None, waiting=print) as first:
        pass
    ended: list[Path] = []

    @contextlib.contextmanager
    def late(path: Path, *more: Any) -> Any:
        if path == first.folder / "lock" and not ended:
            ended.append(path)
            first.end(0, "completed", None)  # by the process that had the lock
        with locked(path, *more) as held:
            yield held

    monkeypatch.setattr("tasks.runs.runs.locked", late)
    with opened(home, "pipeline", config, new=False, prefect_id=None, waiting=print) as second:
        assert second.folder != first.folder and second.attempt == 1


def test_a_run_whose_id_is_a_part_of_another_is_named_by_it(home: Home) -> None:
    run_of(home, 1)
    for name in ("20260001-000000-digits-0000-again",):
        (home.runs / name).mkdir()
        (home.runs / name / "run.json").write_text((home.runs / "20260001-000000-digits-0000/run.json").read_text())
    assert resolve_run(home, "20260001-000000-digits-0000").run_id == "20260001-000000-digits-0000"
    for reference in ("digits", "", "other"):
        with pytest.raises(Refused):
            resolve_run(home, reference)


def test_a_run_that_could_not_be_begun_leaves_no_folder(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs, "write", full)
    with pytest.raises(OSError, match="No space left"):
        runs._begin(home, "pipeline", load(DIGITS, []), "identity")
    assert list(home.runs.glob("*")) == []


def test_a_torn_line_of_a_journal_makes_way_for_the_next(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    JournalFile(path).append(10, {"train/loss": 0.5})
    with open(path, "ab") as file:
        file.write(b'{"step": 20, "met')
    journal = JournalFile(path)
    journal.append(20, {"train/loss": math.inf, "validation/loss": math.nan})
    points = list(read(path))
    assert [point.step for point in points] == [10, 20] and points[1].metrics["train/loss"] == math.inf
    assert points[-1].end == path.stat().st_size and [each.step for each in read(path, points[0].end)] == [20]
    json.loads(path.read_bytes().splitlines()[-1], parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_each_of_several_trainings_has_a_journal_and_a_last_step_of_its_own(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "metrics.jsonl")
    journal.of("seed_1").append(30, {"train/loss": 0.5})
    journal.append(10, {"train/loss": 0.5})
    journal.append(40, {"validation/loss": 0.5})
    reached = [JournalFile(journal.path, prefix).reached for prefix in ("", "seed_1/", "seed_2/")]
    assert reached == [10, 30, 0]


def planned(number: int, parents: dict[str, PlannedArtifact] | None = None, **config: Any) -> PlannedArtifact:
    inputs = inputs_of(number, **{name: each.digest for name, each in (parents or {}).items()})
    inputs["config"] |= config
    return PlannedArtifact("records", inputs, parents or {})


def test_why_names_a_parents_difference_and_no_other(store: Store) -> None:
    parent = published(store, 1)
    child = published(store, 5, records=parent.digest)
    same = PlannedArtifact("records", inputs_of(1), {})
    assert differences.explain(store, child, planned(5, {"records": same})) == []
    other = PlannedArtifact("records", inputs_of(2), {})
    [found] = differences.explain(store, child, planned(5, {"records": other}))
    assert str(found) == "number: 1 → 2"
    [gone] = differences.explain(store, child, planned(5))
    assert str(gone) == f"records: parent records: {parent.digest[:12]} → none"


def test_the_nearest_artifact_is_that_of_the_fewest_differences_and_of_equal_ones_the_newest(store: Store) -> None:
    made = [published(store, number) for number in (1, 2)]
    for second, each in enumerate(made):
        manifest = json.loads((each.path / "manifest.json").read_bytes())
        manifest["created"] = f"2026-01-01T00:00:0{second}+00:00"
        (each.path / "manifest.json").write_text(json.dumps(manifest))
    near = differences.nearest(store, planned(3))
    assert near is not None and near[0].digest == made[1].digest
    exact = differences.nearest(store, planned(1))
    assert exact is not None and exact[0].digest == made[0].digest and exact[1] == []
    assert differences.nearest(store, planned(1, variant="int8")) is None, "of another variant nothing is near"


def test_a_server_is_ours_by_its_port_on_this_machine(home: Home) -> None:
    assert not home.owns("http://127.0.0.1:5000")
    home.stack_file.write_text(json.dumps({"layout": {"mlflow_port": 5000, "host": "192.168.0.7"}}))
    for address, ours in (
        ("http://127.0.0.1:5000", True),
        ("http://192.168.0.7:5000", True),
        ("http://127.0.0.1:5001", False),
        ("http://mlflow.example.com:5000", False),
    ):
        assert home.owns(address) is ours, address
    assert [is_local(name) for name in ("localhost", "127.0.0.9", socket.gethostname(), "example.com")] == [
        True,
        True,
        True,
        False,
    ]


def test_a_home_is_that_of_the_environment_or_of_the_nearest_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MILLRACE_HOME", raising=False)
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    assert find_home(inner).root == inner / ".millrace"
    (tmp_path / "prefect.yaml").touch()
    assert find_home(inner).root == tmp_path / ".millrace"
    (tmp_path / "a/prefect.yaml").touch()
    assert find_home(inner).root == tmp_path / "a/.millrace"
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "other"))
    assert find_home(inner).root == tmp_path / "other"


def test_a_rejected_variant_is_on_no_front_and_an_unjudged_one_is_said_to_be() -> None:
    def point(accepted: bool, dominated: str | None) -> dict[str, Any]:
        return {"accepted": accepted, "dominated_by": dominated}

    front = {"a": point(True, None), "b": point(True, "a"), "c": point(False, None)}
    made = {"front": front, "chosen": "a", "want": {"bytes": 9}, "standing": dict.fromkeys("abc", "accepted")}
    rows = {name: {**row, "name": name, "bytes": 1, "loss": 0.0, "latency": None} for name, row in front.items()}
    read = judgement.JUDGEMENT.validate_python({**made, "front": rows})
    assert [read.place(name) for name in "abcd"] == ["on the front, chosen", "dominated by a", "", ""]
    assert read.tags() == {"millrace.front": "a", "millrace.chosen": "a"}
    assert replace(read, want=None).tags() == {"millrace.front": "a"}
    assert read.words("d") == "not judged" and judgement.Judgement().words("d") == ""
    said = (("size", "fail", "too large"), ("quality", "not enough data", "few"), ("memory", "pass", "small"))
    verdicts = [Verdict(gate, 1.0, 0.5, verdict, text) for gate, verdict, text in said]
    assert tags_of({"a": verdicts}) == {"millrace.gates.a": "fail: size; not enough data: quality"}
    assert reasons(verdicts) == "too large; few" and open_gates(verdicts) == "few"
