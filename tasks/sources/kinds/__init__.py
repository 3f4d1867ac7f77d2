"""The section `source`: where raw data is and how to read it, a class by `source.kind`. No other line names a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.config.kinds import any_of, import_kinds
from tasks.sources.kinds.kind import DataSource

import_kinds(__name__, __path__)

if TYPE_CHECKING:
    SourceConfig = DataSource
else:
    SourceConfig = any_of(DataSource.kinds().values())

__all__ = ["SourceConfig"]
