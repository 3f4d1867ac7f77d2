"""Data sets of tensorflow-datasets, read from their prepared files without importing it or TensorFlow.

A prepared folder tells its splits, its shards, and the types of its features. A data set that is not prepared yet is
prepared in a process of its own (`tasks.sources.tfds_prepare`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from tasks.config.base import Conflict
from tasks.errors import Failed, Refused
from tasks.sources import PARTITION_BYTES, Bad, Partition, Rows, Source
from tasks.sources.features import Feature
from tasks.sources.files import Folder
from tasks.sources.hashes import bytes_of, hashes_of
from tasks.sources.kinds.columns import ColumnsSource, features_of
from tasks.sources.record_files import RecordFile, decode

INFO, SCHEMA = "dataset_info.json", "features.json"
FORMATS = ("tfrecord", "array_record")
UNREAD = "ignore"


class Prepared:
    """The folder of a data set. `kinds`: the type of each feature as in `source.columns`; `formats`: of its files."""

    def __init__(self, folder: Path, columns: ColumnsSource, splits: Sequence[str] | None) -> None:
        """Read the metadata; raises `Refused` where they do not fit the columns and splits of the config."""
        self.folder = folder
        info = read_json(folder / INFO)
        self.format = info.get("fileFormat", "tfrecord")
        if self.format not in FORMATS:
            rule, remedy = f"only {' and '.join(FORMATS)} are read here", "prepare it with --file_format=tfrecord"
            raise Refused("source.dataset", f"{folder} holds {self.format}", rule, remedy)
        self.schema = dict(flat(read_json(folder / SCHEMA)))
        self.kinds = {name: kind_of(feature) for name, feature in self.schema.items()}
        self.shards = self._shards(info, splits)
        self.columns = self._columns(columns)

    def classes(self, name: str) -> tuple[str, ...] | None:
        """Return the class names of a feature; None of one that is no class label."""
        if "classLabel" not in self.schema[name]:
            return None
        names = self.folder / f"{name.replace('/', '-')}.labels.txt"
        if names.is_file():
            return tuple(names.read_text().splitlines())
        return tuple(str(number) for number in range(int(self.schema[name]["classLabel"]["numClasses"])))

    def is_uint64(self, name: str) -> bool:
        """Return whether a feature has numbers of 64 bits without a sign, whose bits an example has as int64."""
        return bool(self.schema[name].get("tensor", {}).get("dtype") == "uint64")

    def files(self) -> list[str]:
        """Return the files that decide the examples: the shards, the schema and the class names."""
        shards = [shard for shards in self.shards.values() for shard, _ in shards]
        return sorted([*shards, SCHEMA, *(path.name for path in self.folder.glob("*.labels.txt"))])

    def _columns(self, config: ColumnsSource) -> ColumnsSource:
        """Return columns and roles, those of the config or else chosen by the types."""
        given = {name: getattr(config, name) for name in ColumnsSource.model_fields}
        if not config.columns:
            given |= self._chosen(config)
        for name, kind in given["columns"].items():
            if name not in self.kinds:
                raise self._unknown("columns", name, "one")
            if kind != UNREAD and self.kinds[name] == UNREAD:
                raise Refused(
                    f"source.columns.{name}", kind, "is of a kind that is not read", f"write `{name}: ignore`"
                )
        try:
            return ColumnsSource.model_validate(given)
        except ValidationError as error:
            cause = error.errors()[0].get("ctx", {}).get("error")
            if isinstance(cause, Conflict):
                raise Refused(f"source.{cause.field}", cause.saw, cause.rule, cause.remedy) from None
            raise

    def _chosen(self, config: ColumnsSource) -> dict[str, Any]:
        """Return `columns` and `label` for a config without columns."""
        labels = [name for name in self.schema if "classLabel" in self.schema[name]]
        label = config.label
        if label is None and not config.targets:
            if len(labels) > 1:
                rule = f"there are several: {', '.join(labels)}"
                raise Refused("source.label", "nothing", rule, "name one of them, or source.columns")
            label = next(iter(labels), None)
        elif label is not None and label not in labels:
            raise self._unknown("label", label, "a class label")
        roles = {"key": config.key, "label": label, "weight": config.weight, "group": config.group}
        roles |= {"split": config.split, "time": config.time, **{f"targets {name}": name for name in config.targets}}
        columns = {}
        for role, name in roles.items():
            if name is not None:
                if self.kinds.get(name, UNREAD) in (UNREAD, "image"):
                    raise self._unknown(role.partition(" ")[0], name, "a text or a number")
                columns[name] = self.kinds[name]
        free = {name: kind for name, kind in self.kinds.items() if name not in columns and kind != UNREAD}
        for wanted in ("image", "text", "number"):
            found = [name for name, kind in free.items() if kind.startswith(wanted)]
            if wanted in found and wanted != "number":  # as it is called where there are others
                found = [wanted]
            if found and wanted != "number" and len(found) > 1:
                rule = f"exactly one feature may be {'an image' if wanted == 'image' else 'a text'} by default"
                raise Refused("source.dataset", ", ".join(found), rule, "name the features in source.columns")
            if found:
                return {"columns": {**columns, **{name: free[name] for name in found}}, "label": label}
        names = ", ".join(sorted(self.schema))
        rule = "one must be an image, a text or a number"
        raise Refused("source.dataset", f"features {names}", rule, "choose another")

    def _unknown(self, field: str, name: str, wanted: str) -> Refused:
        known = ", ".join(f"{name} ({kind})" for name, kind in sorted(self.kinds.items()))
        return Refused(f"source.{field}", name, f"must be {wanted} of {known}", "name one of them")

    def _shards(self, info: dict[str, Any], chosen: Sequence[str] | None) -> dict[str, list[tuple[str, int]]]:
        """Return the shard files of each split that is read, with their numbers of examples."""
        splits = {split["name"]: split for split in info.get("splits", [])}
        if unknown := sorted(set(chosen or ()) - set(splits)):
            raise Refused("source.splits", unknown[0], f"it has {', '.join(splits) or 'none'}", "name some of them")
        shards = {}
        for name in sorted(chosen or splits):
            lengths = [int(length) for length in splits[name].get("shardLengths", [])]
            template = splits[name].get("filepathTemplate", "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}")
            shards[name] = [
                (
                    template.format(
                        DATASET=info["name"],
                        SPLIT=name,
                        FILEFORMAT=self.format,
                        SHARD_INDEX=f"{number:05d}",
                        NUM_SHARDS=f"{len(lengths):05d}",
                        SHARD_X_OF_Y=f"{number:05d}-of-{len(lengths):05d}",
                    ),
                    length,
                )
                for number, length in enumerate(lengths)
            ]
        every = [shard for of_split in shards.values() for shard, _ in of_split]
        if missing := [shard for shard in every if not (self.folder / shard).is_file()]:
            saw = f"{self.folder / missing[0]} is missing"
            raise Refused("source.dataset", saw, "all shards must be there", "remake it")
        if not every:
            saw = f"{self.folder} holds no shard"
            raise Refused("source.dataset", saw, "it must have examples", "name other splits")
        return shards


def kind_of(feature: dict[str, Any]) -> str:
    """Return the type of a feature of tensorflow-datasets as in `source.columns`; `ignore` of one that is not read."""
    name = str(feature.get("pythonClassName", "")).rpartition(".")[2]
    if name == "Image" and feature["image"].get("dtype", "uint8") in ("uint8", "uint16"):
        return "image"
    if name in ("Tensor", "Scalar"):
        tensor = feature["tensor"]
        sizes = [int(size) for size in tensor["shape"].get("dimensions", [])]
        if tensor["dtype"] == "string":
            return UNREAD if sizes else "text"
        if any(size < 1 for size in sizes) or tensor.get("encoding", "none").lower() not in ("none", ""):
            return UNREAD
        return f"number[{', '.join(map(str, sizes))}]" if sizes else "number"
    return {"ClassLabel": "category", "Text": "text"}.get(name, UNREAD)


def flat(schema: dict[str, Any], prefix: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Return the features by path, as tensorflow-datasets names them in an example."""
    features: list[tuple[str, dict[str, Any]]] = []
    for name, feature in schema["featuresDict"]["features"].items():
        nested = str(feature.get("pythonClassName", "")).endswith("FeaturesDict")
        features += flat(feature, f"{prefix}{name}/") if nested else [(f"{prefix}{name}", feature)]
    return features


def read_json(path: Path) -> dict[str, Any]:
    """Read a file of metadata; raises `Refused` where it cannot be read."""
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        return content
    except (OSError, ValueError) as error:
        saw, rule = f"{path}: {type(error).__name__}", "a prepared data set holds it"
        raise Refused("source.data_dir", saw, rule, "prepare the data set again") from error


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
        return list(zip(files, Folder(self._prepared.folder, self._memory).of(files), strict=True))

    def size(self) -> int:
        return Folder(self._prepared.folder, self._memory).size(self._prepared.files())

    def newest(self) -> float:
        return Folder(self._prepared.folder, self._memory).newest(self._prepared.files())

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
