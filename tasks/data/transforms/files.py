"""Files of code that belong to fitted transforms: the reader, and the modules of the user's functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.config.transform import Function, TransformConfig
from tasks.data import reader
from tasks.data.reader.function import FOLDER
from tasks.data.user_code import closure, files_of


def reader_files(kinds: Iterable[str]) -> dict[str, bytes]:
    """Return the files of the reader that these kinds of transforms need, by path in `transform/`."""
    package = Path(str(reader.__file__)).parent
    found = closure(package.parent, [f"{package.name}.{kind}" for kind in sorted({*kinds})])
    return {name: content for name, content in found.items() if name.startswith(f"{package.name}/")}


def own_code(transforms: Mapping[str, TransformConfig]) -> dict[str, bytes]:
    """Return the files of the user's functions by path in `transform/`.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    files: dict[str, bytes] = {}
    for name, transform in transforms.items():
        if not isinstance(transform, Function):
            continue
        found = files_of(f"snapshot.transforms.{name}.function", transform.function, Path(transform.folder))
        files |= {f"{FOLDER}/{path}": content for path, content in found.items()}
    return dict(sorted(files.items()))
