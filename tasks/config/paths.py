"""Paths in a config: in a preset relative to its folder, in a flag to the working directory.

Functions of the user's are imported from the preset's folder. In a deployment paths in the project are relative to its
folder, which each worker has where it likes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tasks.config.base import OWN_CODE, IsPath, NamesOwnCode
from tasks.config.flags import entries, sections
from tasks.config.kinds import kind_of


def change_paths(values: Any, options: list[type[BaseModel]], change: Callable[[str], str]) -> None:
    """Apply a function to the paths in the values of a section, in place; `options` are its classes."""
    if not isinstance(values, dict):
        return
    of_kind = [option for option in options if kind_of(option) == values.get("kind")] or options
    for name, field in ((name, field) for option in of_kind for name, field in option.model_fields.items()):
        value = values.get(name)
        for mark in field.metadata:
            if isinstance(mark, IsPath) and isinstance(value, str) and mark.of(value):
                values[name] = change(value)
        change_paths(value, sections(field.annotation), change)
        if isinstance(value, dict) and (of_entries := entries(field.annotation)):
            for entry in value.values():
                change_paths(entry, of_entries, change)


def change_searched(values: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    """Apply a function to the choices of `tune.space`, each within the sections of its key, in place."""
    tune = values.get("tune")
    space = tune.get("space") if isinstance(tune, dict) else None
    for key, searched in space.items() if isinstance(space, dict) else ():
        if isinstance(searched, dict) and isinstance(choices := searched.get("values"), list):
            searched["values"] = [_changed_at(str(key), choice, change) for choice in choices]


def _changed_at(key: str, value: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """Return the value of a dotted key after a change of the whole config."""
    *sections_above, name = key.split(".")
    section = {name: value}
    whole = section
    for above in reversed(sections_above):
        whole = {above: whole}
    change(whole)
    return section[name]


def add_folders(values: Any, options: list[type[BaseModel]], folder: Path) -> None:
    """Set `folder` in each section that names a function of the user's and gives none, to this one, in place."""
    if not isinstance(values, dict):
        return
    of_kind = [option for option in options if kind_of(option) == values.get("kind")] or options
    for name, field in ((name, field) for option in of_kind for name, field in option.model_fields.items()):
        if any(isinstance(mark, NamesOwnCode) for mark in field.metadata) and has_own_code(values.get(name)):
            values.setdefault("folder", str(folder.absolute()))
        add_folders(values.get(name), sections(field.annotation), folder)
        if isinstance(values.get(name), dict) and (of_entries := entries(field.annotation)):
            for entry in values[name].values():
                add_folders(entry, of_entries, folder)


def has_own_code(value: Any) -> bool:
    """Return whether a value, or one within a mapping or list, is a function of the user's."""
    if isinstance(value, dict | list):
        return any(map(has_own_code, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and re.match(OWN_CODE, value) is not None


def located(path: str, folder: Path) -> str:
    """Return a path as absolute; `~` and names such as `stdlib:` stay."""
    if not path or path.startswith("~") or re.match(r"[a-z]+:", path):
        return path
    return str(folder.absolute() / path)


def relative(path: str, folder: Path) -> str:
    """Return an absolute path in a folder as one relative to it; any other stays."""
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path
