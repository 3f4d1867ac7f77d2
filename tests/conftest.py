"""What the tests of several stages share: a workbench on a temporary folder, and an artifact made from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tasks.artifacts import Artifact
from tasks.store.files import pretty
from tasks.store.staging import Staging
from tasks.workbench import Outcome, Workbench


@dataclass
class Pages:
    """A journal that keeps its points in a list."""

    points: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    def append(self, step: int, metrics: dict[str, float]) -> None:
        self.points.append((step, metrics))


def workbench(root: Path) -> Workbench:
    """A workbench whose staging is `root`, held by attempt token 1."""
    root.mkdir(parents=True, exist_ok=True)
    lock = root.with_name(f"{root.name}.lock")
    lock.write_text(json.dumps({"token": 1}))
    return Workbench(
        staging=Staging(root, lock, token=1),
        journal=Pages(),
        progress=lambda *_, **__: None,
        measure=lambda *_: None,
        stopping=lambda: False,
        threads=2,
    )


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """A workbench on `tmp_path/staging`."""
    return workbench(tmp_path / "staging")


@pytest.fixture
def benches(tmp_path: Path) -> Callable[[str], Workbench]:
    """`benches(name)`: further workbenches, on `tmp_path/name`."""
    return lambda name: workbench(tmp_path / name)


@pytest.fixture
def publish() -> Callable[..., Artifact]:
    """`publish(kind, bench, outcome)`: the handle of what was made, under a minimal manifest."""

    def publish(kind: type[Artifact], bench: Workbench, outcome: Outcome) -> Artifact:
        root = bench.staging.root
        manifest = {
            "format": kind.format,
            "kind": kind.kind,
            "digest": "0" * 64,
            "parents": [],
            "files": bench.staging.seal(),
            "counts": outcome.counts,
            "features": outcome.features,
            "statistics": outcome.statistics,
        }
        (root / "manifest.json").write_bytes(pretty(manifest))
        return kind("0" * 64, root, kind.kind)

    return publish
