"""A folder for each class: JPEG and PNG files, kept as they are."""

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
    """The images that the config takes. Raises `Refused` where there are none, or one lies in no class folder."""
    return ImageFolder(Path(config.path).expanduser(), config, memory)


def is_image(name: str) -> bool:
    """Whether a file is one by its name."""
    return name.lower().endswith(SUFFIXES)


class ImageFolder(Source):
    """Gives `image`, a file's bytes, and `label`: the folder it lies in, numbered in order of the folders' names.

    Folders without an image are no classes. What is in a file is looked at when it is read, not when it is listed.
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
        if loose := [path for path in paths if "/" not in path]:
            rule = "an image lies in the folder of its class"
            raise Refused("source.path", loose[0], rule, "move it into one, or name it in source.exclude")
        self._classes = tuple(sorted({_class_of(path) for path in paths}))
        return paths


def _class_of(path: str) -> str:
    return path.partition("/")[0]
