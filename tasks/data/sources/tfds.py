"""Data sets of tensorflow-datasets, read from their prepared TFRecord files: neither it nor TensorFlow is imported.

Only to prepare one that is not there yet it is started, in a process of its own (`tasks.data.sources.tfds_prepare`).
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
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import TfdsSource
from tasks.data.features import Example, Feature, Value
from tasks.data.sources import Item, Source, Unreadable
from tasks.data.sources.files import Hashes
from tasks.data.wire import Frames, Parsed, decode
from tasks.errors import Failed, Refused

INFO, SCHEMA = "dataset_info.json", "features.json"
NAME = re.compile(r"(?P<name>\w+)(?:/(?P<config>[\w.-]+))?(?::(?P<version>\d+\.\d+\.\d+))?")
DEPTH = {"image": "an image", "label": "a class label", "text": "a text"}


def open(config: TfdsSource, memory: Path | None = None) -> Source:
    """The prepared data set, or one that `download` will prepare at the first listing.

    Raises `Refused` where it is not prepared and must not be, was prepared in another format, or lacks what the
    config names.
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
    return Tfds(config, memory) if folder is None else Tfds(config, memory, Prepared(folder, config))


def data_dir(config: TfdsSource) -> Path:
    """Where prepared data sets lie; as tensorflow-datasets has it."""
    default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    return Path(config.data_dir or default).expanduser()


def prepared(config: TfdsSource) -> Path | None:
    """The folder of the data set, of its newest version where none is named; None where it is not prepared."""
    match = NAME.fullmatch(config.dataset)
    if match is None:
        raise Refused(
            "source.dataset", config.dataset, "must be NAME, NAME/CONFIG or NAME/CONFIG:VERSION", "correct it"
        )
    root = data_dir(config)
    if (root / INFO).is_file():
        return root if _info(root).get("name") == match["name"] else None
    under = root / match["name"] / (match["config"] or "")
    found = [path.parent for path in under.glob(f"*/{INFO}") if re.fullmatch(r"\d+\.\d+\.\d+", path.parent.name)]
    if match["version"]:
        found = [path for path in found if path.name == match["version"]]
    return max(found, key=lambda path: [int(part) for part in path.name.split(".")], default=None)


