"""Data sets of tensorflow-datasets, read from their prepared TFRecord files without importing it or TensorFlow.

A data set that is not prepared yet is prepared in a process of its own (`tasks.data.sources.tfds_prepare`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import TfdsSource
from tasks.data.features import Example, Feature, Value
from tasks.data.sources import Item, Source, Unreadable
from tasks.data.sources.files import Hashes
from tasks.data.tfrecord import Parsed, RecordFile, decode
from tasks.environment.interpreter import PYTHON, environment
from tasks.errors import Failed, Refused

INFO, SCHEMA = "dataset_info.json", "features.json"
NAME = re.compile(r"(?P<name>\w+)(?:/(?P<config>[\w.-]+))?(?::(?P<version>\d+\.\d+\.\d+))?")
NOUNS = {"image": "an image", "label": "a class label", "text": "a text"}


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
        return root if _info(root).get("name") == match["name"] else None
    under = root / match["name"] / (match["config"] or "")
    versions = [path.parent for path in under.glob(f"*/{INFO}") if re.fullmatch(r"\d+\.\d+\.\d+", path.parent.name)]
    if match["version"]:
        versions = [path for path in versions if path.name == match["version"]]
    return max(versions, key=lambda path: [int(part) for part in path.name.split(".")], default=None)


class Prepared:
    """A prepared folder: its shards by split, its schema, and the features that are read."""

    def __init__(self, folder: Path, config: TfdsSource) -> None:
        self.folder, self._config = folder, config
        info, schema = _info(folder), _json(folder / SCHEMA)["featuresDict"]["features"]
        if info.get("fileFormat", "tfrecord") != "tfrecord":
            raise Refused(
                "source.dataset",
                f"{folder} holds {info['fileFormat']}",
                "only data sets prepared as tfrecord are read here",
                "prepare it with --file_format=tfrecord",
            )
        self._kinds = {name: _kind(feature) for name, feature in schema.items()}
        self._schema = schema
        self.shards = self._shards(info, config.splits)
        self.payload = self._single_feature("image", None) or self._single_feature("text", None)
        self.label = self._single_feature("label", config.label)
        if self.payload is None:
            names = ", ".join(sorted(schema))
            raise Refused("source.dataset", f"features {names}", "one must be an image or a text", "choose another")
        for field in ("key", "group"):
            name = getattr(config, field)
            if name is not None and self._kinds.get(name) not in ("text", "number", "label"):
                raise self._unknown(field, name, "a text or an integer")

    @property
    def features(self) -> dict[str, Feature]:
        assert self.payload is not None
        if self._kinds[self.payload] == "image":
            features = {"image": Feature("image", "uint8", (-1, -1, -1))}
        else:
            features = {"text": Feature("bytes", "string")}
        if self.label is not None:
            features["label"] = Feature("label", "int64", classes=self._classes(self.label))
        return features

    def example(self, payload: bytes) -> Example:
        """Return the features of a serialised example; raises `Unreadable` where one is missing."""
        parsed = decode(payload)
        assert self.payload is not None
        name = "image" if self._kinds[self.payload] == "image" else "text"
        example: Example = {name: _single(parsed, self.payload)}
        if self.label is not None:
            example["label"] = _single(parsed, self.label)
        return example

    def payload_content(self, payload: bytes) -> bytes | None:
        """Return the image or text of a serialised example; None where it has none."""
        assert self.payload is not None
        values = decode(payload).get(self.payload, [])
        return bytes(values[0]) if len(values) == 1 else None

    def text(self, payload: bytes, feature: str) -> str:
        """Return a feature as text, for a key or a group."""
        value = _single(decode(payload), feature)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def files(self) -> list[str]:
        """Return the files that decide the examples: the shards, the schema and the class names."""
        shards = [shard for shards in self.shards.values() for shard in shards]
        return sorted([*shards, SCHEMA, *(path.name for path in self.folder.glob("*.labels.txt"))])

    def _shards(self, info: dict[str, Any], chosen: tuple[str, ...] | None) -> dict[str, list[str]]:
        splits = {split["name"]: split for split in info.get("splits", [])}
        if unknown := sorted(set(chosen or ()) - set(splits)):
            raise Refused("source.splits", unknown[0], f"it has {', '.join(splits) or 'none'}", "name some of them")
        shards_by_split = {}
        for name in sorted(chosen or splits):
            lengths = splits[name].get("shardLengths", [])
            template = splits[name].get("filepathTemplate", "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}")
            shards_by_split[name] = [
                template.format(
                    DATASET=info["name"],
                    SPLIT=name,
                    FILEFORMAT="tfrecord",
                    SHARD_INDEX=f"{number:05d}",
                    NUM_SHARDS=f"{len(lengths):05d}",
                    SHARD_X_OF_Y=f"{number:05d}-of-{len(lengths):05d}",
                )
                for number in range(len(lengths))
            ]
        missing = [
            shard for shards in shards_by_split.values() for shard in shards if not (self.folder / shard).is_file()
        ]
        if missing:
            raise Refused(
                "source.dataset", f"{self.folder / missing[0]} is missing", "all shards must be there", "remake it"
            )
        if not any(shards_by_split.values()):
            raise Refused(
                "source.dataset", f"{self.folder} holds no shard", "it must have examples", "name other splits"
            )
        return shards_by_split

    def _single_feature(self, kind: str, given: str | None) -> str | None:
        names = sorted(name for name, kind_of in self._kinds.items() if kind_of == kind)
        if given is not None:
            if given not in names:
                raise self._unknown("label", given, NOUNS[kind])
            return given
        if len(names) > 1 and kind == "label":
            raise Refused("source.label", "nothing", f"there are several: {', '.join(names)}", "name one of them")
        if len(names) > 1 and kind == "image":
            raise Refused("source.dataset", ", ".join(names), "exactly one feature may be an image", "choose another")
        if len(names) > 1:
            names = [name for name in names if name == "text"]
        return names[0] if names else None

    def _unknown(self, field: str, name: str, wanted: str) -> Refused:
        known = ", ".join(f"{name} ({kind or 'unread'})" for name, kind in sorted(self._kinds.items()))
        return Refused(f"source.{field}", name, f"must be {wanted} of {known}", "name one of them")

    def _classes(self, label: str) -> tuple[str, ...]:
        names = self.folder / f"{label}.labels.txt"
        if names.is_file():
            return tuple(names.read_text().splitlines())
        return tuple(str(number) for number in range(int(self._schema[label]["classLabel"]["numClasses"])))


class Tfds(Source):
    """Has the features `image` or `text`, as prepared, and `label` where there is one; others are not read."""

    def __init__(self, config: TfdsSource, memory: Path | None, prepared_folder: Prepared | None = None) -> None:
        self._config, self._memory = config, memory
        if prepared_folder is not None:
            self._prepared = prepared_folder

    @property
    def ready(self) -> bool:
        return "_prepared" in vars(self)

    @property
    def features(self) -> Mapping[str, Feature]:
        return self._prepared.features

    def fingerprint(self) -> list[tuple[str, str]]:
        """Return (file, sha256) of every file, as a hash of every example needs all of them to be read."""
        files = self._prepared.files()
        return list(zip(files, Hashes(self._prepared.folder, self._memory).of(files), strict=True))

    def size(self) -> int:
        return Hashes(self._prepared.folder, self._memory).size(self._prepared.files())

    def newest(self) -> float:
        return Hashes(self._prepared.folder, self._memory).newest(self._prepared.files())

    def listing(self) -> list[Item]:
        self._positions: dict[str, tuple[str, int]] = {}
        self._files: dict[str, RecordFile] = {}
        items = []
        for split, shards in self._prepared.shards.items():
            index = 0
            for shard in shards:
                self._files[shard] = RecordFile(self._prepared.folder / shard)
                for number, payload in enumerate(self._files[shard]):
                    item = self._item(f"{split}/{index:07d}", payload)
                    self._positions[item.key] = (shard, number)
                    items.append(item)
                    index += 1
        return sorted(items, key=lambda item: item.key)

    def read(self, item: Item) -> Example:
        shard, number = self._positions[item.key]
        payload = self._files[shard][number]
        if hashlib.sha256(payload).hexdigest() != item.sha256:
            raise Failed(item.key, "other content than listed", "a source must not change while it is read", "rerun")
        return self._prepared.example(payload)

    def _item(self, position: str, payload: bytes) -> Item:
        config, read = self._config, self._prepared.text
        try:
            key = position if config.key is None else read(payload, config.key)
            group = None if config.group is None else read(payload, config.group)
        except Unreadable as reason:
            raise Failed(
                position, reason, "every example needs its key and group", "correct source.key or .group"
            ) from None
        payload_content = self._prepared.payload_content(payload)
        unlabelled = None if payload_content is None else hashlib.sha256(payload_content).hexdigest()
        return Item(key, hashlib.sha256(payload).hexdigest(), group, unlabelled)

    @cached_property
    def _prepared(self) -> Prepared:
        """Prepare the data set, in a process that may use the network; raises `Failed` where that fails."""
        command = [*PYTHON, "-m", "tasks.data.sources.tfds_prepare", self._config.model_dump_json()]
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


def _kind(feature: dict[str, Any]) -> str | None:
    """Return the kind of a tensorflow-datasets feature; None for one that is not read."""
    name = str(feature.get("pythonClassName", "")).rpartition(".")[2]
    if name == "Image" and feature["image"].get("dtype", "uint8") in ("uint8", "uint16"):
        return "image"
    if name in ("Tensor", "Scalar") and not feature["tensor"]["shape"].get("dimensions"):
        dtype = feature["tensor"]["dtype"]
        return "text" if dtype == "string" else "number" if dtype.startswith(("int", "uint")) else None
    return {"ClassLabel": "label", "Text": "text"}.get(name)


def _single(parsed: Parsed, name: str) -> Value:
    values = parsed.get(name, [])
    if len(values) != 1:
        raise Unreadable(f"{name}: {len(values)} values instead of one")
    value = values[0]
    return value if isinstance(value, bytes) else int(np.asarray(value))


def _infos(root: Path) -> list[Path]:
    return [path for depth in ("*/*", "*/*/*") for path in root.glob(f"{depth}/{INFO}")]


def _info(folder: Path) -> dict[str, Any]:
    return _json(folder / INFO)


def _json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        return content
    except (OSError, ValueError) as error:
        rule = "a prepared data set holds it"
        raise Refused(
            "source.data_dir", f"{path}: {type(error).__name__}", rule, "prepare the data set again"
        ) from error
