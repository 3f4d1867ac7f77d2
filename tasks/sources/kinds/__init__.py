"""The section `source`: where raw data is and how to read it, a class by `source.kind`. No other line names a kind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tasks.config.base import Name
from tasks.config.kinds import Kind, any_of, import_kinds
from tasks.errors import Refused

if TYPE_CHECKING:
    from tasks.sources import Source
    from tasks.sources.features import Feature


class DataSource(Kind):
    """Where raw data is and how to read it; what reads it is imported when it is opened."""

    noun: ClassVar[str | None]
    """Plural name of the records; None where that depends on the snapshot."""
    raw_input: ClassVar[str]
    """A file of such examples for `millrace predict`."""
    listed: ClassVar[str]
    """Plural name of what is listed with a content hash in digests."""

    if TYPE_CHECKING:
        name: Name

    def open(self, memory: Path | None = None) -> Source:
        """Open the source, without reading its content.

        Args:
            memory: a folder for a cache of content hashes, so that an unchanged file is not read again.

        Raises:
            Refused: path or listing show that it cannot be read.
        """
        raise NotImplementedError

    def check(self) -> Mapping[str, Feature] | None:
        """Return its features from `stat` and listing alone; None where it must be prepared first.

        Writes nothing. Raises `Refused` where it cannot be read.
        """
        source = self.open()
        return source.features if source.ready else None

    def check_age(self, limit: timedelta | None) -> None:
        """Raise `Refused` for data that is older than `limit`, or of unknown age."""
        if limit is None:
            return
        newest = self.open().newest()
        if newest is None:
            rule = f"a source of kind {self.kind} has no files with a date"
            raise Refused("records.max_age", limit, rule, "leave records.max_age out")
        age = timedelta(seconds=round(time.time() - newest))
        if age > limit:
            rule = f"records.max_age allows {limit}"
            raise Refused("source", f"its newest file is {age} old", rule, "bring new data, or raise records.max_age")


import_kinds(__name__, __path__)

if TYPE_CHECKING:
    SourceConfig = DataSource
else:
    SourceConfig = any_of(DataSource.kinds().values())
