"""Data sets of tensorflow-datasets, read from their prepared TFRecord files without importing it or TensorFlow.

A data set that is not prepared yet is prepared in a process of its own (`tasks.sources.tfds_prepare`).
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.config.sources import TfdsSource
from tasks.environment.process import PYTHON, environment
from tasks.errors import Failed, Refused
from tasks.sources import PIECE_BYTES, Bad, Piece, Rows, Source
from tasks.sources.features import Feature, features_of
from tasks.sources.files import Hashes
from tasks.sources.record_files import RecordFile, decode
from tasks.sources.rows import bytes_of, hashes_of
from tasks.sources.tfds_schema import INFO, Prepared, read_json

NAME = re.compile(r"(?P<name>\w+)(?:/(?P<config>[\w.-]+))?(?::(?P<version>\d+\.\d+\.\d+))?")


def open(config: TfdsSource, memory: Path | None = None) -> Source:
    """Open a prepared data set, or one that is prepared at the first listing (`source.download`).

    Raises:
        Refused: it is not prepared and `source.download` is false, it has another format, or it lacks a feature or
            split of the config.
    """
    folder = prepared(config)
    if folder is None and not config.download:
        known = sorted({path.parent.relative_to(data_dir(config)).as_posix() for path in _infos(data_dir(config))})
        saw = f"{config.dataset} is not prepared in {data_dir(config)} (there: {', '.join(known[:8]) or 'nothing'})"
        raise Refused(
            "source.dataset",
            saw,
            "without source.download nothing is prepared and the network is not used",
            "correct source.dataset or source.data_dir, or set source.download to true",
        )
    if folder is None and config.module is not None:
        _check_module(config.module)
    return Tfds(config, memory) if folder is None else Tfds(config, memory, Prepared(folder, config))


def _check_module(module: str) -> None:
    if module.endswith(".py"):
        if not Path(module).expanduser().is_file():
            raise Refused("source.module", module, "a module is the path of a file .py, or installed", "correct it")
    elif not re.fullmatch(r"[A-Za-z_][\w.]*", module) or find_spec(module.partition(".")[0]) is None:
        rule = "a module that is not the path of a file .py must be installed"
        raise Refused("source.module", module, rule, "install it, or give the path of its file")


def data_dir(config: TfdsSource) -> Path:
    """Return the folder of prepared data sets, by the rules of tensorflow-datasets."""
    default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    return Path(config.data_dir or default).expanduser()


def prepared(config: TfdsSource) -> Path | None:
    """Return the folder of the data set, the newest version where none is named; None where it is not prepared."""
    match = NAME.fullmatch(config.dataset)
    if match is None:
        raise Refused(
            "source.dataset", config.dataset, "must be NAME, NAME/CONFIG or NAME/CONFIG:VERSION", "correct it"
        )
    root = data_dir(config)
    if (root / INFO).is_file():
        return root if read_json(root / INFO).get("name") == match["name"] else None
    under = root / match["name"] / (match["config"] or "")
    versions = [path.parent for path in under.glob(f"*/{INFO}") if re.fullmatch(r"\d+\.\d+\.\d+", path.parent.name)]
    if match["version"]:
        versions = [path for path in versions if path.name == match["version"]]
    return max(versions, key=lambda path: [int(part) for part in path.name.split(".")], default=None)


class Tfds(Source):
    """Has the features of `source.columns`; without it the only image, text or the numbers, and the only label."""

    def __init__(self, config: TfdsSource, memory: Path | None, prepared_folder: Prepared | None = None) -> None:
        self._config, self._memory = config, memory
        if prepared_folder is not None:
            self._prepared = prepared_folder

    @property
    def ready(self) -> bool:
        return "_prepared" in vars(self)

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

    def pieces(self) -> list[Piece]:
        pieces = []
        for split, shards in self._prepared.shards.items():
            first = 0
            for shard, length in shards:
                size = (self._prepared.folder / shard).stat().st_size
                parts = min(max(1, round(size / PIECE_BYTES)), max(1, length))
                ends = [length * part // parts for part in range(parts + 1)]
                for start, stop in pairwise(ends):
                    where = (split, shard, length, first, start, stop)
                    pieces.append(Piece(f"{shard}[{start}:{stop}]", size // parts, where))
                first += length
        return pieces

    def read(self, piece: Piece) -> Iterator[Rows]:
        split, shard, length, first, start, stop = piece.where
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
        """Prepare the data set, in a process that may use the network; raises `Failed` where that fails."""
        command = [*PYTHON, "-m", "tasks.sources.tfds_prepare", self._config.model_dump_json()]
        process = subprocess.run(
            command, env=environment(os.environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if process.returncode:
            sys.stderr.write(process.stderr)
            saw = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
            rule = "tensorflow-datasets must be able to prepare it"
            raise Failed(
                f"source.dataset {self._config.dataset}", saw, rule, "see the log; prepare it by hand and rerun"
            )
        folder = prepared(self._config)
        if folder is None:
            saw = f"not in {data_dir(self._config)} after it was prepared"
            raise Failed(f"source.dataset {self._config.dataset}", saw, "must be there", "name its version")
        return Prepared(folder, self._config)


def _infos(root: Path) -> list[Path]:
    return [path for depth in ("*/*", "*/*/*") for path in root.glob(f"{depth}/{INFO}")]
