"""Files of code that belong to fitted transforms: the reader, and the modules of the user's functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tasks.config.transform import Function, TransformConfig
from tasks.data import reader
from tasks.data.reader.function import FOLDER
from tasks.errors import Refused


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
        setting, folder = f"snapshot.transforms.{name}", Path(transform.folder)
        module = transform.function.partition(":")[0]
        if _file(folder, module) is None:
            saw = f"no module {module} in {folder.absolute()}"
            raise Refused(f"{setting}.function", saw, "it is imported from there", f"correct it, or {setting}.folder")
        try:
            found = closure(folder, [module])
        except (SyntaxError, ValueError) as error:
            raise Refused(f"{setting}.function", str(error), "it is Python", "correct the file") from error
        files |= {f"{FOLDER}/{path}": content for path, content in found.items()}
    return dict(sorted(files.items()))


def closure(folder: Path, modules: Iterable[str]) -> dict[str, bytes]:
    """Return the files of modules, and of those that they import from the same folder, by path in it.

    Raises:
        SyntaxError: a file is not Python.
    """
    files: dict[str, bytes] = {}
    waiting = list(modules)
    while waiting:
        for module in _with_parents(waiting.pop()):
            path = _file(folder, module)
            if path is None or (key := path.relative_to(folder).as_posix()) in files:
                continue
            files[key] = path.read_bytes()
            waiting += _imports(files[key], str(path), module, path.name == "__init__.py")
    return dict(sorted(files.items()))


def _file(folder: Path, module: str) -> Path | None:
    path = folder.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: length + 1]) for length in range(len(parts))]


def _imports(source: bytes, path: str, module: str, is_package: bool) -> Iterator[str]:
    """Yield the names of the modules that a module may import."""
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")
            base = package[: len(package) - node.level + is_package] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" if origin else alias.name for alias in node.names)
