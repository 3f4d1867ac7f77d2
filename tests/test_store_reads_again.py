"""An error of a read that says nothing of the file is tried again, then raised; nothing is remade or deleted for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.artifacts import Artifact, Outcome, Records
from tasks.errors import Superseded
from tasks.processes.workbench import Workbench
from tasks.store import files
from tasks.store import store as checks
from tasks.store.store import Store, digest_of
from tests.support.disks import break_reads

ERRORS = [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.EACCES]
INPUTS = {"kind": "records", "config": {"a": 1}, "parents": {}, "sources": [], "code": {"version": 1}}

Break = Callable[[str, int, int], list[str]]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    return partial(break_reads, monkeypatch)


def publish(store: Store) -> Artifact:
    with store.claim(Records, digest_of(INPUTS), "records") as claim:
        claim.staging.put("part", b"bytes")
        return claim.publish(INPUTS, Outcome(counts={}), {"run": "r"})


@pytest.mark.parametrize("number", ERRORS)
@pytest.mark.parametrize("name", ["manifest.json", "part"])
def test_an_artifact_that_cannot_be_read_now_is_not_damaged(
    name: str, number: int, tmp_path: Path, broken: Break
) -> None:
    store = Store(tmp_path)
    made = publish(store)
    (tmp_path / f".verified/records/{made.digest}.json").unlink()
    broken(name, number, len(files.PAUSES))
    assert store.find(Records, made.digest, "records") is not None, "it could be read in the end"
    (tmp_path / f".verified/records/{made.digest}.json").unlink()
    failed = broken(name, number, 99)
    with pytest.raises(OSError, match=os.strerror(number)) as error:
        store.find(Records, made.digest, "records")
    assert error.value.filename == str(made.path / name) and len(failed) == 1 + len(files.PAUSES)
    with pytest.raises(OSError, match=os.strerror(number)):
        store.verify(made.path)
    assert made.path.exists() and not (tmp_path / ".damaged").exists()


def test_an_artifact_of_which_a_file_cannot_be_looked_at_now_is_not_damaged(
    tmp_path: Path, broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    made = publish(store)
    broken("no file", errno.EIO, 0)  # no pauses

    def unreachable(path: Path) -> list[int]:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    monkeypatch.setattr(checks, "stat_of", unreachable)
    with pytest.raises(OSError, match="Stale"):
        store.find(Records, made.digest, "records")
    assert made.path.exists() and not (tmp_path / ".damaged").exists()


@pytest.mark.parametrize("number", ERRORS)
@pytest.mark.parametrize("name", ["shard", "shard.json"])
def test_a_finished_piece_that_cannot_be_read_now_is_not_made_again(
    name: str, number: int, bench: Workbench, broken: Break
) -> None:
    bench.staging.put("shard", b"bytes", rows=1)
    broken(name, number, len(files.PAUSES))
    assert bench.staging.adopt("shard") == {"rows": 1}
    broken(name, number, 99)
    with pytest.raises(OSError, match=os.strerror(number)):
        bench.staging.adopt("shard")


@pytest.mark.parametrize("number", ERRORS)
def test_a_lock_that_cannot_be_read_now_is_not_another_attempts(number: int, tmp_path: Path, broken: Break) -> None:
    store = Store(tmp_path)
    with store.claim(Records, "d", "records") as claim:
        broken("d.lock", number, len(files.PAUSES))
        claim.staging.put("part", b"bytes")
        broken("d.lock", number, 99)
        with pytest.raises(OSError, match=os.strerror(number)):
            claim.staging.put("part", b"bytes")
        broken("d.lock", number, 0)
        claim.staging.lock.unlink()
        with pytest.raises(Superseded):
            claim.staging.put("part", b"bytes")


def test_what_is_absent_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(files, "time", SimpleNamespace(sleep=waited.append))
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path / "file" / "inner"):
        with pytest.raises(files.ABSENT):
            files.retried(path, Path.read_bytes)
    assert waited == []
    with pytest.raises(IsADirectoryError):
        files.retried(tmp_path, Path.read_bytes)
    assert waited == list(files.PAUSES)
