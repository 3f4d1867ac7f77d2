"""Files below a folder: which there are, and what their bytes sum up to, read once while they stay as they are."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TypeVar

from tasks.errors import Failed, Refused
from tasks.store.files import canonical, write

Read = TypeVar("Read")

Mark = list[int]
"""(size, mtime_ns, ctime_ns, inode): while these stay, the bytes are taken to stay."""

CHUNK = 1 << 20
THREADS = 8

PACE = 30.0
"""Seconds of hashing that a kill loses at most."""

SETTLED_NS = 100_000_000
"""A file changed less long ago may change again within the clock's grain: its hash is not kept."""


def find(root: Path, glob: str, exclude: Iterable[str], wanted: Callable[[str], bool] = lambda name: True) -> list[str]:
    """The files below `root` that the glob takes, as sorted relative paths.

    Names in `exclude` are left out at any depth, folders unread. A link to a file is a file under the link's name;
    a link to a folder is not followed. Raises `Refused` where the folder is missing or nothing matches.
    """
    if not root.is_dir():
        saw = "not a folder" if root.exists() else "no such folder"
        raise Refused("source.path", f"{root}: {saw}", "must be a folder that can be read", "correct the path")
    takes, out = pattern(glob), set(exclude)
    found: list[str] = []

    def unreadable(error: OSError) -> None:
        raise Refused("source.path", f"{error.filename}: {error.strerror}", "must be readable", "mend its permissions")

    for folder, folders, names in os.walk(root, onerror=unreadable):
        folders[:] = [name for name in folders if name not in out]
        below = Path(folder).relative_to(root)
        for name in names:
            path = (below / name).as_posix()
            if name not in out and takes(path) and wanted(name):
                found.append(path)
    regular = [path for path in found if _is_regular(root, path)]
    if not regular:
        raise Refused("source.path", f"no file of {root} matches", f"source.glob is {glob}", "correct one of them")
    return sorted(regular)


def pattern(glob: str) -> Callable[[str], bool]:
    """Whether a relative path matches: `**/` is any depth, `*` and `?` take no `/` and no leading dot."""
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


class Hashes:
    """SHA-256 of files below a folder, in threads; kept in `memory`, where one is given, under each file's mark."""

    def __init__(self, root: Path, memory: Path | None) -> None:
        self.root = root
        place = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:32]
        self._file = None if memory is None else memory / "sources" / f"{place}.json"

    def of(self, paths: list[str]) -> list[str]:
        """The hashes, in order. Raises `Failed` for a file that is gone, unreadable or changes while it is read."""
        known = self._recall()
        found: list[str] = []
        kept, saved, left = dict(known), time.monotonic(), Event()
        with ThreadPoolExecutor(THREADS) as pool, leaving(left):
            for path, (mark, sha256) in zip(
                paths, pool.map(lambda path: self._look(path, known.get(path), left), paths), strict=True
            ):
                found.append(sha256)
                kept.pop(path, None)
                if max(mark[1], mark[2]) < time.time_ns() - SETTLED_NS:
                    kept[path] = [*mark, sha256]
                if time.monotonic() - saved > PACE:
                    self._keep(kept)
                    saved = time.monotonic()
        if kept != known:
            self._keep(kept)
        return found

    def size(self, paths: list[str]) -> int:
        """Bytes of the files together."""
        return sum(_reading(path, (self.root / path).stat).st_size for path in paths)

    def newest(self, paths: list[str]) -> float:
        """When the last of the files was written."""
        return max(_reading(path, (self.root / path).stat).st_mtime for path in paths)

    def read(self, path: str, sha256: str) -> bytes:
        """The file's bytes. Raises `Failed` where they are not those that were listed."""
        content = _reading(path, (self.root / path).read_bytes)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise Failed(path, "other content than was listed", "a source must not change while it is read", "rerun")
        return content

    def _look(self, path: str, row: list | None, left: Event) -> tuple[Mark, str]:
        def look() -> tuple[Mark, str]:
            mark = _mark(self.root / path)
            if row is not None and row[:4] == mark:
                return mark, row[4]
            sha = hashlib.sha256()
            with open(self.root / path, "rb") as file:
                while chunk := file.read(CHUNK):
                    if left.is_set():
                        raise CancelledError
                    sha.update(chunk)
            if _mark(self.root / path) != mark:
                raise Failed(path, "it changed while it was read", "a source stands still", "run again")
            return mark, sha.hexdigest()

        return _reading(path, look)

    def _keep(self, known: dict[str, list]) -> None:
        if self._file is not None:
            with suppress(OSError):  # what cannot be remembered is hashed again
                write(self._file, canonical(known))

    def _recall(self) -> dict[str, list]:
        try:
            known: dict[str, list] = json.loads(self._file.read_bytes()) if self._file else {}
            return known
        except (OSError, ValueError):
            return {}


@contextmanager
def leaving(left: Event) -> Iterator[None]:
    """Set `left` where the block is left by an error or a signal: its threads may be in the midst of a huge file."""
    try:
        yield
    except BaseException:
        left.set()
        raise


def _reading(path: str, read: Callable[[], Read]) -> Read:
    try:
        return read()
    except OSError as error:
        saw = error.strerror or type(error).__name__
        raise Failed(
            path, saw, "every listed file must be readable", "mend it, or name it in source.exclude"
        ) from error


def _mark(path: Path) -> Mark:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _is_regular(root: Path, path: str) -> bool:
    """Pipes, sockets and devices are no files to read; a link that leads nowhere is refused by name."""
    if not path.isprintable():
        saw, rule = f"{path!a}: an unprintable name", "names of files are keys, so they are printable UTF-8"
        raise Refused("source.path", saw, rule, "rename it, or name it in source.exclude")
    try:
        return stat.S_ISREG((root / path).stat().st_mode)
    except OSError as error:
        rule = "every file that matches must be there"
        raise Refused(
            "source.path", f"{path}: {error.strerror}", rule, "mend it, or name it in source.exclude"
        ) from None
