"""Columns of records as typed values (`tasks.reader.values`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tasks.reader.values import NO_TIME, Values
from tasks.sources.features import Feature

if TYPE_CHECKING:
    import pyarrow as pa


def typed(column: pa.Array | pa.ChunkedArray, feature: Feature) -> Values:
    """Return the values of a column of `RecordsReader.tables`; a null is a missing value."""
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if feature.kind == "number":
        if feature.shape:
            return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), *feature.shape)
        return array.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    if feature.kind in ("words", "tags"):
        return array.to_pylist()
    if feature.kind in ("time", "label"):
        return array.fill_null(NO_TIME).to_numpy()
    empty = b"" if feature.kind in ("image", "audio") else ""
    return array.fill_null(empty).to_pylist()


def missing_of(values: Values, feature: Feature) -> int:
    """Return the number of rows with a missing value; of arrays of numbers those that lack any."""
    if feature.kind == "number":
        return int(np.isnan(values).reshape(len(values), -1).any(axis=1).sum())
    if feature.kind == "time":
        return int((values == NO_TIME).sum())
    return sum(not value for value in values)
