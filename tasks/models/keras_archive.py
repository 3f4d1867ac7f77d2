"""Files of Keras from anywhere: what is refused before Keras reads them, by field, value, rule and remedy."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from tasks.errors import Failed, Refused

FIELD = "model.path"
"""The setting that names the file of a model."""

CONFIG, WEIGHTS = "config.json", "model.weights.h5"
"""The architecture and the weights within a `.keras` file."""

MOST_ARCHITECTURE = 64 << 20
"""Bytes of an architecture; a larger one is no model but an attack on the memory."""
MOST_BYTES = 8 << 30
"""Bytes of a model's variables, and of an archive's files when they are unpacked."""
MOST_FILES = 10_000
"""Files of an archive."""
COPIES = 4
"""Times the bytes of a model that a file of its weights may have: an optimizer keeps up to three values beside each."""
OTHERS = 1 << 20
"""Bytes of a file of weights beside these: counters, rates, seeds."""

DAMAGED = (zipfile.BadZipFile, zlib.error, KeyError, OSError, ValueError, RuntimeError, EOFError)
"""What reading a damaged, encrypted or unknown archive raises."""
TRUST = "use a file from a source that you trust"


def architecture_of(path: Path, field: str = FIELD) -> bytes:
    """Return the architecture in a `.keras` file, or the copy of one; `field` is the setting that names it.

    Raises:
        Refused: there is no such file, or it is not of Keras.
        Failed: it is too large, or its names are not of files in it.
    """
    if path.suffix == ".json":
        return path.read_bytes()
    if not path.is_file():
        raise Refused(field, str(path), "no such file", "correct it")
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, field, path.name)
            return archive.read(CONFIG)
    except DAMAGED as error:
        rule = "is a file that Keras 3 saved: model.save('model.keras')"
        raise Refused(field, f"{path}: {error}", rule, "save it again") from None


def check_archive(archive: zipfile.ZipFile, field: str, name: str) -> None:
    """Raise `Failed` for names outside of an archive, and for more than a model has; nothing is unpacked."""
    entries = archive.infolist()
    for entry in entries:
        if outside(entry.filename):
            raise Failed(field, f"{name}: a file {entry.filename!r}", "files are within the archive", TRUST)
    if len(entries) > MOST_FILES:
        raise Failed(field, f"{name}: {len(entries):,} files", f"a model has {MOST_FILES:,} at most", TRUST)
    sizes = {entry.filename: entry.file_size for entry in entries}
    if sizes.get(CONFIG, 0) > MOST_ARCHITECTURE:
        rule = f"the architecture in a .keras file has {MOST_ARCHITECTURE >> 20} MiB at most"
        raise Failed(field, f"{name}: {sizes[CONFIG]:,} bytes", rule, TRUST)
    if (total := sum(sizes.values())) > MOST_BYTES:
        rule = f"a model has {MOST_BYTES >> 30} GiB at most"
        raise Failed(field, f"{name}: {total:,} bytes when unpacked", rule, TRUST)


def outside(name: str) -> bool:
    """Return whether the name of an archive's file leads out of a folder that it is unpacked to."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    return posix.is_absolute() or bool(windows.drive or windows.root) or ".." in (*posix.parts, *windows.parts)


@contextmanager
def weights_in(path: Path, field: str, size: int) -> Iterator[Path]:
    """Unpack the weights of a `.keras` file, or take a `.weights.h5` as it is, checked; yield the file.

    Args:
        path: the file.
        field: the setting that names it.
        size: bytes of the variables that they are for.

    Raises:
        Failed: there are more than `size` allows, or links to other files.
    """
    if path.suffix == ".h5":
        check_weights(path, field, path.name, size)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="weights-") as folder, zipfile.ZipFile(path) as archive:
        check_archive(archive, field, path.name)
        most = COPIES * size + OTHERS
        if (packed := archive.getinfo(WEIGHTS).file_size) > 2 * most:
            raise too_many(field, path.name, packed, size)
        target = Path(folder) / WEIGHTS
        with archive.open(WEIGHTS) as source, open(target, "wb") as file:  # as many bytes as the archive says, at most
            shutil.copyfileobj(source, file)
        check_weights(target, field, path.name, size)
        yield target


def check_weights(path: Path, field: str, name: str, size: int) -> None:
    """Raise `Failed` where a file of HDF5 has more, when read, than variables of `size` bytes need.

    A data set can be a gigabyte in a kilobyte: compressed, or never written. One outside of the file is refused.
    """
    import h5py

    found: list[Any] = []
    with h5py.File(path, "r") as file:
        waiting = [file]
        while waiting:
            group = waiting.pop()
            for key in group:
                if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                    raise Failed(field, f"{name}: a link {group.name}/{key}", "weights are in the file itself", TRUST)
                item = group[key]
                if isinstance(item, h5py.Group):
                    waiting.append(item)
                    continue
                if item.external or item.is_virtual:
                    saw = f"{name}: {item.name}, which is in another file"
                    raise Failed(field, saw, "weights are in the file itself", TRUST)
                found.append(int(item.size or 0) * item.dtype.itemsize)
            if len(waiting) + len(found) > MOST_FILES * 100:
                raise Failed(field, f"{name}: over {MOST_FILES * 100:,} data sets", "no model has so many", TRUST)
    if (total := sum(found)) > COPIES * size + OTHERS:
        raise too_many(field, name, total, size)


def too_many(field: str, name: str, total: int, size: int) -> Failed:
    """Return the error of a file with more weights than the variables need."""
    rule = f"the model's variables are {size:,} bytes, and a file has {COPIES} times as many at most"
    return Failed(field, f"{name}: weights of {total:,} bytes when unpacked", rule, TRUST)
