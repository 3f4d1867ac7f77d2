"""A folder of images for each class: JPEG and PNG files, not re-encoded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.config import ImageFolderSource
from tasks.data.features import Example, Feature
from tasks.data.sources import Item, Source
from tasks.data.sources.files import Hashes, find
from tasks.errors import Refused

SUFFIXES = (".jpg", ".jpeg", ".png")


def open(config: ImageFolderSource, memory: Path | None = None) -> Source:
    """Open the folder; raises `Refused` where there are no images, or one is in no class folder."""
    return ImageFolder(Path(config.path).expanduser(), config, memory)


def is_image(name: str) -> bool:
    """Return whether a file name is that of an image."""
    return name.lower().endswith(SUFFIXES)


class ImageFolder(Source):
    """Has the features `image`, a file's bytes, and `label`, the number of its folder in order of name.

    Folders without an image are not classes. A file's content is checked when it is read, not when it is listed.
    """

    def __init__(self, root: Path, config: ImageFolderSource, memory: Path | None = None) -> None:
        self._config = config
        self._hashes = Hashes(root, memory)
        self._classes: tuple[str, ...] = ()
        self._find()

    @property
    def features(self) -> Mapping[str, Feature]:
        return {
            "image": Feature("image", "uint8", (-1, -1, -1)),
            "label": Feature("label", "int64", classes=self._classes),
        }

    def listing(self) -> list[Item]:
        paths = self._find()
        return [Item(path, sha256) for path, sha256 in zip(paths, self._hashes.of(paths), strict=True)]

    def size(self) -> int:
        return self._hashes.size(self._find())

    def newest(self) -> float:
        return self._hashes.newest(self._find())

    def read(self, item: Item) -> Example:
        image = self._hashes.read(item.key, item.sha256)
        return {"image": image, "label": self._classes.index(_class_of(item.key))}

    def _find(self) -> list[str]:
        paths = find(self._hashes.root, self._config.glob, self._config.exclude, is_image)
        if without_class := [path for path in paths if "/" not in path]:
            rule = "an image is in the folder of its class"
            raise Refused("source.path", without_class[0], rule, "move it into one, or name it in source.exclude")
        self._classes = tuple(sorted({_class_of(path) for path in paths}))
        return paths


def _class_of(path: str) -> str:
    return path.partition("/")[0]
