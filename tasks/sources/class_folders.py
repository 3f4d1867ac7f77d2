"""Files, each an example, in a folder for each class, perhaps in a folder for each split; also in an archive."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from PIL import Image

from tasks.errors import Refused
from tasks.reader.decoding import BROKEN, DEEP, flat
from tasks.sources import Piece, Rows, Source
from tasks.sources.features import DTYPES, Feature, in_order
from tasks.sources.files import groups
from tasks.sources.rows import hashes_of
from tasks.sources.trees import open_tree

PIECE_BYTES, PIECE_FILES = 4 << 20, 512
"""Limits of a piece: most of the time is decoding, which the processes share."""


class ClassFolders(Source):
    """Has the bytes of a file as a feature, and `label`, the folder's name; the key is the path below the source's.

    What a kind of files adds: `name`, `noun`, `feature` and `accepts`.
    """

    name: ClassVar[str]
    """The feature with the files."""
    noun: ClassVar[str]
    """What a file is, with its article."""
    feature: ClassVar[Feature]

    def __init__(
        self, path: str, glob: str, exclude: Sequence[str], split_folders: bool, memory: Path | None = None
    ) -> None:
        """Find the files; raises `Refused` where there are none, or one is in no class folder."""
        self._glob, self._exclude, self._split_folders = glob, exclude, split_folders
        self._tree = open_tree(Path(path).expanduser(), memory)
        self._paths = self._find()
        self._listed: list[str] = []

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

    def fingerprint(self) -> list[tuple[str, str]]:
        if self._listed:  # a later call looks again
            self._paths = self._find()
        self._listed = self._tree.of(self._paths)
        return list(zip(self._paths, self._listed, strict=True))

    def pieces(self) -> list[Piece]:
        return groups(self._paths, self._tree.sizes(self._paths), PIECE_BYTES, PIECE_FILES)

    def read(self, piece: Piece) -> Iterator[Rows]:
        start, stop = piece.where
        paths = self._paths[start:stop]
        listed = zip(paths, self._listed[start:stop], strict=True)
        read = [self._tree.read(path, sha256) for path, sha256 in listed]
        files = [self.content(path, octets) for path, octets in zip(paths, read, strict=True)]
        labels = pa.array([self._parts(path)[1] for path in paths])
        columns = {self.name: pa.array(files, pa.large_binary()), "label": labels}
        splits = pa.array([self._parts(path)[0] for path in paths]) if self._split_folders else None
        yield Rows(columns, pa.array(paths, pa.string()), paths.__getitem__, splits, hashes_of(read))

    def size(self) -> int:
        return self._tree.size(self._paths)

    def newest(self) -> float:
        return self._tree.newest(self._paths)

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
