"""Raw cells of a column as typed values, read as `source.formats` says that they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tasks.reader.formats import Unreadable, reader_of
from tasks.records.column_types import Typed, column_type
from tasks.records.column_types.categories import plain_classes
from tasks.sources.features import Feature


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Return the values of raw cells as the type of a feature, and the rows that do not fit."""
    read, bad = raw, dict[int, str]()
    if feature.format is not None:
        read, bad = written(feature.format, raw)
    if feature.of_labels:
        read, unknown = _several(feature, read)
        bad = {**unknown, **bad}
    cast = column_type(feature).typed(read, max_pixels)
    return Typed(cast.values, {**cast.bad, **bad}, cast.measured, cast.exact)


def written(state: Mapping[str, Any], raw: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Return cells as plain ones, and the rows that are of another form; each different cell is read once.

    Args:
        state: of a form, as `tasks.reader.formats.of_state` takes it.
    """
    if pt.is_list(raw.type) or pt.is_large_list(raw.type):  # of a source that has lists
        return raw, {}
    read, cells = reader_of(state), pc.dictionary_encode(raw)
    plain, refused = [], dict[int, str]()
    for number, value in enumerate(cells.dictionary.to_pylist()):
        try:
            plain.append(read(value))
        except Unreadable as error:
            plain.append(None)
            refused[number] = f"{value!r} {error}"
    of_lists = state["kind"] == "lists"
    values = pa.array(plain, pa.list_(pa.string()) if of_lists else None, from_pandas=False)
    numbers = cells.indices
    bad = np.flatnonzero(np.isin(numbers.fill_null(-1).to_numpy(zero_copy_only=False), list(refused)))
    return values.take(numbers), {int(row): refused[numbers[int(row)].as_py()] for row in bad}


def _several(feature: Feature, raw: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Return for lists of labels 1 for each class that is in one, else 0, and the rows with other labels.

    An empty list has no label; a missing one is bad.
    """
    assert feature.names is not None
    if not (pt.is_list(raw.type) or pt.is_large_list(raw.type)):
        return raw, dict.fromkeys(range(len(raw)), f"{raw.type} is no list of labels")
    names = plain_classes(raw.flatten(), feature.renamed)
    owners, places = pc.list_parent_indices(raw), pc.index_in(names, pa.array(feature.names))
    known = np.asarray(places.is_valid())
    hot = np.zeros((len(raw), len(feature.names)), np.float32)
    rows = np.asarray(owners)
    hot[rows[known], np.asarray(places.drop_null())] = 1
    bad = {int(rows[at]): f"{names[int(at)].as_py()!r} is none of source.classes" for at in np.flatnonzero(~known)}
    bad |= {int(row): "missing" for row in np.flatnonzero(np.asarray(raw.is_null()))}
    flat = pa.array(hot.ravel())
    return pa.FixedSizeListArray.from_arrays(flat, len(feature.names)), bad
