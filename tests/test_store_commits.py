"""A published artifact is complete and is never changed, and a superseded process publishes nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import Artifact, Outcome, Records
from tasks.errors import Damaged, Failed, Refused, Superseded
from tasks.processes.workbench import Workbench
from tasks.store.files import Checksums, checksums
from tasks.store.store import Store, digest_of

INPUTS = {"kind": "records", "format": 1, "config": {"a": 1}, "parents": {}, "sources": [], "code": {"version": 1}}


def publish(store: Store, content: bytes = b"bytes", inputs: dict = INPUTS) -> Artifact:
    with store.claim(Records, digest_of(inputs), "records") as claim:
        claim.staging.put("train/part", content, rows=3)
        claim.staging.put("checkpoints/step-1", b"on the way")
        (claim.staging.root / "debris").write_bytes(b"torn")
        return claim.publish(inputs, Outcome(counts={"examples": 3}), {"run": "r"})


def test_only_finished_pieces_are_published_and_the_manifest_names_them(tmp_path: Path) -> None:
    made = publish(Store(tmp_path))
    files = sorted(path.relative_to(made.path).as_posix() for path in made.path.rglob("*") if path.is_file())
    assert files == ["manifest.json", "train/part"]
    [row] = made.manifest["files"]
    assert (row["path"], row["bytes"]) == ("train/part", 5)
    assert not (tmp_path / ".staging/records" / made.digest).exists()


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = publish(store)
    before = (first.path / "train/part").stat()
    publish(store, b"other")
    assert (first.path / "train/part").stat() == before


def test_a_piece_is_adopted_only_while_it_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(RuntimeError), store.claim(Records, "d", "records") as claim:
        claim.staging.put("a", b"first", rows=1)
        claim.staging.put("b", b"second", rows=2)
        (claim.staging.root / "model").mkdir()
        (claim.staging.root / "model/c.7.partial").write_bytes(b"thi")
        raise RuntimeError("killed")
    with store.claim(Records, "d", "records") as claim:
        assert not list(claim.staging.root.glob("model/*")), "TensorFlow would take it for a part of its model"
        assert claim.staging.adopt("a") == {"rows": 1}
        (claim.staging.root / "b").write_bytes(b"secone")
        assert claim.staging.adopt("b") is None
        assert claim.staging.adopt("never") is None


@pytest.mark.parametrize("harm", ["truncate", "flip", "remove", "manifest", "unmanifest"])
def test_damage_is_found_before_use_and_moved_away(tmp_path: Path, harm: str) -> None:
    store = Store(tmp_path)
    made = publish(store)
    part, manifest = made.path / "train/part", made.path / "manifest.json"
    if harm == "truncate":
        part.write_bytes(b"byte")
    elif harm == "flip":
        part.write_bytes(b"bytez")
    elif harm == "remove":
        part.unlink()
    elif harm == "manifest":
        manifest.write_text(manifest.read_text().replace('"examples": 3', '"examples": 4'))
    else:
        manifest.unlink()
    with pytest.raises(Damaged) as damage:
        store.find(Records, made.digest, "records")
    assert made.digest[:12] in damage.value.field
    assert not made.path.exists()
    assert any((tmp_path / ".damaged").iterdir())
    assert store.find(Records, made.digest, "records") is None
    publish(store)
    assert store.find(Records, made.digest, "records") is not None


def test_what_is_published_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file and folder is synced before the rename, and the folders that have its name after it."""
    real, events = (os.fsync, os.rename, os.replace), list[tuple[str, Path]]()

    def fsync(descriptor: int) -> None:
        real[0](descriptor)
        events.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink()))

    def rename(old: Path, new: Path) -> None:
        real[1](old, new)
        events.append(("rename", Path(new)))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "replace", lambda old, new: (real[2](old, new), events.append(("replace", Path(new)))))
    store = Store(tmp_path)
    with store.claim(Records, digest_of(INPUTS), "records") as claim:
        claim.staging.put("train/deep/part", b"bytes")
        work = claim.staging.root
        made = claim.publish(INPUTS, Outcome(counts={}), {"run": "r"})
    named = events.index(("rename", made.path))
    before, after = events[:named], events[named:]
    beside = work / ".publication"
    for file in (work / "train/deep/part", beside / "manifest.json"):
        written = max(number for number, event in enumerate(before) if event == ("replace", file))
        synced = [path for kind, path in before[:written] if kind == "sync"]
        assert any(path.parent == file.parent and path.name.startswith(file.name) for path in synced)
    folders = {path for kind, path in before if kind == "sync"}
    assert {beside, beside / "train", beside / "train/deep"} <= folders
    assert {("sync", made.path.parent), ("sync", tmp_path)} <= set(after)


