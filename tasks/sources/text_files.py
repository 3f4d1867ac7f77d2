"""Text files of a folder: each is an example, or each of its lines or paragraphs."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa

from tasks.errors import Failed, Refused
from tasks.sources import PARTITION_BYTES, Bad, Partition, Rows, Source, name_some
from tasks.sources.features import Feature, in_order
from tasks.sources.files import groups
from tasks.sources.rows import hashes_of
from tasks.sources.trees import open_tree

STDLIB = "stdlib:"
PARTITION_FILES = 4096

Text = tuple[str, bytes]
"""Key and content."""


def root(path: str) -> Path:
    """Return the folder of `source.path`; `stdlib:` is the standard library of this Python."""
    if path == STDLIB:
        return Path(sysconfig.get_path("stdlib"))
    if path.startswith(STDLIB):
        raise Refused("source.path", path, f"after {STDLIB} comes nothing", f"use {STDLIB} and choose by source.glob")
    return Path(path).expanduser()


class TextFiles(Source):
    """Has the feature `text`, UTF-8, and with `source.class_folders` `label`, the name of the first folder.

    A file's key is its relative path, a line's or paragraph's that and the offset of its first byte. Files keep their
    line ends, byte order marks and empty content; lines and paragraphs are without surrounding blanks, and blank ones
    are no examples. What is not UTF-8 is skipped, or ends the run, by `source.undecodable`.
    """

    def __init__(
        self,
        path: str,
        glob: str,
        exclude: Sequence[str],
        memory: Path | None,
        *,
        example: Literal["file", "line", "paragraph"],
        class_folders: bool,
        skips: bool,
    ) -> None:
        """Find the files; raises `Refused` where none matches, or one is in no class folder."""
        self._glob, self._exclude, self._example = glob, exclude, example
        self._class_folders, self._skips = class_folders, skips
        self._tree = open_tree(root(path), memory)
        self._paths = self._find()
        self._listed: list[str] = []

    @property
    def features(self) -> Mapping[str, Feature]:
        text = {"text": Feature("text", "string")}
        if not self._class_folders:
            return text
        classes = tuple(in_order({_class_of(path) for path in self._paths}))
        return {**text, "label": Feature("label", "int64", role="label", classes=classes)}

    def fingerprint(self) -> list[tuple[str, str]]:
        if self._listed:  # a later call looks again
            self._paths = self._find()
        self._listed = self._tree.of(self._paths)
        return list(zip(self._paths, self._listed, strict=True))

    def partitions(self) -> list[Partition]:
        return groups(self._paths, self._tree.sizes(self._paths), PARTITION_BYTES, PARTITION_FILES)

    def read(self, partition: Partition) -> Iterator[Rows]:
        start, stop = partition.where
        batch: list[Text] = []
        size = 0
        for path, sha256 in zip(self._paths[start:stop], self._listed[start:stop], strict=True):
            for text in self._texts(path, sha256):
                batch.append(text)
                size += len(text[1])
                if size > PARTITION_BYTES:
                    yield self._rows(batch)
                    batch, size = [], 0
        yield self._rows(batch)

    def size(self) -> int:
        return self._tree.size(self._paths)

    def newest(self) -> float:
        return self._tree.newest(self._paths)

    def check_skipped(self, skipped: list[Bad]) -> None:
        if skipped and not self._skips:
            remedy = "convert them, name them in source.exclude, or set source.undecodable to skip"
            raise Failed("source.undecodable", name_some(skipped, len(skipped)), "text must be UTF-8", remedy)

    def _texts(self, path: str, sha256: str) -> Iterator[Text]:
        """Yield the examples of a file."""
        if self._example == "file":
            yield path, self._tree.read(path, sha256)
            return
        whole_lines = self._example == "line"
        begin, lines = 0, list[bytes]()
        with self._tree.stream(path, sha256) as file:
            offset = 0
            for line in file:
                if lines and (whole_lines or not line.strip()):
                    yield _text(path, begin, lines)
                    lines = []
                if line.strip():
                    begin = begin if lines else offset
                    lines.append(line)
                offset += len(line)
        if lines:
            yield _text(path, begin, lines)

    def _rows(self, texts: list[Text]) -> Rows:
        good, skipped = list[Text](), list[Bad]()
        for key, content in texts:
            try:
                content.decode()
                good.append((key, content))
            except UnicodeDecodeError as error:
                reason = f"byte {error.start} (0x{content[error.start]:02x}) is not UTF-8"
                skipped.append(Bad(key, reason, key))
        keys = [key for key, _ in good]
        contents = [content for _, content in good]
        columns = {"text": pa.array(contents, pa.large_binary())}
        if self._class_folders:
            columns["label"] = pa.array([_class_of(key) for key in keys], pa.string())
        hashes = hashes_of(contents)
        return Rows(columns, pa.array(keys, pa.string()), keys.__getitem__, hashes=hashes, skipped=skipped)

    def _find(self) -> list[str]:
        paths = self._tree.find(self._glob, self._exclude)
        if self._class_folders and (without := [path for path in paths if "/" not in path]):
            rule, remedy = "a text is in the folder of its class", "move it into one, or name it in source.exclude"
            raise Refused("source.path", without[0], rule, remedy)
        return paths


def _class_of(path: str) -> str:
    return path.partition("/")[0]


def _text(path: str, begin: int, lines: list[bytes]) -> Text:
    return f"{path}:{begin:012d}", b"".join(lines).strip()