class Prepared:
    """A prepared folder: its splits, its schema, and which of its features are read."""

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
        self.payload = self._only("image", None) or self._only("text", None)
        self.label = self._only("label", config.label)
        if self.payload is None:
            names = ", ".join(sorted(schema))
            raise Refused("source.dataset", f"features {names}", "one must be an image or a text", "choose another")
        for field in ("key", "group"):
            name = getattr(config, field)
            if name is not None and self._kinds.get(name) not in ("text", "number", "label"):
                raise self._unknown(field, name, "a text or a whole number")

    @property
    def features(self) -> dict[str, Feature]:
        assert self.payload is not None
        if self._kinds[self.payload] == "image":
            found = {"image": Feature("image", "uint8", (-1, -1, -1))}
        else:
            found = {"text": Feature("bytes", "string")}
        if self.label is not None:
            found["label"] = Feature("label", "int64", classes=self._classes(self.label))
        return found

    def example(self, payload: bytes) -> Example:
        """What of a serialized example is read. Raises `Unreadable` where it lacks something."""
        parsed = decode(payload)
        assert self.payload is not None
        name = "image" if self._kinds[self.payload] == "image" else "text"
        found: Example = {name: _single(parsed, self.payload)}
        if self.label is not None:
            found["label"] = _single(parsed, self.label)
        return found

    def shown(self, payload: bytes) -> bytes | None:
        """The image or text of a serialized example, as it was prepared; None where it has none."""
        assert self.payload is not None
        values = decode(payload).get(self.payload, [])
        return bytes(values[0]) if len(values) == 1 else None

    def text(self, payload: bytes, feature: str) -> str:
        """A feature as text: a key or a group."""
        value = _single(decode(payload), feature)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def files(self) -> list[str]:
        """What decides the examples: the shards that are read, the schema and the names of classes."""
        shards = [shard for shards in self.shards.values() for shard in shards]
        return sorted([*shards, SCHEMA, *(path.name for path in self.folder.glob("*.labels.txt"))])

    def _shards(self, info: dict[str, Any], wanted: tuple[str, ...] | None) -> dict[str, list[str]]:
        splits = {split["name"]: split for split in info.get("splits", [])}
        if unknown := sorted(set(wanted or ()) - set(splits)):
            raise Refused("source.splits", unknown[0], f"it has {', '.join(splits) or 'none'}", "name some of them")
        found = {}
        for name in sorted(wanted or splits):
            lengths = splits[name].get("shardLengths", [])
            template = splits[name].get("filepathTemplate", "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}")
            found[name] = [
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
        missing = [shard for shards in found.values() for shard in shards if not (self.folder / shard).is_file()]
        if missing:
            raise Refused(
                "source.dataset", f"{self.folder / missing[0]} is missing", "all shards must be there", "remake it"
            )
        if not any(found.values()):
            raise Refused(
                "source.dataset", f"{self.folder} holds no shard", "it must have examples", "name other splits"
            )
        return found

    def _only(self, kind: str, chosen: str | None) -> str | None:
        names = sorted(name for name, found in self._kinds.items() if found == kind)
        if chosen is not None:
            if chosen not in names:
                raise self._unknown("label", chosen, DEPTH[kind])
            return chosen
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
    """Gives `image` or `text` as it was prepared, and `label` where there is one; other features are left."""

    def __init__(self, config: TfdsSource, memory: Path | None, found: Prepared | None = None) -> None:
        self._config, self._memory = config, memory
        if found is not None:
            self._prepared = found

    @property
    def ready(self) -> bool:
        return "_prepared" in vars(self)

    @property
    def features(self) -> Mapping[str, Feature]:
        return self._prepared.features

    def fingerprint(self) -> list[tuple[str, str]]:
        """By file, since the examples cannot be told apart without reading all of them."""
        files = self._prepared.files()
        return list(zip(files, Hashes(self._prepared.folder, self._memory).of(files), strict=True))

    def size(self) -> int:
        return Hashes(self._prepared.folder, self._memory).size(self._prepared.files())

    def newest(self) -> float:
        return Hashes(self._prepared.folder, self._memory).newest(self._prepared.files())

    def listing(self) -> list[Item]:
        self._places: dict[str, tuple[str, int]] = {}
        self._frames: dict[str, Frames] = {}
        items = []
        for split, shards in self._prepared.shards.items():
            index = 0
            for shard in shards:
                self._frames[shard] = Frames(self._prepared.folder / shard)
                for number, payload in enumerate(self._frames[shard]):
                    item = self._item(f"{split}/{index:07d}", payload)
                    self._places[item.key] = (shard, number)
                    items.append(item)
                    index += 1
        return sorted(items, key=lambda item: item.key)

    def read(self, item: Item) -> Example:
        shard, number = self._places[item.key]
        payload = self._frames[shard][number]
        if hashlib.sha256(payload).hexdigest() != item.sha256:
            raise Failed(item.key, "other content than listed", "a source must not change while it is read", "rerun")
        return self._prepared.example(payload)

    def _item(self, place: str, payload: bytes) -> Item:
        config, read = self._config, self._prepared.text
        try:
            key = place if config.key is None else read(payload, config.key)
            group = None if config.group is None else read(payload, config.group)
        except Unreadable as reason:
            raise Failed(
                place, reason, "every example needs its key and group", "correct source.key or .group"
            ) from None
        shown = self._prepared.shown(payload)
        unlabelled = None if shown is None else hashlib.sha256(shown).hexdigest()
        return Item(key, hashlib.sha256(payload).hexdigest(), group, unlabelled)

    @cached_property
    def _prepared(self) -> Prepared:
        """Prepare the data set now, in a process that may import TensorFlow and use the network."""
        command = [sys.executable, "-m", "tasks.data.sources.tfds_prepare", self._config.model_dump_json()]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.stderr.write(done.stderr)
            saw = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            rule = "tensorflow-datasets must be able to prepare it"
            raise Failed(
                f"source.dataset {self._config.dataset}", saw, rule, "see the log; prepare it by hand and rerun"
            )
        folder = prepared(self._config)
        if folder is None:
            saw = f"not in {data_dir(self._config)} after it was prepared"
            raise Failed(f"source.dataset {self._config.dataset}", saw, "must lie there", "name its version")
        return Prepared(folder, self._config)


def _kind(feature: dict[str, Any]) -> str | None:
    """What a feature of tensorflow-datasets is here; None for what is not read."""
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
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found
    except (OSError, ValueError) as error:
        rule = "a prepared data set holds it"
        raise Refused(
            "source.data_dir", f"{path}: {type(error).__name__}", rule, "prepare the data set anew"
        ) from error
