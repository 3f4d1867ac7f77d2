"""Folders of files, also in an archive: each is an example, as are the lines or paragraphs of texts."""

from __future__ import annotations

import io
import sysconfig
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow as pa

from tasks.errors import Failed, Refused
from tasks.sources import PARTITION_BYTES, Bad, Partition, Rows, Source, name_some, not_utf8
from tasks.sources.archives import open_tree
from tasks.sources.features import DTYPES, Feature, in_order
from tasks.sources.files import groups
from tasks.sources.hashes import hashes_of


class Files(Source):
    """Files of a folder or an archive that match a pattern. What a kind adds: `features`, `read`, and what is found."""

    partition_bytes: ClassVar[int]
    partition_files: ClassVar[int]
    """Limits of a partition."""

    def __init__(self, root: Path, glob: str, exclude: Sequence[str], memory: Path | None) -> None:
        """Find the files; raises `Refused` where none matches, or one is in no class folder."""
        self._tree = open_tree(root, memory)
        self._glob, self._exclude = glob, exclude
        self._paths = self._find()
        self._listed: list[str] = []

    @abstractmethod
    def _find(self) -> list[str]:
        """Return the files that match; raises `Refused` where one is in no class folder."""

    def fingerprint(self) -> list[tuple[str, str]]:
        if self._listed:  # a later call looks again
            self._paths = self._find()
        self._listed = self._tree.of(self._paths)
        return list(zip(self._paths, self._listed, strict=True))

    def partitions(self) -> list[Partition]:
        return groups(self._paths, self._tree.sizes(self._paths), self.partition_bytes, self.partition_files)

    def listed(self, partition: Partition) -> Iterator[tuple[str, str]]:
        """Return path and SHA-256 of each file of a partition."""
        start, stop = partition.where
        return zip(self._paths[start:stop], self._listed[start:stop], strict=True)

    def size(self) -> int:
        return self._tree.size(self._paths)

    def newest(self) -> float:
        return self._tree.newest(self._paths)


class ClassFolders(Files):
    """Has the bytes of a file as a feature, and `label`, the folder's name; the key is the path below the source's.

    What a kind of files adds: `name`, `noun`, `feature` and `accepts`.
    """

    name: ClassVar[str]
    """The feature with the files."""
    noun: ClassVar[str]
    """What a file is, with its article."""
    feature: ClassVar[Feature]
    partition_bytes, partition_files = 4 << 20, 512  # most of the time is decoding, which the processes share

    def __init__(self, path: str, glob: str, exclude: Sequence[str], split_folders: bool, memory: Path | None) -> None:
        self._split_folders = split_folders
        super().__init__(Path(path).expanduser(), glob, exclude, memory)

    @staticmethod
    @abstractmethod
    def accepts(name: str) -> bool:
        """Return whether a file's name is that of an example."""

    def content(self, path: str, octets: bytes) -> bytes:
        """Return what is kept of a file."""
        return octets

    @property
    def features(self) -> Mapping[str, Feature]:
        classes = tuple(in_order({self._parts(path)[1] for path in self._paths}))
        return {self.name: self.feature, "label": Feature("label", "int64", role="label", classes=classes)}

    @property
    def official(self) -> tuple[str, ...]:
        """The names of the split folders."""
        return tuple(sorted({self._parts(path)[0] for path in self._paths})) if self._split_folders else ()

    def read(self, partition: Partition) -> Iterator[Rows]:
        paths = [path for path, _ in self.listed(partition)]
        read = [self._tree.read(path, sha256) for path, sha256 in self.listed(partition)]
        files = [self.content(path, octets) for path, octets in zip(paths, read, strict=True)]
        labels = pa.array([self._parts(path)[1] for path in paths])
        columns = {self.name: pa.array(files, pa.large_binary()), "label": labels}
        splits = pa.array([self._parts(path)[0] for path in paths]) if self._split_folders else None
        yield Rows(columns, pa.array(paths, pa.string()), paths.__getitem__, splits, hashes_of(read))

    def _parts(self, path: str) -> tuple[str, str]:
        """Return split and class of a file; without split folders the first is empty."""
        first, second, *_ = [*path.split("/"), ""]
        return (first, second) if self._split_folders else ("", first)

    def _find(self) -> list[str]:
        paths = self._tree.find(self._glob, self._exclude, self.accepts)
        depth = 2 if self._split_folders else 1
        if without_class := [path for path in paths if path.count("/") < depth]:
            where = "of its class, in that of its split" if self._split_folders else "of its class"
            rule, remedy = f"{self.noun} is in the folder {where}", "move it into one, or name it in source.exclude"
            raise Refused("source.path", without_class[0], rule, remedy)
        return paths


