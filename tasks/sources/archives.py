"""Zip and tar files whose members are read in place, by offset, without trust in their names and sizes."""

from __future__ import annotations

import hashlib
import io
import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import IO

from tasks.errors import Failed, Refused
from tasks.sources.archive_listing import LOCAL, Member, is_zip, list_files, refused
from tasks.sources.files import CHUNK, SETTLED_NS, THREADS, cancelling, pattern
from tasks.sources.streams import reading
from tasks.store.files import canonical, stat_of, write


class Archive:
    """The files of an archive, or of a folder in it, as a tree (`tasks.sources.trees`).

    A path is that below the folder, so that an archive and what is extracted from it have the same keys and hashes.
    """

    def __init__(self, path: Path, folder: str, memory: Path | None) -> None:
        """List an archive; raises `Refused` where it is damaged, a bomb, or a name leads out of it."""
        self._path, self._folder = path, f"{folder.strip('/')}/" if folder.strip("/") else ""
        name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
        self._file = None if memory is None else memory / "sources" / f"{name}.json"
        try:
            self._stat = stat_of(path)
            listed = list_files(path)
        except OSError as error:
            raise refused(path, str(error.strerror), "must be readable", "fix its permissions") from None
        inside = {name: member for name, member in listed.items() if name.startswith(self._folder)}
        self._members = {name.removeprefix(self._folder): member for name, member in inside.items()}

    def find(self, glob: str, exclude: Iterable[str], accept: Callable[[str], bool] = lambda name: True) -> list[str]:
        """Return the sorted paths that match; raises `Refused` where one of them cannot be read."""
        matches, excluded = pattern(glob), set(exclude)
        paths = [
            path
            for path in sorted(self._members)
            if matches(path) and accept(path.rpartition("/")[2]) and not excluded & set(path.split("/"))
        ]
        if not paths:
            saw = f"no file of {self._path / self._folder} matches"
            raise Refused("source.path", saw, f"source.glob is {glob}", "correct one of them")
        if bad := next((path for path in paths if self._members[path].reason), None):
            remedy = "make the archive again without it, or name it in source.exclude"
            saw = f"{self._folder}{bad}: {self._members[bad].reason}"
            raise refused(self._path, saw, "every file that matches must be readable", remedy)
        return paths

    def of(self, paths: list[str]) -> list[str]:
        """Return the SHA-256 of each file, cached while the archive does not change."""
        cached = self._load()
        cancelled = Event()

        def hashed(path: str) -> str:
            sha = hashlib.sha256()
            for chunk in self._chunks(path):
                if cancelled.is_set():
                    raise CancelledError
                sha.update(chunk)
            return sha.hexdigest()

        unknown = [path for path in paths if path not in cached]
        with ThreadPoolExecutor(THREADS) as pool, cancelling(cancelled):
            cached |= zip(unknown, pool.map(hashed, unknown), strict=True)
        self._check_unchanged()
        settled = max(self._stat[1], self._stat[2]) < time.time_ns() - SETTLED_NS
        if unknown and settled and self._file is not None:
            with suppress(OSError):  # without the cache it is hashed again
                write(self._file, canonical({"stat": self._stat, "folder": self._folder, "sha256": cached}))
        return [cached[path] for path in paths]

    def size(self, paths: list[str]) -> int:
        """Return the total bytes of the files' content."""
        return sum(self.sizes(paths))

    def sizes(self, paths: list[str]) -> list[int]:
        """Return the bytes of each file's content."""
        return [self._members[path].size for path in paths]

    def newest(self, paths: list[str]) -> float:
        """Return the modification time of the archive, in seconds since 1970."""
        return self._path.stat().st_mtime

    def head(self, path: str, size: int) -> bytes:
        """Return the first `size` bytes of a file, unchecked."""
        with io.BufferedReader(_Chunks(self._chunks(path), lambda chunk: None)) as file:
            return file.read(size)

    def read(self, path: str, sha256: str) -> bytes:
        """Return a file's content; raises `Failed` where its hash is another."""
        content = b"".join(self._chunks(path))
        self._check(path, hashlib.sha256(content).hexdigest(), sha256)
        return content

    @contextmanager
    def stream(self, path: str, sha256: str) -> Iterator[IO[bytes]]:
        """Open a file to be read in order; raises `Failed` at the end where its hash is another."""
        sha = hashlib.sha256()
        with io.BufferedReader(_Chunks(self._chunks(path), sha.update)) as file:
            yield file
            while file.read(CHUNK):
                pass
        self._check(path, sha.hexdigest(), sha256)

    def _chunks(self, path: str) -> Iterator[bytes]:
        """Yield the content of a file; raises `Failed` where it is damaged, or more than the archive says."""
        member = self._members[path]
        size = crc = 0
        packed = self._packed(path, member)
        try:
            for chunk in _inflated(packed) if member.deflated else packed:
                size, crc = size + len(chunk), zlib.crc32(chunk, crc)
                if size > member.size:
                    raise self._damaged(path, f"more than {member.size:,} bytes, as the archive says")
                yield chunk
        except zlib.error as error:
            raise self._damaged(path, str(error)) from None
        if size != member.size:
            raise self._damaged(path, f"{size:,} bytes, and the archive says {member.size:,}")
        if member.crc not in (None, crc):
            raise self._damaged(path, f"CRC-32 {crc:08x}, and the archive says {member.crc:08x}")

    def _packed(self, path: str, member: Member) -> Iterator[bytes]:
        """Yield the bytes of a file as they are in the archive."""
        left = member.packed
        with reading(str(self._path)), open(self._path, "rb") as file:
            file.seek(self._begin(file, path, member) if is_zip(self._path) else member.begin)
            while left and (chunk := file.read(min(CHUNK, left))):
                left -= len(chunk)
                yield chunk

    def _begin(self, file: IO[bytes], path: str, member: Member) -> int:
        """Return where a zip member's content begins."""
        file.seek(member.begin)
        head = file.read(LOCAL.size)
        if len(head) < LOCAL.size or head[:4] != b"PK\3\4":
            raise self._damaged(path, "no header")
        _, name, extra = LOCAL.unpack(head)
        return member.begin + LOCAL.size + int(name) + int(extra)

    def _check(self, path: str, found: str, listed: str) -> None:
        if found != listed:
            rule = "a source must not change while it is read"
            raise Failed(f"{self._path}/{path}", "other content than was listed", rule, "rerun")

    def _check_unchanged(self) -> None:
        with reading(str(self._path)):
            if stat_of(self._path) == self._stat:
                return
        raise Failed(str(self._path), "it changed while it was read", "a source must not change during a run", "rerun")

    def _load(self) -> dict[str, str]:
        try:
            cached = json.loads(self._file.read_bytes()) if self._file else {}
        except (OSError, ValueError):
            return {}
        known = cached.get("stat") == self._stat and cached.get("folder") == self._folder
        return dict(cached["sha256"]) if known else {}

    def _damaged(self, path: str, saw: str) -> Failed:
        self._check_unchanged()
        return Failed(f"{self._path}/{path}", saw, "an archive must be whole", "bring it again, or exclude this file")


def _inflated(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Yield deflated bytes as they were, `CHUNK` of them at a time at most."""
    decompress = zlib.decompressobj(-zlib.MAX_WBITS)
    for chunk in packed:
        while chunk:
            yield decompress.decompress(chunk, CHUNK)
            chunk = decompress.unconsumed_tail
    while rest := decompress.decompress(b"", CHUNK):
        yield rest


class _Chunks(io.RawIOBase):
    """Chunks as a file, each given to `see` when it is read."""

    def __init__(self, chunks: Iterator[bytes], see: Callable[[bytes], None]) -> None:
        self._chunks, self._see, self._rest = chunks, see, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = next(filter(None, self._chunks), b"")
            self._see(self._rest)
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
