"""Records: checked, typed rows of a source by split, as TFRecord shards with an index and statistics."""

from __future__ import annotations

RECORDS_VERSION = 6
"""Incremented when the same source would give other records."""

RECORDS_LIBRARIES = ("numpy", "pillow", "pyarrow", "polars")
"""Packages whose versions decide the bytes of records."""
