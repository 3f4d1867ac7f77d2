"""Files of a source: found by patterns, hashed once, in a folder or within an archive."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from threading import Event
from typing import IO, Any

from tasks.errors import Failed, Refused
from tasks.sources import Partition
from tasks.sources.streams import reading
from tasks.store.files import StatKey, canonical, stat_of, write

CHUNK = 1 << 20
THREADS = 8

TOGETHER = 64
"""Files of a task at most."""
SAVE_EVERY = 30.0
"""Seconds between writes of the cache: a kill loses at most so much hashing."""

SETTLED_NS = 100_000_000
"""The hash of a file that changed more recently is not cached: it may change again with the same timestamp."""


def find(root: Path, glob: str, exclude: Iterable[str], accept: Callable[[str], bool] = lambda name: True) -> list[str]:
    """Return the files below `root` that match the glob, as sorted relative paths.

    Names in `exclude` are left out at any depth, with the content of folders. A link to a file counts as a file; a link
    to a folder is not followed.

    Raises:
        Refused: the folder is missing, or nothing matches.
    """
    if not root.is_dir():
        saw, rule = ("not a folder", "must be a folder") if root.exists() else ("no such file or folder", "must exist")
        raise Refused("source.path", f"{root}: {saw}", f"{rule}, and be readable", "correct the path")
    matches, excluded = pattern(glob), set(exclude)
    paths: list[str] = []
    folders = [""]
    while folders:
        folder = folders.pop()
        for entry in _entries(root, folder):
            path = f"{folder}{entry.name}"
            if entry.name in excluded:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(f"{path}/")
            elif matches(path) and accept(entry.name) and _is_regular(entry, path):
                paths.append(path)
    if not paths:
        raise Refused("source.path", f"no file of {root} matches", f"source.glob is {glob}", "correct one of them")
    return sorted(paths)


def _entries(root: Path, folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(root / folder) as entries:
            return list(entries)
    except OSError as error:
        saw = f"{error.filename}: {error.strerror}"
        raise Refused("source.path", saw, "must be readable", "fix its permissions") from None


def groups(paths: Sequence[str], sizes: Sequence[int], most_bytes: int, most_files: int) -> list[Partition]:
    """Return partitions of consecutive files, each of at most so many bytes and files, or one file.

    `where` is the range (start, stop) of the paths.
    """
    partitions: list[Partition] = []
    start = total = 0
    for stop, size in enumerate((*sizes, most_bytes)):
        full = total + size > most_bytes or stop - start == most_files or stop == len(paths)
        if stop > start and full:
            partitions.append(Partition(paths[start], total, (start, stop)))
            start, total = stop, 0
        total += size
    return partitions


def pattern(glob: str) -> Callable[[str], bool]:
    """Compile a glob to a function on paths: `**/` is any depth, `*` and `?` match no `/` and no leading dot."""
    parts: list[str] = []
    for part in re.findall(r"\*\*/|\*+|\?|\[[^\]/]+\]|.", glob, re.DOTALL):
        first = not parts or parts[-1].endswith(("/", ")*"))
        dot = r"(?!\.)" if first else ""
        if part == "**/":
            parts.append(r"(?:(?!\.)[^/]+/)*")
        elif part.startswith("*"):
            parts.append(f"{dot}[^/]*")
        elif part == "?":
            parts.append(f"{dot}[^/]")
        elif part.startswith("[") and len(part) > 1:
            parts.append(dot + part.replace("[!", "[^", 1).replace("\\", r"\\"))
        else:
            parts.append(re.escape(part))
    try:
        compiled = re.compile("".join(parts))
    except re.error as error:
        raise Refused("source.glob", glob, f"must be a pattern of file names: {error}", "correct it") from None
    return lambda path: compiled.fullmatch(path) is not None


class Cache:
    """A file in the folder `memory`, where one is given, with the content hashes of what is at a path."""

    def __init__(self, path: Path, memory: Path | None) -> None:
        name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
        self._file = None if memory is None else memory / "sources" / f"{name}.json"

    def load(self) -> dict[str, Any]:
        """Return what was saved; nothing where there is no such file, or a broken one."""
        try:
            cached: dict[str, Any] = json.loads(self._file.read_bytes()) if self._file else {}
            return cached
        except (OSError, ValueError):
            return {}

    def save(self, cached: Mapping[str, Any]) -> None:
        """Write the file."""
        if self._file is not None:
            with suppress(OSError):  # without the cache all is hashed again
                write(self._file, canonical(cached))


class Folder:
    """The files of a folder, with their SHA-256, computed in threads and cached in the folder `memory`."""

    def __init__(self, root: Path, memory: Path | None) -> None:
        self.root = root
        self._cache = Cache(root, memory)
        self._known: dict[str, list] | None = None
        """Stat key and hash of settled files, as of the last call of `of`."""

    def find(self, glob: str, exclude: Iterable[str], accept: Callable[[str], bool] = lambda name: True) -> list[str]:
        """Return the files below the folder that match (see `find`)."""
        return find(self.root, glob, exclude, accept)

    def of(self, paths: list[str]) -> list[str]:
        """Return the hashes, in order; raises `Failed` for a file that is missing, unreadable or changes meanwhile."""
        cached = self._cache.load()
        hashes: list[str] = []
        updated, saved, cancelled = dict(cached), time.monotonic(), Event()
        # of many files several are a task: to look one up in the cache takes less time than to hand it to a thread
        size = max(1, min(TOGETHER, len(paths) // (8 * THREADS)))
        parts = [paths[start : start + size] for start in range(0, len(paths), size)]

        def hashes_of(part: list[str]) -> list[tuple[StatKey, str]]:
            return [self._hash(path, cached.get(path), cancelled) for path in part]

        with ThreadPoolExecutor(THREADS) as pool, cancelling(cancelled):
            found = chain.from_iterable(pool.map(hashes_of, parts))
            for path, (stat_key, sha256) in zip(paths, found, strict=True):
                hashes.append(sha256)
                updated.pop(path, None)
                if max(stat_key[1], stat_key[2]) < time.time_ns() - SETTLED_NS:
                    updated[path] = [*stat_key, sha256]
                if time.monotonic() - saved > SAVE_EVERY:
                    self._cache.save(updated)
                    saved = time.monotonic()
        if updated != cached:
            self._cache.save(updated)
        self._known = updated
        return hashes

    def size(self, paths: list[str]) -> int:
        """Return the total bytes of the files."""
        return sum(self.sizes(paths))

    def sizes(self, paths: list[str]) -> list[int]:
        """Return the bytes of each file."""
        return [self._stat(path).st_size for path in paths]

    def newest(self, paths: list[str]) -> float:
        """Return the latest modification time of the files, in seconds since 1970."""
        return max(self._stat(path).st_mtime for path in paths)

    def _stat(self, path: str) -> os.stat_result:
        with reading(path):
            return (self.root / path).stat()

    def head(self, path: str, size: int) -> bytes:
        """Return the first `size` bytes of a file, unchecked."""
        with reading(path), open(self.root / path, "rb") as file:
            return file.read(size)

    def read(self, path: str, sha256: str) -> bytes:
        """Return a file's bytes; raises `Failed` where their hash is not `sha256`."""
        with reading(path):
            content = (self.root / path).read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise other_content(path)
        return content

    @contextmanager
    def stream(self, path: str, sha256: str) -> Iterator[IO[bytes]]:
        """Open a file to be read in order; raises `Failed` at the end where it is not the one with this hash."""
        with reading(path):
            file = open(self.root / path, "rb")  # noqa: SIM115 - closed below: errors of what reads it are its own
        with file:
            yield file
        if self._known is None:
            self._known = self._cache.load()
        if self._hash(path, self._known.get(path), Event())[1] != sha256:
            raise other_content(path)

    def _hash(self, path: str, row: list | None, cancelled: Event) -> tuple[StatKey, str]:
        place = f"{self.root}/{path}"
        with reading(path):
            stat_key = stat_of(place)
            if row is not None and row[:4] == stat_key:
                return stat_key, row[4]
            sha = hashlib.sha256()
            with open(place, "rb") as file:
                while chunk := file.read(CHUNK):
                    if cancelled.is_set():
                        raise CancelledError
                    sha.update(chunk)
            if stat_of(place) != stat_key:
                raise Failed(path, "it changed while it was read", "a source must not change during a run", "run again")
            return stat_key, sha.hexdigest()


@contextmanager
def cancelling(cancelled: Event) -> Iterator[None]:
    """Set the event where the block ends by an error or a signal, as its threads may be reading large files."""
    try:
        yield
    except BaseException:
        cancelled.set()
        raise


def other_content(path: str) -> Failed:
    """Return the error of a file with another hash than it had."""
    return Failed(path, "other content than was listed", "a source must not change while it is read", "rerun")


def _is_regular(entry: os.DirEntry[str], path: str) -> bool:
    """Return whether it is a regular file; raises `Refused` for a broken link and for an unprintable name."""
    if not path.isprintable():
        saw, rule = f"{path!a}: an unprintable name", "names of files are keys, so they are printable UTF-8"
        raise Refused("source.path", saw, rule, "rename it, or name it in source.exclude")
    try:
        return stat.S_ISREG(entry.stat().st_mode) if entry.is_symlink() else entry.is_file()
    except OSError as error:
        rule = "every file that matches must be there"
        raise Refused(
            "source.path", f"{path}: {error.strerror}", rule, "fix it, or name it in source.exclude"
        ) from None
