"""Archives that are read in place, as folders are: their members, and the limits of what is unpacked."""

from __future__ import annotations

import hashlib
import io
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import IO

from tasks.errors import Failed, Refused
from tasks.sources.files import CHUNK, SETTLED_NS, THREADS, Cache, Folder, cancelling, other_content, pattern
from tasks.sources.streams import BOMB_BYTES, BOMB_RATIO, LARGEST, members, reading
from tasks.store.files import stat_of

ZIP, TAR = ".zip", ".tar"
PACKED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".7z", ".rar")
"""Endings of archives of which no file can be read without all those before it, or not at all."""

ENCRYPTED = 1
"""The bit of a zip member's flags."""
LOCAL = struct.Struct("<4s22xHH")
"""The header before a zip member's content: its mark, and the lengths of its name and of the extra field."""
REMEDY = "do not trust this archive; make it again from the files"


@dataclass(frozen=True)
class ArchiveEntry:
    """A file in an archive."""

    begin: int
    """Offset of its header in a zip file, of its content in a tar file."""
    packed: int
    """Bytes in the archive."""
    size: int
    """Bytes of its content."""
    deflated: bool = False
    crc: int | None = None
    """CRC-32 of its content; a tar file has none."""
    reason: str | None = None
    """Why it cannot be read."""


def archive_above(path: Path) -> Path | None:
    """Return the archive that a path is, or leads into; None where there is none.

    Raises:
        Refused: it is one that cannot be read in place.
    """
    for place in (path, *path.parents):
        if place.is_file():
            if place.name.lower().endswith(PACKED):
                rule = "an archive that is read in place is a .zip or a plain .tar file"
                remedy = f"decompress a tar file once, as in `gunzip {place.name}`, or extract it"
                raise Refused("source.path", f"{place}: compressed as a whole", rule, remedy)
            return place if place.name.lower().endswith((ZIP, TAR)) else None
    return None


def list_files(path: Path) -> dict[str, ArchiveEntry]:
    """Return the files of an archive by name.

    Raises:
        Refused: it is no archive, a name is twice in it or leads out of it, or it is a decompression bomb.
        Failed: a tar file is damaged.
    """
    listed: dict[str, ArchiveEntry] = {}
    for name, member in (_in_zip if is_zip(path) else _in_tar)(path):
        normal = name.removeprefix("./")
        if why := _misnamed(normal):
            raise refused(path, f"{name!a}: {why}", "a name in an archive is a path below it", REMEDY)
        if normal in listed:
            raise refused(path, f"{name!a}: twice", "a name in an archive is there once", "make the archive again")
        listed[normal] = member
    packed, size = sum(member.packed for member in listed.values()), sum(member.size for member in listed.values())
    _check_bomb(path, "", min(packed, path.stat().st_size), size)
    return listed


def is_zip(path: Path) -> bool:
    """Return whether an archive is a zip file, by its name."""
    return path.name.lower().endswith(ZIP)


def refused(path: Path, saw: str, rule: str, remedy: str) -> Refused:
    """Return the error for an archive."""
    return Refused("source.path", f"{path}: {saw}", rule, remedy)


def _misnamed(name: str) -> str | None:
    """Return why a name is not that of a file below the archive."""
    if not name.isprintable():
        return "an unprintable name"
    if "\\" in name or ":" in name.partition("/")[0]:
        return "not a path with / between its parts"
    return "not a path below it" if {"", ".", ".."} & set(name.split("/")) else None


def _in_zip(path: Path) -> Iterator[tuple[str, ArchiveEntry]]:
    try:
        with zipfile.ZipFile(path) as archive:
            infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
            end = archive.start_dir
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise refused(path, str(error), "must be a zip file", "bring it again") from None
    spans = [(info.header_offset, info.header_offset + LOCAL.size + info.compress_size) for info in infos]
    if any(stop > begin for (_, stop), (begin, _) in pairwise([*spans, (end, end)])):
        raise refused(path, "files that overlap", "each file of an archive has its own bytes", REMEDY)
    for info in infos:
        if not info.is_dir():
            _check_bomb(path, info.filename, info.compress_size, info.file_size)
            deflated = info.compress_type == zipfile.ZIP_DEFLATED
            member = ArchiveEntry(
                info.header_offset, info.compress_size, info.file_size, deflated, info.CRC, _unread(info)
            )
            yield info.orig_filename, member


