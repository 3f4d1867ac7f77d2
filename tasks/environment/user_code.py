"""Functions of the user's, `package.module:function` in a folder: the files that they consist of, and their errors."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import packages_distributions, version
from pathlib import Path

from tasks.errors import Refused


def files_of(field: str, function: str, folder: Path) -> dict[str, bytes]:
    """Return the files of a function's module, and of what it imports from the same folder, by path in it.

    Raises:
        Refused: there is no such module, or it is not Python; `field` is the setting that names the function.
    """
    module = function.partition(":")[0]
    if _file(folder, module) is None:
        saw, section = f"no module {module} in {folder.absolute()}", field.rpartition(".")[0]
        raise Refused(field, saw, "it is imported from there", f"correct it, or {section}.folder")
    try:
        return closure(folder, [module])
    except (SyntaxError, ValueError) as error:
        raise Refused(field, str(error), "it is Python", "correct the file") from error


@contextmanager
def importable(folder: Path, files: Iterable[str]) -> Iterator[None]:
    """Let code import modules from a folder while it runs; those of its files are forgotten then: they may change."""
    before = set(sys.modules)
    own = {str(folder / file) for file in files}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", None) in own:
                del sys.modules[name]


def raised_at(error: BaseException, folder: Path) -> str | None:
    """Return file and line of the user's code in which an error was raised; None where it has no part in it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return f"{Path(own[-1].filename).relative_to(folder)} line {own[-1].lineno}" if own else None


def closure(folder: Path, modules: Iterable[str]) -> dict[str, bytes]:
    """Return the files of modules, and of those that they import from the same folder, by path in it; a name that
    Python has means Python's own module.

    Raises:
        SyntaxError: a file is not Python.
    """
    files: dict[str, bytes] = {}
    waiting = list(modules)
    while waiting:
        for module in _with_parents(waiting.pop()):
            path = None if module.partition(".")[0] in sys.stdlib_module_names else _file(folder, module)
            if path is None or (key := path.relative_to(folder).as_posix()) in files:
                continue
            files[key] = path.read_bytes()
            waiting += _imports(files[key], str(path), module, path.name == "__init__.py")
    return dict(sorted(files.items()))


def deciding(files: Mapping[str, bytes], folder: Path) -> list[tuple[str, str]]:
    """Return what files of a folder put into a digest: path and SHA-256 of each, and `package/NAME` and version of each
    package that they import."""
    hashes = [(path, sha256(content).hexdigest()) for path, content in files.items()]
    return hashes + [(f"package/{name}", number) for name, number in packages_of(files, folder)]


def packages_of(files: Mapping[str, bytes], folder: Path) -> list[tuple[str, str]]:
    """Return name and version of the installed packages that files of a folder import, sorted; nothing is imported.

    Modules of the folder and of Python are none; a package that is not installed has no version, and ends the import.
    """
    names: set[str] = set()
    for path, content in files.items():
        is_package = path.endswith("/__init__.py")
        module = path.removesuffix("/__init__.py" if is_package else ".py").replace("/", ".")
        names |= {name.partition(".")[0] for name in _imports(content, path, module, is_package)}
    foreign = {name for name in names - sys.stdlib_module_names if not _is_own(folder, name)}
    found = {distribution for name in foreign for distribution in distributions().get(name, ())}
    return sorted((name, version(name)) for name in found)


distributions = cache(packages_distributions)
"""Returns the names of the distributions that have a module, by module."""


def _is_own(folder: Path, module: str) -> bool:
    return _file(folder, module) is not None or (folder / module).is_dir()


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
