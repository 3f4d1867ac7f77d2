"""Handles of artifacts in the store (kind, digest, path), which tasks take and return."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

STAGES = ("convert", "snapshot", "train", "evaluate", "compress", "export", "promote")
"""In the order of the DAG."""


@dataclass(frozen=True)
class Outcome:
    """The result of a stage's work for the manifest; without timings, as equal inputs give equal manifests."""

    counts: dict[str, int]
    features: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    also: dict[str, Any] = field(default_factory=dict)
    """Fields of the manifest that only this kind has (`weights_sha256` and `steps` of a model)."""
    layout: dict[str, Any] = field(default_factory=dict)
    """What the work adds to the layout in `produced_by`."""
    layouts: list[dict[str, Any]] = field(default_factory=list)
    """Layouts of a training that was continued under another one, with their steps `from` and `to`."""


@dataclass(frozen=True)
class Artifact:
    """A published folder of the store and its manifest."""

    kind: ClassVar[str]
    format: ClassVar[int] = 1

    digest: str
    path: Path
    name: str
    planned: dict[str, Any] | None = field(default=None, repr=False, compare=False)
    """The known part of the manifest of an artifact that does not exist yet."""

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json."""
        return self.planned or json.loads((self.path / "manifest.json").read_bytes())

    @property
    def bytes(self) -> int:
        """Total bytes of its files."""
        return sum(file["bytes"] for file in self.manifest["files"])

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics in the manifest, by flat name (`test/accuracy`)."""
        return self.manifest["statistics"].get("metrics", {})

    def __str__(self) -> str:
        return f"{self.kind}/{self.digest}"


class Records(Artifact):
    """TFRecord shards of one source, split, with statistics and an offset index."""

    kind = "records"


class Snapshot(Artifact):
    """Preprocessed, fixed-layout examples, readable at any index."""

    kind = "snapshot"


class Model(Artifact):
    """A trained float Keras model with its final training state."""

    kind = "model"

    @cached_property
    def architecture(self) -> dict[str, Any]:
        """The config of its architecture (`kind`, `task`, ...); that of a model which a method of compression has made
        has the one before it under `model`."""
        if self.planned is not None:
            return self.planned["inputs"]["config"]["model"]
        return json.loads((self.path / "architecture.json").read_bytes())["model"]

    @property
    def task(self) -> str:
        """What it was trained for."""
        return str(self.architecture["task"])

    @property
    def trained_by(self) -> dict[str, Any] | None:
        """The config of its training: `train` and `seed`; None for a model that a method has made without one."""
        config = self.manifest["inputs"]["config"]
        return config if "train" in config else None


class Report(Artifact):
    """The evaluation of one model."""

    kind = "report"


@dataclass(frozen=True)
class Variant(Artifact):
    """One deployable form of a model, with its size and quality."""

    kind = "variant"

    note: str = ""
    """What a gate could not decide about it, in this run."""
    chosen: bool = False
    """Whether it is what the run wants (`compress.want`)."""


class Export(Artifact):
    """A folder of accepted variants, checked in a fresh process."""

    kind = "export"


class Study(Artifact):
    """The trials of a tuning: a database in the home, or on a server, and not in the store."""

    kind = "study"


KINDS: dict[str, type[Artifact]] = {kind.kind: kind for kind in (Records, Snapshot, Model, Report, Variant, Export)}


@dataclass(frozen=True)
class Release:
    """An export registered in MLflow under an alias."""

    name: str
    version: str
    alias: str | None
    export: str
    verdict: str
    changed: bool
    awaits: str | None = None
    """Id of the run that awaits approval."""
    gates: tuple[dict[str, Any], ...] = ()
    """The verdicts of `promote.gates`."""
    approvable: bool = False
    """Whether `approve` may release it although it could not be compared with the champion."""
