"""Files read as streams of bytes, plain or compressed, without trust in how much they hold."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

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