KEPT = (".jpg", ".jpeg", ".jfif", ".png")
IMAGE_SUFFIXES = (*KEPT, ".gif", ".webp", ".bmp", ".tif", ".tiff")
WHOLE = (1 << 20, 1 << 20)
"""A size from which no image is made smaller when it is decoded."""


def is_image(name: str) -> bool:
    """Return whether a file name is that of an image."""
    return name.lower().endswith(IMAGE_SUFFIXES)


class ImageFolder(ClassFolders):
    """Has the features `image`, the bytes of a JPEG or PNG file (other kinds as PNG, but for TIFF of more than 8 bits),
    and `label`."""

    name, noun = "image", "an image"
    feature = Feature("image", "uint8", (-1, -1, -1))
    accepts = staticmethod(is_image)

    def content(self, path: str, octets: bytes) -> bytes:
        """Return the bytes of a JPEG or PNG file, or of a TIFF of more than 8 bits; of a GIF the first frame."""
        if path.lower().endswith(KEPT):
            return octets
        from PIL import Image

        from tasks.reader.image import BROKEN, DEEP, flat

        try:
            with Image.open(io.BytesIO(octets)) as image:
                if image.mode in DEEP:
                    return octets
            png = io.BytesIO()
            flat(octets, WHOLE).save(png, "PNG", compress_level=0)  # whose bytes do not depend on the build of zlib
            return png.getvalue()
        except BROKEN:
            return octets  # which is found not to be an image


SOUND_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")


def is_sound(name: str) -> bool:
    """Return whether a file name is that of a sound."""
    return name.lower().endswith(SOUND_SUFFIXES)


class AudioFolder(ClassFolders):
    """Has the features `audio`, the bytes of a file as it is, and `label`."""

    name, noun = "audio", "a sound"
    feature = Feature("audio", DTYPES["audio"])
    accepts = staticmethod(is_sound)


STDLIB = "stdlib:"

Text = tuple[str, bytes]
"""Key and content."""


class TextFiles(Files):
    """Has the feature `text`, UTF-8, and with `source.class_folders` `label`, the name of the first folder.

    A file's key is its relative path, a line's or paragraph's that and the offset of its first byte. Files keep their
    line ends, byte order marks and empty content; lines and paragraphs are without surrounding blanks, and blank ones
    are no examples. What is not UTF-8 is skipped, or ends the run, by `source.undecodable`.
    """

    partition_bytes, partition_files = PARTITION_BYTES, 4096

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
        self._example, self._class_folders, self._skips = example, class_folders, skips
        super().__init__(_root(path), glob, exclude, memory)

    @property
    def features(self) -> Mapping[str, Feature]:
        text = {"text": Feature("text", "string")}
        if not self._class_folders:
            return text
        classes = tuple(in_order({_class_of(path) for path in self._paths}))
        return {**text, "label": Feature("label", "int64", role="label", classes=classes)}

    def read(self, partition: Partition) -> Iterator[Rows]:
        batch: list[Text] = []
        size = 0
        for path, sha256 in self.listed(partition):
            for text in self._texts(path, sha256):
                batch.append(text)
                size += len(text[1])
                if size > PARTITION_BYTES:
                    yield self._rows(batch)
                    batch, size = [], 0
        yield self._rows(batch)

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
                reason = not_utf8(error)
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


def _root(path: str) -> Path:
    """Return the folder of `source.path`; `stdlib:` is the standard library of this Python."""
    if path == STDLIB:
        return Path(sysconfig.get_path("stdlib"))
    if path.startswith(STDLIB):
        raise Refused("source.path", path, f"after {STDLIB} comes nothing", f"use {STDLIB} and choose by source.glob")
    return Path(path).expanduser()


def _class_of(path: str) -> str:
    return path.partition("/")[0]


def _text(path: str, begin: int, lines: list[bytes]) -> Text:
    return f"{path}:{begin:012d}", b"".join(lines).strip()
