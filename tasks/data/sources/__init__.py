"""Sources of raw data: a module per `source.kind`, each with `open(config, memory) -> Source`."""

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
"""The module of each `source.kind`, imported on use."""


@dataclass(frozen=True)
class Item:
    """An example in the listing of a source."""

    key: str
    """Stable key, unique in the source: a relative path, a row number or a content hash."""

    sha256: str
    """SHA-256 of the example's content."""

    group: str | None = None
    """Items of a group are in one split; None for an item without a group."""

    unlabelled: str | None = None
    """SHA-256 of the model's input alone, without label and other features; None where that is `sha256`."""

    @property
    def content(self) -> str:
        """Hash of the model's input: equal for duplicates."""
        return self.unlabelled or self.sha256


class Unreadable(Exception):
    """The reason why an item cannot be read; counted against `records.bad_budget`."""


class Skipped(Exception):
    """The reason why an item is left out, not counted against the budget; listed in the manifest."""


MAX_NAMED = 10
"""Number of items that an error names."""


def name_some(reasons: list[list[str]]) -> str:
    """Return the first `MAX_NAMED` of [key, reason] by key, and the number of the others."""
    named = "; ".join(f"{key} ({reason})" for key, reason in sorted(reasons)[:MAX_NAMED])
    return named + (f" and {len(reasons) - MAX_NAMED:,} more" if len(reasons) > MAX_NAMED else "")


class Source(Protocol):
    """An open source of raw data, listed without reading all of it, and read item by item in any order."""

    @property
    def features(self) -> Mapping[str, Feature]:
        """The schema of the examples, without the key."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the data is available; otherwise it is downloaded first."""
        return True

    def listing(self) -> list[Item]:
        """Return all items, sorted by key, with their current content hashes."""
        ...

    def size(self) -> int:
        """Return the bytes of the raw data by `stat`; 0 where unknown."""
        return 0

    def newest(self) -> float | None:
        """Return the modification time of the newest file, in seconds since 1970; None where there are no files."""
        return None

    def fingerprint(self) -> list[tuple[str, str]]:
        """Return what enters the digest: sorted (key, sha256) of every item, or of every file behind them."""
        return [(item.key, item.sha256) for item in self.listing()]

    def read(self, item: Item) -> Example:
        """Read an example, without its key.

        Raises:
            Unreadable: the item cannot be read.
            Skipped: it is left out (see `check_skipped`).
            Failed: its content has changed since it was listed.
        """
        ...

    def check_skipped(self, skipped: list[list[str]]) -> None:
        """Raise `Failed` where the config does not allow to leave out these items, given as [key, reason]."""
        return


def open_source(config: SourceConfig, memory: Path | None = None) -> Source:
    """Open the source of a config, without reading its content.

    Args:
        memory: a folder for a cache of content hashes, so that an unchanged file is not read again.

    Raises:
        Refused: path or listing show that it cannot be read.
    """
    source: Source = import_module(KINDS[config.kind]).open(config, memory)
    return source


def check(config: SourceConfig) -> Mapping[str, Feature] | None:
    """Return the features of a source from `stat` and listing alone; None where it must be prepared first.

    Writes nothing. Raises `Refused` where the source cannot be read.
    """
    source = open_source(config)
    return source.features if source.ready else None


def check_age(config: SourceConfig, limit: timedelta | None) -> None:
    """Raise `Refused` for data that is older than `limit`, or of unknown age."""
    if limit is None:
        return
    newest = open_source(config).newest()
    if newest is None:
        rule = f"a source of kind {config.kind} has no files with a date"
        raise Refused("records.max_age", limit, rule, "leave records.max_age out")
    age = timedelta(seconds=round(time.time() - newest))
    if age > limit:
        rule = f"records.max_age allows {limit}"
        raise Refused("source", f"its newest file is {age} old", rule, "bring new data, or raise records.max_age")


def fingerprint(config: SourceConfig, memory: Path | None = None) -> list[tuple[str, str]]:
    """Return what of a source enters a digest (`Source.fingerprint`)."""
    return open_source(config, memory).fingerprint()
