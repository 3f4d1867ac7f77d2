"""Files of code that belong to fitted transforms: the reader, and the modules of the user's functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tasks import reader
from tasks.environment.user_code import closure, deciding, files_of
from tasks.reader.function import FOLDER
from tasks.snapshots.transforms.function import Function
from tasks.snapshots.transforms.transform import Transform


def reader_files(kinds: Iterable[str]) -> dict[str, bytes]:
    """Return the files of the reader that these kinds of transforms need, by path in `transform/`."""
    package = Path(str(reader.__file__)).parent
    found = closure(package.parent, [f"{package.name}.{kind}" for kind in sorted({*kinds})])
    return {name: content for name, content in found.items() if name.startswith(f"{package.name}/")}


def own_code(transforms: Mapping[str, Transform]) -> dict[str, bytes]:
    """Return the files of the user's functions by path in `transform/`.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    found = [files for _, files in _functions(transforms)]
    return dict(sorted((f"{FOLDER}/{path}", content) for files in found for path, content in files.items()))


def own_sources(transforms: Mapping[str, Transform]) -> list[tuple[str, str]]:
    """Return what the user's functions put into a digest: path and SHA-256 of their files, and name and version of the
    packages that these import.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    found = {pair for folder, files in _functions(transforms) for pair in deciding(files, folder)}
    return sorted((f"{FOLDER}/{name}", value) for name, value in found)


def _functions(transforms: Mapping[str, Transform]) -> Iterator[tuple[Path, dict[str, bytes]]]:
    """Yield the folder and the files of each function of the user's."""
    for name, transform in transforms.items():
        if isinstance(transform, Function):
            folder = Path(transform.folder)
            yield folder, files_of(f"snapshot.transforms.{name}.function", transform.function, folder)
