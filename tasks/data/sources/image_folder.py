"""A folder of images for each class, perhaps in a folder for each split: JPEG and PNG files are not re-encoded."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from tasks.config import ImageFolderSource
from tasks.data.features import Feature
from tasks.data.reader.decoding import BROKEN, flat
from tasks.data.sources import Piece, Rows, Source
from tasks.data.sources.files import Hashes, find, groups
from tasks.errors import Refused

KEPT = (".jpg", ".jpeg", ".png")
SUFFIXES = (*KEPT, ".gif", ".webp", ".bmp")
WHOLE = (1 << 20, 1 << 20)
"""A size from which no image is made smaller when it is decoded."""
PIECE_BYTES, PIECE_FILES = 4 << 20, 512
"""Limits of a piece: most of the time is decoding, which the processes share."""


def open(config: ImageFolderSource, memory: Path | None = None) -> Source:
    """Open the folder; raises `Refused` where there are no images, or one is in no class folder."""
    return ImageFolder(Path(config.path).expanduser(), config, memory)


def is_image(name: str) -> bool:
    """Return whether a file name is that of an image."""
    return name.lower().endswith(SUFFIXES)


class ImageFolder(Source):
    """Has the features `image`, the bytes of a JPEG or PNG file (other kinds as PNG), and `label`, the folder's name.

    The key is the path below the source's folder.
    """

    def __init__(self, root: Path, config: ImageFolderSource, memory: Path | None = None) -> None:
        self._config = config
        self._hashes = Hashes(root, memory)
        self._paths = self._find()
        self._listed: list[str] = []

    @property
    def features(self) -> Mapping[str, Feature]:
        classes = tuple(sorted({self._parts(path)[1] for path in self._paths}))
        return {
            "image": Feature("image", "uint8", (-1, -1, -1)),
            "label": Feature("label", "int64", role="label", classes=classes),
        }

    @property
    def official(self) -> tuple[str, ...]:
        """The names of the split folders."""
        return tuple(sorted({self._parts(path)[0] for path in self._paths})) if self._config.split_folders else ()

    def fingerprint(self) -> list[tuple[str, str]]:
        self._paths = self._find()
        self._listed = self._hashes.of(self._paths)
        return list(zip(self._paths, self._listed, strict=True))

    def pieces(self) -> list[Piece]:
        return groups(self._paths, self._hashes.sizes(self._paths), PIECE_BYTES, PIECE_FILES)

    def read(self, piece: Piece) -> Iterator[Rows]:
        start, stop = piece.where
        paths = self._paths[start:stop]
        images = [self._image(*row) for row in zip(paths, self._listed[start:stop], strict=True)]
        labels = pa.array([self._parts(path)[1] for path in paths])
        columns = {"image": pa.array(images, pa.large_binary()), "label": labels}
        splits = pa.array([self._parts(path)[0] for path in paths]) if self._config.split_folders else None
        yield Rows(columns, pa.array(paths, pa.string()), paths.__getitem__, splits)

    def size(self) -> int:
        return self._hashes.size(self._paths)

    def newest(self) -> float:
        return self._hashes.newest(self._paths)

    def _image(self, path: str, sha256: str) -> bytes:
        """Return the bytes of an image; of a GIF the first frame."""
        content = self._hashes.read(path, sha256)
        if path.lower().endswith(KEPT):
            return content
        try:
            png = io.BytesIO()
            flat(content, WHOLE).save(png, "PNG", compress_level=0)  # whose bytes do not depend on the build of zlib
            return png.getvalue()
        except BROKEN:
            return content  # which is found not to be an image

    def _parts(self, path: str) -> tuple[str, str]:
        """Return split and class of a file; without split folders the first is empty."""
        first, second, *_ = [*path.split("/"), ""]
        return (first, second) if self._config.split_folders else ("", first)

    def _find(self) -> list[str]:
        paths = find(self._hashes.root, self._config.glob, self._config.exclude, is_image)
        depth = 2 if self._config.split_folders else 1
        if without_class := [path for path in paths if path.count("/") < depth]:
            where = "of its class, in that of its split" if self._config.split_folders else "of its class"
            rule, remedy = f"an image is in the folder {where}", "move it into one, or name it in source.exclude"
            raise Refused("source.path", without_class[0], rule, remedy)
        return paths