def _unread(info: zipfile.ZipInfo) -> str | None:
    """Return why a zip member is not read."""
    if info.flag_bits & ENCRYPTED:
        return "encrypted"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "a symbolic link"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"compressed by method {info.compress_type}, and only stored and deflated files are read"
    if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
        return "stored, and of two sizes"
    return f"a file of {info.file_size >> 20:,} MiB" if info.file_size > LARGEST else None


def _in_tar(path: Path) -> Iterator[tuple[str, ArchiveEntry]]:
    with open(path, "rb") as file:
        for member in members(file, path.name, lambda name: False):
            yield member.name, ArchiveEntry(member.start, member.size, member.size, reason=member.reason)


def _check_bomb(path: Path, name: str, packed: int, size: int) -> None:
    if size > max(BOMB_BYTES, BOMB_RATIO * packed):
        saw = f"{name or 'all files'}: {size >> 20:,} MiB in {packed:,} bytes"
        rule = f"an archive holds at most {BOMB_RATIO:,} times its size, or {BOMB_BYTES >> 20} MiB"
        raise refused(path, saw, rule, "if it is as it should be, extract it")


class Archive:
    """The files of an archive, or of a folder in it, with the methods of a `Folder`.

    A path is that below the folder, so that an archive and what is extracted from it have the same keys and hashes.
    """

    def __init__(self, path: Path, folder: str, memory: Path | None) -> None:
        """List an archive; raises `Refused` where it is damaged, a bomb, or a name leads out of it."""
        self._path, self._folder = path, f"{folder.strip('/')}/" if folder.strip("/") else ""
        self._cache = Cache(path, memory)
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
        if unknown and settled:
            self._cache.save({"stat": self._stat, "folder": self._folder, "sha256": cached})
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

    def _packed(self, path: str, member: ArchiveEntry) -> Iterator[bytes]:
        """Yield the bytes of a file as they are in the archive."""
        left = member.packed
        with reading(str(self._path)), open(self._path, "rb") as file:
            file.seek(self._begin(file, path, member) if is_zip(self._path) else member.begin)
            while left and (chunk := file.read(min(CHUNK, left))):
                left -= len(chunk)
                yield chunk

    def _begin(self, file: IO[bytes], path: str, member: ArchiveEntry) -> int:
        """Return where a zip member's content begins."""
        file.seek(member.begin)
        head = file.read(LOCAL.size)
        if len(head) < LOCAL.size or head[:4] != b"PK\3\4":
            raise self._damaged(path, "no header")
        _, name, extra = LOCAL.unpack(head)
        return member.begin + LOCAL.size + int(name) + int(extra)

    def _check(self, path: str, found: str, listed: str) -> None:
        if found != listed:
            raise other_content(f"{self._path}/{path}")

    def _check_unchanged(self) -> None:
        with reading(str(self._path)):
            if stat_of(self._path) == self._stat:
                return
        raise Failed(str(self._path), "it changed while it was read", "a source must not change during a run", "rerun")

    def _load(self) -> dict[str, str]:
        cached = self._cache.load()
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


Tree = Folder | Archive
"""Files by their paths below a root, `/` between the parts; picklable, or inherited by forked processes."""


def open_tree(path: Path, memory: Path | None) -> Tree:
    """Open a folder, an archive (.zip, .tar), or a folder within an archive (`photos.zip/train`).

    Raises:
        Refused: an archive cannot be read in place, or a name in it leads out of it.
    """
    archive = archive_above(path)
    if archive is None:
        return Folder(path, memory)
    return Archive(archive, path.relative_to(archive).as_posix().removeprefix("."), memory)
