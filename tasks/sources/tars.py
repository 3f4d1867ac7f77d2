"""Tar files read from the front, without trust in their names, sizes and links; one that is cut ends the run."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tasks.errors import Failed
from tasks.sources.streams import Stream, whole

BLOCK = tarfile.BLOCKSIZE
EXTENDED, LONG_NAME, LONG_LINK, GLOBAL = tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, b"g"
LONGEST = 1 << 20
"""Bytes of an extended header at most."""

KINDS = {
    tarfile.LNKTYPE: "a link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}
"""What is in a tar file beside files and folders."""


WITHOUT_CONTENT = {tarfile.DIRTYPE, *KINDS} - {tarfile.GNUTYPE_SPARSE}
LARGEST = 1 << 30
"""Bytes of a file that is read, at most."""


class Member(NamedTuple):
    """A file in a tar file."""

    name: str
    begin: int
    """Offset of its headers."""
    end: int
    """Offset behind its content."""
    content: bytes | None
    """None where it is not wanted."""
    reason: str | None
    """Why it is no file that is read: a link leads elsewhere."""
    start: int
    """Offset of its content."""
    size: int
    """Bytes of its content."""


def members(
    stream: Stream, path: str, wanted: Callable[[str], bool], begin: int = 0, end: int | None = None
) -> Iterator[Member]:
    """Yield the files of a tar file, or of the range of its bytes at which the stream stands, without folders.

    Args:
        wanted: whether the content of a file is read, by its name.

    Raises:
        Failed: the file is cut or damaged.
    """
    first, offset, extended = begin, begin, dict[str, str]()
    while end is None or offset < end:
        block = stream.read(BLOCK)
        if block == bytes(BLOCK):
            _check_end(stream, path, offset)
            return
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise _damaged(path, offset, error if len(block) == BLOCK else "the file ends") from None
        size = _size(extended, header)
        if size is None:
            raise _damaged(path, offset, "a header with another size")
        offset += BLOCK
        if header.type in (EXTENDED, LONG_NAME, LONG_LINK, GLOBAL):
            if size > LONGEST:
                raise _damaged(path, offset, f"a header of {size:,} bytes")
            content = _content(stream, path, offset, size)
            if header.type == EXTENDED:
                extended |= _records(content, path, offset)
            elif header.type == LONG_NAME:
                extended["path"] = content.rstrip(b"\0").decode("utf-8", "surrogateescape")
            offset += _padded(size)
            continue
        name, read, start = extended.get("path", header.name), None, offset
        reason = "a sparse file" if any(key.startswith("GNU.sparse") for key in extended) else KINDS.get(header.type)
        if header.type not in WITHOUT_CONTENT:
            reason = reason or (f"a file of {size >> 20:,} MiB" if size > LARGEST else None)
            if reason is None and wanted(name):
                read = _content(stream, path, offset, size)
            else:
                _skip(stream, path, offset, _padded(size))
            offset += _padded(size)
        if header.type != tarfile.DIRTYPE:
            yield Member(name, first, offset, read, reason, start, size if offset > start else 0)
        first, extended = offset, {}


def _size(extended: dict[str, str], header: tarfile.TarInfo) -> int | None:
    """Return the bytes of a member's content; None where they are no number."""
    size = int(extended.get("size", header.size)) if extended.get("size", "0").isdigit() else -1
    return size if size >= 0 else None


def _content(stream: Stream, path: str, offset: int, size: int) -> bytes:
    content = whole(stream, size)
    padding = stream.read(_padded(size) - size)
    if len(content) < size or len(padding) < _padded(size) - size:
        raise _damaged(path, offset, "the file ends")
    return content


def _skip(stream: Stream, path: str, offset: int, size: int) -> None:
    """Pass over bytes that must be there."""
    if isinstance(stream, io.BufferedReader):
        if stream.tell() + size > os.fstat(stream.fileno()).st_size:
            raise _damaged(path, offset, "the file ends")
        stream.seek(size, io.SEEK_CUR)
        return
    while size:
        chunk = stream.read(min(size, LONGEST))
        if not chunk:
            raise _damaged(path, offset, "the file ends")
        size -= len(chunk)


def _check_end(stream: Stream, path: str, offset: int) -> None:
    """Raise `Failed` where more follows behind the end; a compression finds out here whether it is whole."""
    while chunk := stream.read(LONGEST):
        if chunk.strip(b"\0"):
            raise _damaged(path, offset, "an end with more behind it")


def _records(content: bytes, path: str, offset: int) -> dict[str, str]:
    """Return the records `LENGTH KEY=VALUE` of an extended header."""
    records = {}
    try:
        while content:
            begin = content.index(b" ")
            length = int(content[:begin])
            key, separator, value = content[begin + 1 : length - 1].partition(b"=")
            if not separator or length < begin or content[length - 1 : length] != b"\n":
                raise ValueError
            records[key.decode()] = value.decode("utf-8", "surrogateescape")
            content = content[length:]
    except ValueError:
        raise _damaged(path, offset, "an extended header that is broken") from None
    return records


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _damaged(path: str, offset: int, saw: object) -> Failed:
    remedy = "bring it again, or name it in source.exclude"
    return Failed(f"{path} at byte {offset}", saw, "a tar file must be whole, with its end", remedy)
