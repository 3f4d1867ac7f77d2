"""Sources: where raw data is and how to read it. One file per kind; each offers `open(config, memory) -> Source`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Protocol

from tasks.config import SourceConfig
from tasks.data.features import Example, Feature
from tasks.errors import Refused

KINDS = {
    "sklearn": "tasks.data.sources.sklearn",
    "text_files": "tasks.data.sources.text_files",
    "image_folder": "tasks.data.sources.image_folder",
    "tfds": "tasks.data.sources.tfds",
}
"""The module of each `source.kind`; imported when it is asked for."""


@dataclass(frozen=True)
class Item:
    """One example to be, as a listing knows it."""

    key: str
    """Stable and unique in the source: a relative path, a row id or a content hash."""

    sha256: str
    """Of the content that the example is made of."""

    group: str | None = None
    """Items of one group share a split; default: each stands alone."""

    unlabelled: str | None = None
    """SHA-256 of what a model is shown of the content, its label and other features left out; default: `sha256`."""

    @property
    def content(self) -> str:
        """Identical for examples that a model cannot tell apart."""
        return self.unlabelled or self.sha256


class Unreadable(Exception):
    """This one item cannot be made an example; says why. Counted against `records.bad_budget`."""


class Skipped(Exception):
    """This one item is left out because the config says so; counted and named, against no budget."""


class Source(Protocol):
    """Raw data, opened. Cheap to list, read item by item in any order."""

    @property
    def features(self) -> Mapping[str, Feature]:
        """The schema of what `read` gives, without the key."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it lies there; one that is not would first be downloaded."""
        return True

    def listing(self) -> list[Item]:
        """All items, sorted by key, with the content hashes of this moment."""
        ...

    def size(self) -> int:
        """Bytes of the raw data, as far as `stat` tells; 0 where it does not."""
        return 0

    def newest(self) -> float | None:
        """When the newest of its files was last written, seconds since 1970; None where it has no files of its own."""
        return None

    def fingerprint(self) -> list[tuple[str, str]]:
        """What enters a digest: (key, sha256) of every item or of every file behind them, sorted, as of this moment."""
        return [(item.key, item.sha256) for item in self.listing()]

    def read(self, item: Item) -> Example:
        """One example, without the key. Raises `Unreadable` or `Skipped`; `Failed` if the content is not
        `item.sha256`."""
        ...


def open_source(config: SourceConfig, memory: Path | None = None) -> Source:
    """The source that the config describes; nothing of it is read yet.

    `memory` is a folder in which the content hashes of files are kept, so that an unchanged file costs a `stat`.
    Raises `Refused` where path or listing show that it cannot be read.
    """
    source: Source = import_module(KINDS[config.kind]).open(config, memory)
    return source


def check(config: SourceConfig) -> Mapping[str, Feature] | None:
    """What it gives, as far as `stat` and listing alone can tell: None of one that is yet to be prepared.

    Writes nothing. Raises `Refused` where they show that the source cannot be read.
    """
    source = open_source(config)
    return source.features if source.ready else None


def check_age(config: SourceConfig, limit: timedelta | None) -> None:
    """`Refused` for data that is older than `limit`, or whose age nobody can tell."""
    if limit is None:
        return
    newest = open_source(config).newest()
    if newest is None:
        rule = f"a source of kind {config.kind} has no files whose age could be told"
        raise Refused("records.max_age", limit, rule, "leave records.max_age out")
    age = timedelta(seconds=round(time.time() - newest))
    if age > limit:
        rule = f"records.max_age allows {limit}"
        raise Refused("source", f"its newest file is {age} old", rule, "bring new data, or raise records.max_age")


def fingerprint(config: SourceConfig, memory: Path | None = None) -> list[tuple[str, str]]:
    """What of a source enters a digest (`Source.fingerprint`). Needs no TensorFlow."""
    return open_source(config, memory).fingerprint()
