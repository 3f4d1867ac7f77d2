"""Access to records by split and index, as bytes, examples or tables; only tables import TensorFlow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.errors import Failed, Refused
from tasks.reader.values import NO_TIME, Values
from tasks.sources.features import KEY, Feature, of_role
from tasks.sources.record_files import Parsed, RecordFile, decode

if TYPE_CHECKING:
    import polars as pl
    import tensorflow as tf

SHARD = re.compile(r"(?P<name>\w+)-(?P<split>\w+)\.tfrecord-(?P<number>\d{5})-of-(?P<total>\d{5})")

TABLE_BYTES = 8 << 20
"""Bytes of examples in a table, about."""


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Read the manifest of a published folder of this kind; raises `Refused` where there is none."""
    try:
        manifest: dict[str, Any] = json.loads((path / "manifest.json").read_bytes())
    except OSError as error:
        raise Refused(
            str(path), "no manifest.json", f"must be a published {kind} folder", "see `millrace list`"
        ) from error
    if manifest["kind"] != kind:
        raise Refused(str(path), f"an artifact of kind {manifest['kind']}", f"must be a {kind}", "see `millrace list`")
    return manifest


class RecordsReader:
    """Reads a published records folder. `features`: the schema; `counts`: the examples of each split."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path, "records")
        self.features = {name: Feature.from_json(value) for name, value in self.manifest["features"].items()}
        self.counts = {split: int(self._splits[split].ends[-1]) for split in sorted(self._splits)}

    def raw(self, split: str, index: int) -> bytes:
        """Return the serialised `tf.train.Example`, with verified checksums."""
        return self._split(split)[index]

    def example(self, split: str, index: int) -> Parsed:
        """Return the example by feature: a list of bytes, int64 [k] or float32 [k]."""
        return decode(self.raw(split, index))

    def sizes(self, split: str, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
        """Return the size in bytes of each record [start, stop) of a split in its shard."""
        return self._split(split).sizes(start, self.counts[split] if stop is None else stop)

    def row_hashes(self, split: str) -> NDArray[np.uint64]:
        """Return the hash of each example of a split, uint64 [n], in stored order: of its key where one is named, else
        of the whole row as the source has it. By it an example is recognised in other records."""
        shards = sorted((self.path / "rows").glob("*.npy"))
        return np.concatenate([np.load(path) for path in shards if self._is_of(path, split)])

    @staticmethod
    def _is_of(path: Path, split: str) -> bool:
        match = SHARD.fullmatch(path.stem)
        return match is not None and match["split"] == split

    def key(self, split: str, index: int) -> str:
        """Return the example's key."""
        value = self.example(split, index)[KEY]
        return bytes(value[0]).decode()

    def iterate(self, split: str, start: int = 0, stop: int | None = None) -> Iterator[Parsed]:
        """Yield the examples [start, stop) of a split, in stored order."""
        for index in range(start, self.counts[split] if stop is None else stop):
            yield self.example(split, index)

    def single_input(self, kind: str) -> str | None:
        """Return the name of the only input, where it is of this kind."""
        inputs = of_role(self.features, "input")
        [name] = inputs if len(inputs) == 1 else [None]
        return name if name is not None and inputs[name].kind == kind else None

    def tables(
        self, split: str, names: Sequence[str] | None = None, rows: int = 4096, start: int = 0, stop: int | None = None
    ) -> Iterator[pa.Table]:
        """Yield the examples [start, stop) of a split in stored order, as tables of at most `rows` rows.

        Columns are float32 (of arrays fixed-size lists), string, large_string, large_binary, int64, or lists of string
        or int64, by the kind of the feature. Tables of large examples have fewer rows, about `TABLE_BYTES`.
        """
        for first, last in self.groups(split, start, self.counts[split] if stop is None else stop, rows, TABLE_BYTES):
            yield self.table(split, range(first, last), names)

    def table(self, split: str, rows: Iterable[int], names: Sequence[str] | None = None) -> pa.Table:
        """Return some examples of a split, by index, as a table with the columns of `tables`."""
        import tensorflow as tf

        features = {name: self.features[name] for name in names or self.features}
        layout = {name: layout_of(feature) for name, feature in features.items()}
        parsed = tf.io.parse_example([self.raw(split, row) for row in rows], layout)
        return pa.table({name: column_of(feature, parsed[name]) for name, feature in features.items()})

    def groups(self, split: str, start: int, stop: int, rows: int, size: int) -> list[tuple[int, int]]:
        """Return consecutive groups of the rows [start, stop), each of at most `rows` rows and `size` bytes, or one."""
        groups = []
        while start < stop:
            read = np.cumsum(self.sizes(split, start, min(start + rows, stop)))
            end = start + max(1, int(np.searchsorted(read, size, side="right")))
            groups.append((start, end))
            start = end
        return groups

    def _split(self, split: str) -> _Split:
        if split not in self._splits:
            raise Refused("split", split, f"these records have {', '.join(self.counts)}", "name one of them")
        return self._splits[split]

    @cached_property
    def _splits(self) -> dict[str, _Split]:
        shards: dict[str, list[Path]] = {}
        for index in sorted((self.path / "index").glob("*.npy")):
            if not (match := SHARD.fullmatch(index.stem)):
                raise Failed(str(index), "not the name of a shard's index", "records hold no other files", "remove it")
            shards.setdefault(match["split"], []).append(index)
        for split, paths in shards.items():
            total = int(paths[0].stem[-5:])
            if len(paths) != total:
                raise Failed(
                    str(self.path), f"{len(paths)} of {total} shards of {split}", "all must be there", "convert again"
                )
        return {split: _Split(paths) for split, paths in shards.items()}