@pytest.mark.parametrize("broken", ["os.link", "tasks.store.store.write", "os.rename"])
def test_a_publication_that_breaks_off_leaves_all_that_the_next_attempt_goes_on_from(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full while the files are linked, the manifest is written, or the folder gets its name."""

    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = Store(tmp_path)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(broken, full)
        publish(store)
    with store.claim(Records, digest_of(INPUTS), "records") as claim:
        assert claim.published() is None
        assert claim.staging.adopt("checkpoints/step-1") == {} and claim.staging.adopt("train/part") == {"rows": 3}
        before = (claim.staging.root / "train/part").stat().st_ino
        made = claim.publish(INPUTS, Outcome(counts={"examples": 3}), {"run": "r"})
    assert sorted(path.name for path in made.path.rglob("*") if path.is_file()) == ["manifest.json", "part"]
    assert (made.path / "train/part").stat().st_ino == before, "the file itself, and no copy"
    assert not list((tmp_path / ".staging").glob("*/*"))


def test_an_attempt_that_ends_after_its_publication_leaves_an_artifact_that_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The staging is still there, whose files are those of the artifact."""
    store = Store(tmp_path)

    class Killed(BaseException):
        pass

    real = shutil.rmtree

    def killed(folder: Path, **options: Any) -> None:
        if (folder / "checkpoints").exists():
            raise Killed
        real(folder, **options)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(shutil, "rmtree", killed)
        publish(store)
    with store.claim(Records, digest_of(INPUTS), "records") as claim:
        made = claim.published()
    assert made is not None and (made.path / "train/part").read_bytes() == b"bytes"
    assert not list((tmp_path / ".staging").glob("*/*"))
    assert store.verify(made.path) is None


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_where_the_file_system_has_no_links_the_files_are_copied(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*given: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", none)
    made = publish(Store(tmp_path))
    assert (made.path / "train/part").read_bytes() == b"bytes" and Store(tmp_path).verify(made.path) is None


def test_a_file_that_changes_while_it_is_hashed_does_not_count_as_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    made = publish(store)
    (tmp_path / f".verified/records/{made.digest}.json").unlink()

    def hash_and_change(path: Path) -> Checksums:
        sums = checksums(path)
        path.write_bytes(b"bytez")
        return sums

    with monkeypatch.context() as patched:
        patched.setattr("tasks.store.store.checksums", hash_and_change)
        assert store.find(Records, made.digest, "records") is not None
    with pytest.raises(Damaged):
        store.find(Records, made.digest, "records")


def test_a_file_is_hashed_once_while_the_disk_says_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    made = publish(store)
    read: list[Path] = []
    monkeypatch.setattr("tasks.store.store.checksums", lambda path: read.append(path))
    assert store.find(Records, made.digest, "records") is not None
    assert read == []


def test_an_older_token_can_write_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.claim(Records, "d", "records") as old:
        content = json.loads(old.staging.lock.read_bytes())
        old.staging.lock.write_text(json.dumps({**content, "token": content["token"] + 1}))
        with pytest.raises(Superseded):
            old.staging.put("late", b"late")
        assert not (old.staging.root / "late").exists()
        with pytest.raises(Superseded):
            old.publish(INPUTS, Outcome(counts={}), {})
    assert store.artifacts() == []


def test_a_prefix_must_be_unambiguous(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = publish(store)
    assert store.resolve(made.digest[:8]).digest == made.digest
    assert store.resolve(str(made)).digest == made.digest
    with pytest.raises(Refused, match="no such artifact"):
        store.resolve("0" * 64)
    with pytest.raises(Refused, match="a kind is one of"):
        store.resolve("cache/abc")
    for pattern in ("*", "**", "[0-9a-f]", "?", "", "records/"):
        with pytest.raises(Refused, match="no such artifact"):
            store.resolve(pattern)


def test_what_cannot_end_for_want_of_room_does_not_begin(bench: Workbench) -> None:
    bench.staging.reserve(1 << 20)
    free = shutil.disk_usage(bench.staging.root).free
    with pytest.raises(Failed, match=r"No space left on device, [\d,]+ MiB free") as failed:
        bench.staging.reserve(free)
    assert "millrace gc" in failed.value.remedy
    with bench.staging.piece("part") as piece, open(piece.path, "wb") as file:
        file.truncate(64 << 20)  # a hole: it has a size and uses no blocks
    bench.staging.reserve(free - (32 << 20))
