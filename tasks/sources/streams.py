"""Streams of bytes: compressed files and tar files, read once from the beginning."""

from __future__ import annotations

import codecs
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from tasks.errors import Failed

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}

BOMB_RATIO, BOMB_BYTES = 1000, 64 << 20
"""A file that holds more than so many bytes, and so many times its own size, is a decompression bomb."""

CHUNK = 1 << 20

BOM = b"\xef\xbb\xbf"
WIDE = (b"\xff\xfe", b"\xfe\xff")
"""How a file begins that is UTF-16 or UTF-32."""


class Stream(Protocol):
    """What is read from the front."""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only at the end, where there are none."""
        ...


class Pushed:
    """A stream with bytes put back at its front."""

    def __init__(self, front: bytes, stream: Stream) -> None:
        self._front, self._stream = front, stream

    def read(self, size: int) -> bytes:
        if not self._front:
            return self._stream.read(size)
        taken, self._front = self._front[:size], self._front[size:]
        return taken if len(taken) == size else taken + self._stream.read(size - len(taken))


class Transcoded:
    """The UTF-8 of a stream in another encoding.

    An undecodable byte becomes a surrogate, which is not UTF-8 either, so that the row that has it can be named.
    """

    def __init__(self, stream: Stream, encoding: str) -> None:
        self._stream, self._rest = stream, b""
        self._decode = codecs.getincrementaldecoder(encoding)("surrogateescape").decode

    def read(self, size: int) -> bytes:
        while len(self._rest) < size:
            chunk = self._stream.read(size)
            try:
                text = self._decode(chunk, not chunk)
            except UnicodeError as error:  # where the encoding has no single bytes, as UTF-16
                raise Failed(
                    "source.encoding", error, "every byte must be decodable", "correct it, or the file"
                ) from None
            self._rest += text.encode("utf-8", "surrogatepass")
            if not chunk:
                break
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


class _Guarded:
    """A decompressed stream that ends the run where it is broken, or a bomb."""

    def __init__(self, stream: pa.CompressedInputStream, path: str, size: int) -> None:
        self._stream, self._path, self._size, self._read = stream, path, size, 0

    def read(self, size: int) -> bytes:
        try:
            chunk: bytes = self._stream.read(size)
        except (OSError, pa.ArrowInvalid) as error:
            raise _broken(self._path, error) from None
        self._read += len(chunk)
        check_ratio(self._path, self._size, self._read)
        return chunk


def compression_of(name: str) -> str | None:
    """Return the compression that a file name says."""
    return COMPRESSIONS.get(Path(name).suffix.lower())


def check_ratio(name: str, compressed: int, size: int) -> None:
    """Raise `Failed` where `compressed` bytes hold so many that they are a decompression bomb."""
    if size > max(BOMB_BYTES, BOMB_RATIO * compressed):
        saw = f"over {size >> 20:,} MiB in {compressed:,} bytes"
        rule = f"a compressed file holds at most {BOMB_RATIO:,} times its size, or {BOMB_BYTES >> 20} MiB"
        raise Failed(name, saw, rule, "if it is as it should be, decompress it")


@contextmanager
def open_stream(root: Path, path: str, compression: str | None = None) -> Iterator[Stream]:
    """Open a file below `root` from its beginning, decompressed; without a compression as its name says."""
    compression = compression or compression_of(path)
    with reading(path), open(root / path, "rb") as file:
        if compression is None:
            yield file
            return
        size = (root / path).stat().st_size
        with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), compression) as stream:
            yield _Guarded(stream, path, size)


def whole(stream: Stream, size: int) -> bytes:
    """Return so many bytes, or all that there are; memory is taken as they come, whatever a header says of them."""
    if size <= CHUNK:
        return stream.read(size)
    chunks = []
    while size and (chunk := stream.read(min(size, CHUNK))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn errors of the system into `Failed` with the file's name."""
    try:
        yield
    except OSError as error:
        saw = error.strerror or str(error) or type(error).__name__
        raise Failed(path, saw, "every listed file must be readable", "fix it, or name it in source.exclude") from error


def without_bom(stream: Stream, path: str, encoding_field: str) -> tuple[Stream, int]:
    """Return a UTF-8 stream after its byte order mark, and the bytes of that; raises `Failed` for UTF-16."""
    front = stream.read(len(BOM))
    if front.startswith(WIDE):
        raise Failed(path, "UTF-16 or UTF-32", f"{encoding_field} says otherwise", "correct that, or convert the file")
    return (stream, len(BOM)) if front == BOM else (Pushed(front, stream), 0)


def is_single_byte(encoding: str) -> bool:
    """Return whether each byte is a character in an encoding, and those of ASCII are themselves."""
    decode: Callable[[bytes], str] = lambda octets: octets.decode(encoding, "replace")  # noqa: E731
    try:
        return decode(bytes(range(128))) == bytes(range(128)).decode() and len(decode(bytes(range(256)))) == 256
    except (UnicodeError, LookupError):
        return False


def _broken(path: str, error: Exception) -> Failed:
    saw = str(error).splitlines()[0]
    return Failed(path, saw, "a compressed file must be whole", "bring it again, or name it in source.exclude")


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


class TarEntry(NamedTuple):
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
) -> Iterator[TarEntry]:
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
            yield TarEntry(name, first, offset, read, reason, start, size if offset > start else 0)
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