class _Split:
    """The records of a split's shards by index; a file is opened at its first use."""

    def __init__(self, indices: list[Path]) -> None:
        self._offsets = [np.load(path, mmap_mode="r") for path in indices]
        self._paths = [path.parent.parent / path.stem for path in indices]
        self._files: dict[int, RecordFile] = {}
        self.ends: NDArray[np.int64] = np.cumsum([len(offsets) - 1 for offsets in self._offsets])

    def sizes(self, start: int, stop: int) -> NDArray[np.int64]:
        begins = np.concatenate(([0], self.ends[:-1]))
        parts = [
            np.diff(offsets[max(start - begin, 0) : max(stop - begin, 0) + 1]).astype(np.int64)
            for offsets, begin in zip(self._offsets, begins, strict=True)
        ]
        return np.concatenate(parts)

    def __getitem__(self, index: int) -> bytes:
        if not 0 <= index < self.ends[-1]:
            raise IndexError(index)
        shard = int(np.searchsorted(self.ends, index, side="right"))
        if shard not in self._files:
            self._files[shard] = RecordFile(self._paths[shard], self._offsets[shard])
        return self._files[shard][index - int(self.ends[shard - 1] if shard else 0)]


STRINGS = {"key": pa.string(), "category": pa.string(), "text": pa.large_string()}


def layout_of(feature: Feature) -> tf.io.FixedLenFeature | tf.io.RaggedFeature:
    """Return how TensorFlow parses a feature."""
    import tensorflow as tf

    if feature.kind in ("words", "tags"):
        return tf.io.RaggedFeature(tf.string if feature.kind == "words" else tf.int64, row_splits_dtype=tf.int64)
    if feature.kind == "number":
        return tf.io.FixedLenFeature(feature.shape, tf.float32)
    return tf.io.FixedLenFeature((), tf.int64 if feature.kind in ("label", "time") else tf.string)


def column_of(feature: Feature, parsed: Any) -> pa.Array:
    """Return parsed values, a tensor, as a column: of arrays of numbers fixed-size lists, of words and tags lists."""
    from tasks.records.column_types.numbers import Number

    if feature.kind in ("words", "tags"):
        flat, ends = parsed.flat_values.numpy(), parsed.row_splits.numpy().astype(np.int32)
        items = pa.array(list(flat), pa.binary()).cast(pa.string()) if feature.kind == "words" else pa.array(flat)
        return pa.ListArray.from_arrays(pa.array(ends), items)
    values: NDArray[Any] = parsed.numpy()
    if feature.kind == "number":
        return Number(feature).array(values.reshape(len(values), -1))
    if feature.kind in ("label", "time"):
        return pa.array(values.astype(np.int64))
    return pa.array(list(values), pa.large_binary()).cast(STRINGS.get(feature.kind, pa.large_binary()))


def frame_of(table: pa.Table, features: Mapping[str, Feature]) -> pl.DataFrame:
    """Return columns with one value as a frame, missing values as null, of labels the class names."""
    from tasks.records import rules

    for place, name in enumerate(table.column_names):
        if (classes := features[name].classes) is not None and features[name].kind == "label":
            named = pa.array(classes, pa.string()).take(table[name].combine_chunks())
            table = table.set_column(place, name, named)
    return rules.frame_of(table, {name: features[name].kind for name in table.column_names})


def typed(column: pa.Array | pa.ChunkedArray, feature: Feature) -> Values:
    """Return the values of a column of `RecordsReader.tables`; a null is a missing value."""
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
