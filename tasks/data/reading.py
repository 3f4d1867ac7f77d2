"""Records at any (split, index), by offset and without TensorFlow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.data.features import KEY, Feature
from tasks.data.wire import Frames, Parsed, decode
from tasks.errors import Failed, Refused

SHARD = re.compile(r"(?P<name>\w+)-(?P<split>\w+)\.tfrecord-(?P<number>\d{5})-of-(?P<total>\d{5})")


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """The manifest of a published folder of this kind; `Refused` where there is none: such a folder is no artifact."""
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
    """A published records folder. `features` is the schema, `counts` the examples of each split."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path, "records")
        self.features = {name: Feature.from_json(value) for name, value in self.manifest["features"].items()}
        self.counts = {split: int(self._splits[split].ends[-1]) for split in sorted(self._splits)}

    def raw(self, split: str, index: int) -> bytes:
        """The serialized `tf.train.Example`, its checksums verified."""
        return self._split(split)[index]

    def example(self, split: str, index: int) -> Parsed:
        """The example's features: a list of bytes, int64 [k] or float32 [k] for each name."""
        return decode(self.raw(split, index))

    def sizes(self, split: str) -> NDArray[np.int64]:
        """The bytes of each record of a split as it lies in its shard."""
        return self._split(split).sizes()

    def key(self, split: str, index: int) -> str:
        """The example's key."""
        value = self.example(split, index)[KEY]
        return bytes(value[0]).decode()

    def iterate(self, split: str, start: int = 0, stop: int | None = None) -> Iterator[Parsed]:
        """The examples [start, stop) of a split, in stored order."""
        for index in range(start, self.counts[split] if stop is None else stop):
            yield self.example(split, index)

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
    """The frames of a split's shards in a row; a file is opened at its first use."""

    def __init__(self, indices: list[Path]) -> None:
        self._offsets = [np.load(path, mmap_mode="r") for path in indices]
        self._paths = [path.parent.parent / path.stem for path in indices]
        self._frames: dict[int, Frames] = {}
        self.ends: NDArray[np.int64] = np.cumsum([len(offsets) - 1 for offsets in self._offsets])

    def sizes(self) -> NDArray[np.int64]:
        return np.concatenate([np.diff(offsets).astype(np.int64) for offsets in self._offsets])

    def __getitem__(self, index: int) -> bytes:
        if not 0 <= index < self.ends[-1]:
            raise IndexError(index)
        shard = int(np.searchsorted(self.ends, index, side="right"))
        if shard not in self._frames:
            self._frames[shard] = Frames(self._paths[shard], self._offsets[shard])
        return self._frames[shard][index - int(self.ends[shard - 1] if shard else 0)]
