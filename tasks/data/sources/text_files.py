"""Text files of a folder: each is an example, with unchanged bytes."""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping
from pathlib import Path

from tasks.config import TextFilesSource
from tasks.data.features import Example, Feature
from tasks.data.sources import Item, Skipped, Source, name_some
from tasks.data.sources.files import Hashes, find
from tasks.errors import Failed, Refused

STDLIB = "stdlib:"


def open(config: TextFilesSource, memory: Path | None = None) -> Source:
    """Open the folder; raises `Refused` where no file matches."""
    return TextFiles(root(config.path), config, memory)


def root(path: str) -> Path:
    """Return the folder of `source.path`; `stdlib:` is the standard library of this Python."""
    if path == STDLIB:
        return Path(sysconfig.get_path("stdlib"))
    if path.startswith(STDLIB):
        raise Refused("source.path", path, f"after {STDLIB} comes nothing", f"use {STDLIB} and choose by source.glob")
    return Path(path).expanduser()


class TextFiles(Source):
    """Has the feature `text`, the bytes of a UTF-8 file; the key is its relative path.

    Line ends, byte order marks and empty files are kept. Files that are not UTF-8 are skipped, or end the run, by
    `source.undecodable`.
    """

    def __init__(self, root: Path, config: TextFilesSource, memory: Path | None = None) -> None:
        self._config = config
        self._hashes = Hashes(root, memory)
        self._find()

    @property
    def features(self) -> Mapping[str, Feature]:
        return {"text": Feature("bytes", "string")}

    def listing(self) -> list[Item]:
        paths = self._find()
        return [Item(path, sha256) for path, sha256 in zip(paths, self._hashes.of(paths), strict=True)]

    def size(self) -> int:
        return self._hashes.size(self._find())

    def newest(self) -> float:
        return self._hashes.newest(self._find())

    def read(self, item: Item) -> Example:
        content = self._hashes.read(item.key, item.sha256)
        try:
            content.decode()
        except UnicodeDecodeError as error:
            raise Skipped(f"byte {error.start} (0x{content[error.start]:02x}) is not UTF-8") from error
        return {"text": content}

    def check_skipped(self, skipped: list[list[str]]) -> None:
        if skipped and self._config.undecodable == "error":
            remedy = "convert them, name them in source.exclude, or set source.undecodable to skip"
            raise Failed("source.undecodable", name_some(skipped), "text must be UTF-8", remedy)

    def _find(self) -> list[str]:
        return find(self._hashes.root, self._config.glob, self._config.exclude)
