"""Flags into a preset's values: `--a.b.c VALUE` sets one field; the order of flags does not matter."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from tasks.config.kinds import kind_of
from tasks.config.yaml_values import read_yaml
from tasks.errors import Refused


def apply_flags(
    values: dict[str, Any], flags: Iterable[tuple[str, str]], root: type[BaseModel], say: Callable[[str], None]
) -> None:
    """Set each flag (`("train.steps", "200")`) in values of `root`; `say` gets a line for what a new `kind` drops.

    For a text field the value is the text as typed (`null` is nothing where the field may be empty), for any other it
    is read as YAML. A mapping replaces the preset's. A new `kind` keeps the fields that it has as well. Whole sections
    are set before their fields, and `kind` before the others, so that the order of flags decides nothing.

    Raises:
        Refused: two flags set the same field, a name is empty, a value is not YAML, or a section is a value.
    """
    typed: set[str] = set()
    for dotted, text in sorted(flags, key=lambda flag: (flag[0].count("."), not flag[0].endswith(".kind"))):
        path = dotted.split(".")
        if not all(path):
            raise Refused(f"--{dotted}", "an empty name", "a flag is --dotted.key VALUE", "see docs/reference.md")
        value = _value(dotted, text, list(_annotations(values, path, root)))
        leaves = set(_leaves(dotted, value))
        above = {".".join(path[:length]) for length in range(1, len(path))}
        below = {field for field in typed if field.startswith(f"{dotted}.")} if dotted in leaves else set()
        if twice := sorted(typed & (leaves | above) | below):
            raise Refused(f"--{dotted}", text, f"another flag sets {twice[0]}", "leave one of them out")
        put(values, path, value, root, typed, say)
        typed |= leaves


def sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in _parts(annotation) for section in sections(part)]


def entries(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that an entry of a mapping or a list may be; a list may hold lists of the same."""
    of_mappings = [section for mapping in mappings(annotation) for section in sections(typing.get_args(mapping)[1])]
    return of_mappings or [section for part in _lists(annotation) for section in sections(typing.get_args(part)[0])]


def _value(dotted: str, text: str, annotations: list[Any]) -> Any:
    if annotations and all(_is_text(annotation) for annotation in annotations):
        optional = any(type(None) in _parts(annotation) for annotation in annotations)
        return None if optional and text == "null" else text
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        if not annotations:
            return text  # a key that the section does not have, which the config refuses
        raise Refused(dotted, text, "a flag's value is read as YAML", "quote it, or fix its brackets") from None


def put(
    values: dict[str, Any],
    path: list[str],
    value: Any,
    root: type[BaseModel],
    typed: set[str],
    say: Callable[[str], None],
) -> None:
    """Set the field at a path in values of `root`, in place.

    A new `kind` drops the fields that it does not have and `typed` does not name.

    Raises:
        Refused: a section above is a value.
    """
    *parents, last = path
    section = values
    for parent in parents:
        if section.get(parent) is None:
            section[parent] = {}
        section = section[parent]
        if not isinstance(section, dict):
            raise Refused(".".join(path), section, f"{parent} is a value, not a section", "set the section first")
    if last == "kind":
        options = [option for annotation in _annotations(values, parents, root) for option in sections(annotation)]
        of_kind = [option for option in options if kind_of(option) == value]
        if of_kind:
            _drop(section, of_kind[0], ".".join(parents), value, typed, say)
    section[last] = value


def _drop(
    section: dict[str, Any], kind: type[BaseModel], dotted: str, name: str, typed: set[str], say: Callable[[str], None]
) -> None:
    """Remove the preset's fields that the new kind does not have; a typed one stays, to be refused."""
    strange = [f"{dotted}.{field}" for field in sorted(section) if field not in kind.model_fields]
    if dropped := [field for field in strange if field not in typed]:
        say(f"{dotted}.kind is now {name}: dropped {', '.join(dropped)}")
    for field in dropped:
        del section[field.rpartition(".")[2]]


def _leaves(dotted: str, value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield dotted
        return
    for key, item in value.items():
        yield from _leaves(f"{dotted}.{key}", item)


def _annotations(values: Any, path: list[str], root: type[BaseModel]) -> list[Any]:
    """Return the types that the field at this path may have; several only where its section's `kind` is not known."""
    annotations: list[Any] = [root]
    for part in path:
        options = [option for annotation in annotations for option in sections(annotation)]
        kind = values.get("kind") if isinstance(values, dict) else None
        options = [option for option in options if kind_of(option) == kind] or options
        fields = [option.model_fields[part] for option in options if part in option.model_fields]
        entries = [typing.get_args(mapping)[1] for annotation in annotations for mapping in mappings(annotation)]
        annotations = [*(field.annotation for field in fields), *entries]
        values = values.get(part) if isinstance(values, dict) else None
    return annotations


def _is_text(annotation: Any) -> bool:
    if typing.get_origin(annotation) is typing.Literal:
        return all(isinstance(choice, str) for choice in typing.get_args(annotation))
    parts = [part for part in _parts(annotation) if part is not type(None)]
    return annotation is str or (bool(parts) and all(map(_is_text, parts)))


def mappings(annotation: Any) -> list[Any]:
    """Return the annotations within one, or itself, that are mappings."""
    if typing.get_origin(annotation) is dict:
        return [annotation]
    return [mapping for part in _parts(annotation) for mapping in mappings(part)]


def _lists(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) is tuple:
        return [annotation]
    return [each for part in _parts(annotation) for each in _lists(part)]


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the annotated type of an `Annotated`."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return parts
    return parts[:1] if origin is typing.Annotated else ()
