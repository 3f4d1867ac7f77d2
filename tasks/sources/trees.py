"""Trees of files that are read in place: a folder, or an archive that is not extracted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol

from tasks.sources.archives import Archive, archive_above
from tasks.sources.files import Hashes


class Tree(Protocol):
    """Files by their paths below a root, `/` between the parts; picklable, or inherited by forked processes."""

    def find(self, glob: str, exclude: Iterable[str], accept: Callable[[str], bool] = ...) -> list[str]:
        """Return the sorted paths that match, without names in `exclude` at any depth.

        Args:
            accept: whether a file is wanted, by the last part of its path.

        Raises:
            Refused: nothing matches, or what matches cannot be read.
        """
        ...

    def of(self, paths: list[str]) -> list[str]:
        """Return the SHA-256 of each file's content; raises `Failed` where one cannot be read."""
        ...

    def size(self, paths: list[str]) -> int:
        """Return the total bytes of the files."""
        ...

    def sizes(self, paths: list[str]) -> list[int]:
        """Return the bytes of each file."""
        ...

    def newest(self, paths: list[str]) -> float:
        """Return the latest modification time, in seconds since 1970."""
        ...

    def head(self, path: str, size: int) -> bytes:
        """Return the first `size` bytes of a file, or all that there are, unchecked."""
        ...

    def read(self, path: str, sha256: str) -> bytes:
        """Return a file's content; raises `Failed` where its hash is another."""
        ...

    def stream(self, path: str, sha256: str) -> AbstractContextManager[IO[bytes]]:
        """Open a file to be read in order; raises `Failed` at the end where its hash is another."""
        ...


def open_tree(path: Path, memory: Path | None) -> Tree:
    """Open a folder, an archive (.zip, .tar), or a folder within an archive (`photos.zip/train`).

    Raises:
        Refused: an archive cannot be read in place, or a name in it leads out of it.
    """
    archive = archive_above(path)
    if archive is None:
        return Hashes(path, memory)
    return Archive(archive, path.relative_to(archive).as_posix().removeprefix("."), memory)
