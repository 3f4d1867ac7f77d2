"""The fields of the sections of the config in full, a line for each: no schema of JSON has all that decides."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tasks.compression import stored
from tasks.config import compose
from tasks.config.base import Section, subclasses
from tasks.config.task import TASKS, Task
from tasks.records import config

IMPORTED = (compose, config, stored)
"""With these all sections are there."""


def fields() -> Iterator[str]:
    """Each field where it is declared: its type with the bounds and marks of all within it, and its default."""
    rules = {key: value for key, value in Section.model_config.items() if not callable(value)}
    yield f"every section: {' '.join(f'{key}={value}' for key, value in sorted(rules.items()))}"
    for section in sections():
        for name in section.__annotations__:
            if field := section.model_fields.get(name):
                default = "" if field.is_required() else f" = {_value(field.get_default(call_default_factory=True))}"
                yield f"{section.__name__}.{name}: {_spelt(field.annotation, [field])}{default}"


def facts() -> Iterator[str]:
    """What a section says of its kind, where it says it, and what is said of each task."""
    for section in sections():
        for name, annotation in section.__annotations__.items():
            if "ClassVar" in str(annotation) and name in vars(section):
                yield f"{section.__name__}.{name}: {vars(section)[name]!r}"
    for name, task in TASKS.items():
        for fact in Task.__annotations__:
            value = getattr(task, fact)
            yield f"task {name}, {fact}: {sorted(value) if isinstance(value, frozenset) else value!r}"


def sections() -> list[type[Section]]:
    """The sections of the config, and of the files that it names, by name."""
    found = sorted({each for each in subclasses(Section) if each.__module__.startswith("tasks.")}, key=str)
    names = [section.__name__ for section in found]
    assert len(set(names)) == len(names), "lines name a section by its class alone"
    return sorted(found, key=lambda each: each.__name__)


def _value(value: Any) -> str:
    """A default; of a section only what is not its own default."""
    if isinstance(value, BaseModel):
        changed = value.model_dump(exclude_defaults=True)
        return f"{type(value).__name__}({', '.join(f'{key}={each!r}' for key, each in changed.items())})"
    return f"({', '.join(map(_value, value))})" if isinstance(value, tuple) else repr(value)


def _spelt(annotation: Any, marks: Iterable[Any] = ()) -> str:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _spelt(parts[0], [*parts[1:], *marks])
    if origin in (typing.Union, UnionType):
        words = f"({' | '.join(map(_spelt, parts))})"
    elif origin is typing.Literal:
        words = " | ".join(map(repr, parts))
    elif origin in (tuple, dict):
        words = f"{origin.__name__}[{', '.join('...' if part is ... else _spelt(part) for part in parts)}]"
    else:
        words = annotation.__name__
    return " ".join([words, *(f"<{word}>" for mark in marks for word in _marks(mark))])


def _marks(mark: Any) -> Iterator[str]:
    if isinstance(mark, FieldInfo):
        yield from (word for inner in mark.metadata for word in _marks(inner))
        yield from (f"{key}={value}" for key in ("discriminator", "exclude") if (value := getattr(mark, key)))
        return
    slots = [field.name for field in dataclasses.fields(mark)] if dataclasses.is_dataclass(mark) else []
    for key in (names := dict.fromkeys([*slots, *getattr(mark, "__dict__", ())])):
        value = getattr(mark, key)
        if value is not None and key != "json_schema_input_type":
            yield f"{key}={getattr(value, '__name__', repr(value))}"
    if not names:
        yield type(mark).__name__
