"""What tasks hand on: small handles (kind, digest, path) to what lies in the store."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

STAGES = ("convert", "snapshot", "train", "evaluate", "compress", "export", "promote")
"""In the order in which they run."""


@dataclass(frozen=True)
class Outcome:
    """What a stage's work found out; goes into the manifest as it is, so nothing timed belongs here."""

    counts: dict[str, int]
    features: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    also: dict[str, Any] = field(default_factory=dict)
    """Fields of the manifest that only this kind has (`weights_sha256` and `steps` of a model)."""
    layouts: list[dict[str, Any]] = field(default_factory=list)
    """Of a training that went on under another layout: each with the steps `from` and `to` that it computed."""


@dataclass(frozen=True)
class Artifact:
    """A published folder of the store and its manifest."""

    kind: ClassVar[str]
    format: ClassVar[int] = 1

    digest: str
    path: Path
    name: str
    planned: dict[str, Any] | None = field(default=None, repr=False, compare=False)
    """The manifest of an artifact that is not made yet, as far as it is known."""

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest, as contract 5 lays it out."""
        return self.planned or json.loads((self.path / "manifest.json").read_bytes())

    @property
    def bytes(self) -> int:
        """Of all its files together."""
        return sum(file["bytes"] for file in self.manifest["files"])

    @property
    def metrics(self) -> dict[str, float]:
        """What the stage that made it found out, by flat name (`test/accuracy`)."""
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


class Report(Artifact):
    """The evaluation of one model."""

    kind = "report"


class Variant(Artifact):
    """One deployable form of a model, with its size and quality."""

    kind = "variant"


class Export(Artifact):
    """A folder of accepted variants, checked in a fresh process."""

    kind = "export"


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
    """The run that a person must approve before it can be champion."""
