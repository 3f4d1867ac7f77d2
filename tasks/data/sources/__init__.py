"""Sources: where raw data is and how to read it. One file per kind; each offers `open(config) -> Source`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from tasks.config import SourceConfig
from tasks.data.features import Example, Feature

KINDS = {"sklearn": "tasks.data.sources.sklearn"}
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


class Unreadable(Exception):
    """This one item cannot be made an example; says why. Counted against `records.bad_budget`."""


class Source(Protocol):
    """Raw data, opened. Cheap to list, read item by item in any order."""

    @property
    def features(self) -> Mapping[str, Feature]:
        """The schema of what `read` gives, without the key."""
        ...

    def listing(self) -> list[Item]:
        """All items, sorted by key, with the content hashes of this moment."""
        ...

    def read(self, item: Item) -> Example:
        """One example, without the key. Raises `Unreadable`; `Failed` if the content is not `item.sha256`."""
        ...


def open_source(config: SourceConfig) -> Source:
    """The source that the config describes. Raises `Refused` where path or listing show that it cannot be read."""
    source: Source = import_module(KINDS[config.kind]).open(config)
    return source


def fingerprint(config: SourceConfig) -> list[tuple[str, str]]:
    """What of a source enters a digest: (key, sha256) of every item, sorted by key. Needs no TensorFlow."""
    return [(item.key, item.sha256) for item in open_source(config).listing()]
