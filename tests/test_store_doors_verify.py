"""Whoever uses an artifact of the store, its files are hashed first: a damaged one is refused and set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.commands import doctor, predict
from tasks.artifacts import KINDS, Artifact, Model, Outcome
from tasks.errors import Damaged, Failed
from tasks.evaluation.gating import ReleaseConfig
from tasks.runner import hosts, stages
from tasks.runner.attempt import current
from tasks.runs.home import Home
from tasks.store.store import Store, digest_of


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def published(home: Home, kind: str, **parents: str) -> Artifact:
    """An artifact of one file, in the store."""
    inputs = {"kind": kind, "config": {"model": {"task": "classification"}}, "parents": parents}
    with Store(home.store).claim(KINDS[kind], digest_of(inputs), kind) as claim:
        claim.staging.put("content", kind.encode() * 9, rows=1)
        if kind == "model":
            claim.staging.put("architecture.json", b'{"model": {"task": "classification"}}')
        return claim.publish(inputs, Outcome(counts={}), {"run": "r"})


@contextmanager
def running(home: Home) -> Iterator[None]:
    """A run as a stage finds it."""
    config = SimpleNamespace(model=SimpleNamespace(task="classification"))
    run = SimpleNamespace(use=lambda kind, digest: None)
    token = current.set(SimpleNamespace(run=run, store=Store(home.store), config=config))  # type: ignore[arg-type]
    try:
        yield
    finally:
        current.reset(token)


def as_parent(home: Home, artifact: Artifact) -> Artifact:
    child = published(home, "report", of=artifact.digest)
    with running(home):
        return stages.parent_of(child, "of", type(artifact))


def as_setting(home: Home, model: Artifact) -> Artifact:
    with running(home):
        return stages.model_of_store(model.digest[:10], "train.init.model")


def as_release(home: Home, model: Artifact) -> Artifact:
    with running(home):
        return stages.chosen_model(ReleaseConfig(model=model.digest))


def as_result(home: Home, artifact: Artifact) -> Artifact | None:
    with Store(home.store).claim(type(artifact), artifact.digest, artifact.kind) as claim:
        return claim.published()


def predicted(home: Home, reference: str) -> Any:
    return SimpleNamespace(path=predict.folder_of(home, reference))


def on_another_host(home: Home, snapshot: Artifact) -> Artifact | None:
    place: Any = SimpleNamespace(rank=1, cluster=SimpleNamespace(chief="first"))
    where = {"artifact": "snapshot", "digest": snapshot.digest, "name": "snapshot", "path": "/nowhere"}
    return hosts.find(where, home, place)


def measured(home: Home, snapshot: Artifact) -> Artifact:
    """By `millrace doctor --input`, which asks a preview for the digests of a preset."""
    records = published(home, "records")
    planned = {"convert": [records], "snapshot": [snapshot]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "plan", lambda store, config: planned)
        found: Artifact = doctor._made(Store(home.store), None, Path("preset.yaml"))[1]  # type: ignore[arg-type]
    return found


Door = Callable[[Home, Any], Any]
DOORS: dict[str, tuple[str, Door]] = {
    "predict DIGEST": ("export", lambda home, made: predicted(home, made.digest)),
    "predict PREFIX": ("export", lambda home, made: predicted(home, made.digest[:10])),
    "predict KIND/DIGEST": ("export", lambda home, made: predicted(home, str(made))),
    "doctor --input": ("snapshot", measured),
    "train.init.model": ("model", as_setting),
    "release.model": ("model", as_release),
    "another host": ("snapshot", on_another_host),
    **{f"parent {kind}": (kind, as_parent) for kind in KINDS},
    **{f"result {kind}": (kind, as_result) for kind in KINDS},
}
"""The kind of artifact that each door of the store gives out."""


@pytest.mark.parametrize("door", DOORS)
def test_an_artifact_is_used_once_its_files_are_found_as_they_were(door: str, home: Home) -> None:
    kind, use = DOORS[door]
    made = published(home, kind)
    assert use(home, made).path == made.path
    content = bytearray((made.path / "content").read_bytes())
    content[3] ^= 1
    (made.path / "content").write_bytes(content)
    with pytest.raises(Failed, match="has sha256|is damaged"):
        use(home, made)
    assert not made.path.exists()
    [aside] = (home.store / ".damaged").iterdir()
    assert aside.name.startswith(f"{kind}-{made.digest}") and (aside / "content").read_bytes() == content


def test_a_model_that_lacks_its_manifest_is_set_aside(home: Home) -> None:
    made = published(home, "model")
    (made.path / "manifest.json").unlink()
    with pytest.raises(Damaged), Store(home.store).claim(Model, made.digest, "model") as claim:
        claim.published()
    assert not made.path.exists() and len(list((home.store / ".damaged").iterdir())) == 1
