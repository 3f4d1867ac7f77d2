"""Workbenches of tests, what is made on them, and what it holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from tasks.artifacts import Artifact, Outcome
from tasks.processes.workbench import Workbench
from tasks.sources import Bad, Partition, Rows, Source
from tasks.sources.features import Feature
from tasks.store.files import pretty
from tasks.store.staging import Staging


def contents(root: Path) -> dict[str, str]:
    """SHA-256 by name of everything but sidecars and manifest."""
    paths = [path for path in root.rglob("*") if path.is_file() and ".pieces" not in path.parts]
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.name != "manifest.json"
    }


class RowsSource(Source):
    """A source: rows given in memory, some of them perhaps broken or about to change.

    `rows`: image payload and label by key; a payload of None cannot be read.
    """

    def __init__(
        self, rows: Mapping[str, tuple[bytes | None, int]], groups: Mapping[str, str] | None = None, classes: int = 2
    ) -> None:
        self.rows = dict(rows)
        self.groups = groups or {}
        self.classes = classes

    @property
    def features(self) -> Mapping[str, Feature]:
        return {
            "image": Feature("image", "uint8", (-1, -1, 1)),
            "label": Feature(
                "label", "int64", role="label", classes=tuple(f"class{number}" for number in range(self.classes))
            ),
            **({"writer": Feature("category", "string", role="group")} if self.groups else {}),
        }

    def fingerprint(self) -> list[tuple[str, str]]:
        return [
            (key, hashlib.sha256((payload or b"") + bytes([label])).hexdigest())
            for key, (payload, label) in sorted(self.rows.items())
        ]

    def partitions(self) -> list[Partition]:
        keys = sorted(self.rows)
        return [Partition(keys[at], 1, tuple(keys[at : at + 50])) for at in range(0, len(keys), 50)]

    def read(self, piece: Partition) -> Iterator[Rows]:
        keys = [key for key in piece.where if self.rows[key][0] is not None]
        columns = {
            "image": pa.array([self.rows[key][0] for key in keys], pa.large_binary()),
            "label": pa.array([f"class{self.rows[key][1]}" for key in keys], pa.string()),
            "writer": pa.array([self.groups.get(key) for key in keys], pa.string()),
        }
        bad = [Bad(key, "no payload", key) for key in piece.where if self.rows[key][0] is None]
        yield Rows(columns, pa.array(keys, pa.string()), keys.__getitem__, bad=bad)


@dataclass
class Pages:
    """A journal that keeps its points in a list."""

    points: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    reached: int = 0
    folder: Path | None = None

    def of(self, training: str) -> Pages:
        return self

    def append(self, step: int, metrics: dict[str, float]) -> None:
        self.points.append((step, metrics))

    def sync(self) -> None:
        pass


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


def published(kind: type[Kind], bench: Workbench, outcome: Outcome) -> Kind:
    root = bench.staging.root
    manifest = {
        "format": kind.format,
        "kind": kind.kind,
        "digest": "0" * 64,
        "parents": [],
        "files": bench.staging.rows(),
        "counts": outcome.counts,
        "features": outcome.features,
        "statistics": outcome.statistics,
    }
    (root / "manifest.json").write_bytes(pretty(manifest))
    return kind("0" * 64, root, kind.kind)


Kind = TypeVar("Kind", bound=Artifact)
