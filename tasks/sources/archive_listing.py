"""What is in a zip or tar file: its files by name, with where they are, and why some cannot be read."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tasks.errors import Refused
from tasks.sources.streams import BOMB_BYTES, BOMB_RATIO
from tasks.sources.tars import LARGEST, members

ZIP, TAR = ".zip", ".tar"
PACKED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".7z", ".rar")
"""Endings of archives of which no file can be read without all those before it, or not at all."""

ENCRYPTED = 1
"""The bit of a zip member's flags."""
LOCAL = struct.Struct("<4s22xHH")
"""The header before a zip member's content: its mark, and the lengths of its name and of the extra field."""
REMEDY = "do not trust this archive; make it again from the files"


@dataclass(frozen=True)
class Member:
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


def list_files(path: Path) -> dict[str, Member]:
    """Return the files of an archive by name.

    Raises:
        Refused: it is no archive, a name is twice in it or leads out of it, or it is a decompression bomb.
        Failed: a tar file is damaged.
    """
    listed: dict[str, Member] = {}
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


def _in_zip(path: Path) -> Iterator[tuple[str, Member]]:
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
            member = Member(info.header_offset, info.compress_size, info.file_size, deflated, info.CRC, _unread(info))
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


def _in_tar(path: Path) -> Iterator[tuple[str, Member]]:
    with open(path, "rb") as file:
        for member in members(file, path.name, lambda name: False):
            yield member.name, Member(member.start, member.size, member.size, reason=member.reason)


def _check_bomb(path: Path, name: str, packed: int, size: int) -> None:
    if size > max(BOMB_BYTES, BOMB_RATIO * packed):
        saw = f"{name or 'all files'}: {size >> 20:,} MiB in {packed:,} bytes"
        rule = f"an archive holds at most {BOMB_RATIO:,} times its size, or {BOMB_BYTES >> 20} MiB"
        raise refused(path, saw, rule, "if it is as it should be, extract it")
