"""Parsed examples as arrow columns, by the kind of their feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from tasks.records import rules
from tasks.records.column_types.numbers import Number
from tasks.sources.features import Feature

LISTS = {"words": tf.string, "tags": tf.int64}
"""Kinds of features with a list of any length, by the type of its items."""


STRINGS = {"key": pa.string(), "category": pa.string(), "text": pa.large_string()}


def layout_of(feature: Feature) -> tf.io.FixedLenFeature | tf.io.RaggedFeature:
    """Return how TensorFlow parses a feature."""
    if feature.kind in LISTS:
        return tf.io.RaggedFeature(LISTS[feature.kind], row_splits_dtype=tf.int64)
    if feature.kind == "number":
        return tf.io.FixedLenFeature(feature.shape, tf.float32)
    return tf.io.FixedLenFeature((), tf.int64 if feature.kind in ("label", "time") else tf.string)


def frame_of(table: pa.Table, features: Mapping[str, Feature]) -> pl.DataFrame:
    """Return stored columns with one value as a frame, missing values as null, of labels the class names."""
    for place, name in enumerate(table.column_names):
        if (classes := features[name].classes) is not None and features[name].kind == "label":
            named = pa.array(classes, pa.string()).take(table[name].combine_chunks())
            table = table.set_column(place, name, named)
    return rules.frame_of(table, {name: features[name].kind for name in table.column_names})


def column_of(feature: Feature, parsed: Any) -> pa.Array:
    """Return parsed values, a tensor, as a column: of arrays of numbers fixed-size lists, of words and tags lists."""
    if feature.kind in LISTS:
        flat, ends = parsed.flat_values.numpy(), parsed.row_splits.numpy().astype(np.int32)
        items = pa.array(list(flat), pa.binary()).cast(pa.string()) if feature.kind == "words" else pa.array(flat)
        return pa.ListArray.from_arrays(pa.array(ends), items)
    values: NDArray[Any] = parsed.numpy()
    if feature.kind == "number":
        return Number(feature).array(values.reshape(len(values), -1))
    if feature.kind in ("label", "time"):
        return pa.array(values.astype(np.int64))
    return pa.array(list(values), pa.large_binary()).cast(STRINGS.get(feature.kind, pa.large_binary()))
