"""Modules of the user's, imported from their folder, in which each other's names come first.

A folder may have modules whose names others have too, such as `tasks`, `flows` or `utils`. Where Python would find
another module of that name, the folder's is imported as `own_code.NAME`. Code of the folder that says `import tasks`
gets the folder's module, and all other code gets the other one, in the same process.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

OTHERS_HAVE = "own_code"
"""The package of the modules whose names others have too."""

IMPORTING = threading.RLock()

LOADED: dict[str, Path] = {}
"""The folder from which each top-level module was imported, by the name that it has here."""


def imported(function: str, folder: Path) -> Any:
    """Import `package.module:function` from a folder, also where the same name was imported from another such folder.

    Raises:
        ValueError: a module of Python's has that name.
    """
    module, _, name = function.partition(":")
    if (top := module.partition(".")[0]) in sys.stdlib_module_names:
        raise ValueError(f"{function}: Python has a module {top}; rename yours")
    folder = folder.absolute()  # as the paths of modules are
    with _importing_from(folder, top):
        code = import_module(_name_here(module, folder))
    try:
        return getattr(code, name)
    except AttributeError as error:
        raise AttributeError(f"module {module!r} has no attribute {name!r}") from error


@contextmanager
def _importing_from(folder: Path, top: str) -> Iterator[None]:
    """Let Python find the modules of a folder; a top-level one from another folder is forgotten."""
    with IMPORTING:
        here = _name_here(top, folder)
        if LOADED.get(here, folder) != folder:
            for name in [name for name in sys.modules if f"{name}.".startswith(f"{here}.")]:
                del sys.modules[name]
        LOADED[here] = folder
        package = sys.modules.setdefault(OTHERS_HAVE, ModuleType(OTHERS_HAVE))
        package.__path__ = [str(folder)]
        finder = OwnFinder(folder)
        sys.meta_path.insert(0, finder)
        invalidate_caches()
        try:
            yield
        except ImportError as error:
            error.msg = error.msg.replace(f"{OTHERS_HAVE}.", "")  # the user's name for the module
            raise
        finally:
            sys.meta_path.remove(finder)


class OwnFinder(MetaPathFinder):
    """Finds the modules of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module is loaded; None for one that is not the folder's, or whose name others have too."""
        here = ".".join(fullname.split(".")[: 2 if fullname.startswith(f"{OTHERS_HAVE}.") else 1])
        if _others_have(fullname, self._folder) if path is None else LOADED.get(here) != self._folder:
            return None
        spec = PathFinder.find_spec(fullname, [str(self._folder)] if path is None else path)
        if spec is not None:
            LOADED[here] = self._folder
            if spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
                spec.loader = OwnLoader(fullname, spec.origin, self._folder)
        return spec


class OwnLoader(SourceFileLoader):
    """Runs a module in which import statements mean the modules of its folder first."""

    def __init__(self, fullname: str, path: str, folder: Path) -> None:
        super().__init__(fullname, path)
        self._folder = folder

    def exec_module(self, module: ModuleType) -> None:
        """Run the code of the module; Python asks the `__builtins__` of its globals for `__import__`."""
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import_in(self._folder)}
        super().exec_module(module)


def _import_in(folder: Path) -> Callable[..., Any]:
    """Return `__import__` for the code of a folder."""

    def import_own(
        name: str,
        globals: Mapping[str, Any] | None = None,  # the names that Python's own has
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        top = name.partition(".")[0]
        if level:  # relative: of this package, whatever it is called here
            top = str((globals or {}).get("__package__")).removeprefix(f"{OTHERS_HAVE}.").partition(".")[0]
            with _importing_from(folder, top):
                return builtins.__import__(name, globals, locals, fromlist or (), level)
        if not _has(folder, top):
            return builtins.__import__(name, globals, locals, fromlist or (), 0)
        loaded, is_current = sys.modules.get(_name_here(name, folder)), LOADED.get(_name_here(top, folder)) == folder
        if fromlist and is_current and all(hasattr(loaded, each) for each in fromlist):
            return loaded  # again, as by a statement in a function that is called often
        with _importing_from(folder, top):
            if fromlist:
                return builtins.__import__(_name_here(name, folder), globals, locals, fromlist, 0)
            import_module(_name_here(name, folder))
            return sys.modules[_name_here(top, folder)]

    return import_own


def _name_here(module: str, folder: Path) -> str:
    """Return the name under which a module of the folder is imported."""
    return f"{OTHERS_HAVE}.{module}" if _others_have(module.partition(".")[0], folder) else module


def _has(folder: Path, top: str) -> bool:
    """Return whether a folder has a top-level module; those of Python come first, as they are loaded already."""
    if top in sys.stdlib_module_names:
        return False
    return (folder / f"{top}.py").is_file() or any((folder / top).glob("*.py"))


def _others_have(top: str, folder: Path) -> bool:
    """Return whether Python would find a module elsewhere, also in an environment inside the folder."""
    if top in LOADED:
        return False
    module = sys.modules.get(top)
    spec = getattr(module, "__spec__", None) if module is not None else PathFinder.find_spec(top)
    if spec is None or spec.origin is None:
        return module is not None
    return Path(spec.origin) not in (folder / f"{top}.py", folder / top / "__init__.py")
