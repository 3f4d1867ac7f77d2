"""Data sets of tensorflow-datasets, read from their prepared TFRecord files without importing it or TensorFlow.

A data set that is not prepared yet is prepared in a process of its own (`tasks.sources.tfds_prepare`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import Failed
from tasks.sources import PARTITION_BYTES, Bad, Partition, Rows, Source
from tasks.sources.features import Feature
from tasks.sources.files import Hashes
from tasks.sources.kinds.columns import features_of
from tasks.sources.record_files import RecordFile, decode
from tasks.sources.rows import bytes_of, hashes_of
from tasks.sources.tfds_schema import INFO, Prepared


class Tfds(Source):
    """Has the features of `source.columns`; without it the only image, text or the numbers, and the only label."""

    def __init__(self, prepared: Prepared | Callable[[], Prepared], memory: Path | None) -> None:
        """Take a prepared data set, or the function that prepares it at the first listing."""
        self._given, self._memory = prepared, memory

    @property
    def ready(self) -> bool:
        return isinstance(self._given, Prepared) or "_prepared" in vars(self)

    @property
    def features(self) -> Mapping[str, Feature]:
        features = features_of(self._prepared.columns)
        for name, feature in features.items():
            if feature.role == "label" and feature.classes is None:
                features[name] = replace(feature, classes=self._prepared.classes(name))
        return features

    @property
    def official(self) -> tuple[str, ...]:
        return tuple(self._prepared.shards)

    def fingerprint(self) -> list[tuple[str, str]]:
        """Return (file, sha256) of every file, as a hash of every example needs all of them to be read."""
        files = self._prepared.files()
        return list(zip(files, Hashes(self._prepared.folder, self._memory).of(files), strict=True))

    def size(self) -> int:
        return Hashes(self._prepared.folder, self._memory).size(self._prepared.files())

    def newest(self) -> float:
        return Hashes(self._prepared.folder, self._memory).newest(self._prepared.files())

    def partitions(self) -> list[Partition]:
        partitions = []
        for split, shards in self._prepared.shards.items():
            first = 0
            for shard, length in shards:
                size = (self._prepared.folder / shard).stat().st_size
                parts = min(max(1, round(size / PARTITION_BYTES)), max(1, length))
                ends = [length * part // parts for part in range(parts + 1)]
                for start, stop in pairwise(ends):
                    where = (split, shard, length, first, start, stop)
                    partitions.append(Partition(f"{shard}[{start}:{stop}]", size // parts, where))
                first += length
        return partitions

    def read(self, partition: Partition) -> Iterator[Rows]:
        split, shard, length, first, start, stop = partition.where
        payloads = self._payloads(shard, length, start, stop)
        keys, contents, bad = list[str](), list[bytes](), list[Bad]()
        values: dict[str, list[Any]] = {name: [] for name in self._sizes}
        for number, payload in enumerate(payloads, start=first + start):
            key, example = f"{split}/{number:07d}", decode(payload)
            row = [example.get(name, []) for name in values]
            lacking = [name for name, value in zip(values, row, strict=True) if len(value) != self._sizes[name]]
            if lacking:
                reason = f"{lacking[0]}: {len(example.get(lacking[0], []))} values, not {self._sizes[lacking[0]]}"
                bad.append(Bad(key, reason, key))
                continue
            keys.append(key)
            contents.append(bytes_of(example))  # the features of an example have no order
            for name, value in zip(values, row, strict=True):
                values[name].append(value[0] if self._scalar[name] else value)
        columns = {name: self._column(name, of_feature) for name, of_feature in values.items()}
        splits = pa.array([split] * len(keys), pa.string())
        yield Rows(columns, pa.array(keys, pa.string()), keys.__getitem__, splits, hashes_of(contents), bad)

    @cached_property
    def _scalar(self) -> dict[str, bool]:
        return {name: feature.kind != "number" or not feature.shape for name, feature in self.features.items()}

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The number of values that an example has of each feature."""
        return {name: math.prod(f.shape) if f.kind == "number" else 1 for name, f in self.features.items()}

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        if (classes := self._prepared.classes(name)) is not None:
            return pa.array([classes[int(value)] if 0 <= int(value) < len(classes) else None for value in values])
        if values and isinstance(values[0], bytes):
            return pa.array(values, pa.large_binary())
        if self._prepared.is_uint64(name):
            values = [value.view(np.uint64) for value in values]
            kind = pa.uint64() if self._scalar[name] else pa.list_(pa.uint64())
            return pa.array([value.tolist() for value in values], kind)
        return pa.array([value.item() for value in values] if self._scalar[name] else values)

    def _payloads(self, shard: str, length: int, start: int, stop: int) -> Iterator[bytes]:
        """Yield the serialised examples [start, stop) of a shard."""
        path = self._prepared.folder / shard
        if self._prepared.format == "array_record":
            from array_record.python.array_record_module import ArrayRecordReader

            reader = ArrayRecordReader(str(path))
            count = reader.num_records()
            read = iter(reader.read(list(range(start, stop))) if count == length else ())
        else:
            file = RecordFile(path)
            count = len(file)
            read = (file[number] for number in range(start, stop))
        if count != length:
            saw, rule = f"{count} examples", f"{INFO} says {length}"
            raise Failed(str(path), saw, rule, "prepare the data set again")
        yield from read

    @cached_property
    def _prepared(self) -> Prepared:
        return self._given if isinstance(self._given, Prepared) else self._given()
