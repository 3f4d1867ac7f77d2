"""The reference page, made from the config classes: `python -m tasks.config.reference > docs/reference.md`."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from types import UnionType
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tasks.config.base import NotIdentity, descriptions
from tasks.config.compose import Config
from tasks.config.kinds import kind_of

HEAD = """# Config reference

Made from the config classes by `make docs`; a test fails when it is not up to date. Every key is also a flag of
`millrace run`: `--train.batch_size 32`. A key marked ○ cannot change a result, only how, where or how fast it is
computed, and is not part of digests.
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([HEAD, *_section("", Config)]) + "\n"


def _section(path: str, section: type[BaseModel], title: str = "") -> Iterator[str]:
    yield f"## {title or path or 'The config'}\n"
    yield f"{section.__doc__}\n"
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |"
    inner: list[tuple[str, type[BaseModel], str]] = []
    for name, field in section.model_fields.items():
        key = f"{path}.{name}" if path else name
        sections, entries = _sections(field.annotation), _entries(field.annotation)
        free = " ○" if any(isinstance(mark, NotIdentity) for mark in field.metadata) else ""
        meaning = " ".join(descriptions(section).get(name, "").split())
        yield f"| `{key}`{free} | {_type(field)} | {_default(field)} | {meaning} |"
        for inner_section in sections:
            kind = kind_of(inner_section) if len(sections) > 1 else None
            inner.append((key, inner_section, f"{key} ({kind})" if kind else ""))
        for inner_section in entries:
            entry = f"{key}.{'NAME' if typing.get_origin(field.annotation) is dict else 'NUMBER'}"
            kind = kind_of(inner_section)
            inner.append((entry, inner_section, f"{entry} ({kind})" if kind else entry))
    yield ""
    for key, inner_section, name in inner:
        yield from _section(key, inner_section, name)


def _sections(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (typing.Union, UnionType, typing.Annotated):
        return [section for part in typing.get_args(annotation) for section in _sections(part)]
    return []


def _entries(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections of the entries of a mapping or a list."""
    place = {dict: 1, tuple: 0}.get(typing.get_origin(annotation))
    return [] if place is None else _sections(typing.get_args(annotation)[place])


def _type(field: FieldInfo) -> str:
    return _spell(field.annotation) + _bounds(field.metadata)


def _spell(annotation: Any) -> str:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " \\| ".join(f"`{part}`" for part in parts)
    if origin is typing.Annotated:
        return _spell(parts[0]) + _bounds(list(parts[1:]))
    if origin in (typing.Union, UnionType):
        options = [option for option in _options(annotation) if option is not type(None)]
        words = [
            word
            for option in options
            if typing.get_origin(option) is typing.Literal
            for word in typing.get_args(option)
        ]
        return " or ".join(_spell(option) for option in options if _kind(option) not in words) or "none"
    if origin is tuple:
        return f"list of {_spell(parts[0])}"
    if origin is dict:
        return f"mapping to {_spell(parts[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = _kind(annotation)
        return f"`{kind}`" if kind else "section"
    if annotation is Any:
        return "any value"
    return {"int": "integer", "float": "number", "str": "text", "bool": "true or false"}.get(
        getattr(annotation, "__name__", ""), str(annotation)
    )


def _options(annotation: Any) -> list[Any]:
    """Return the members of a union, those of its unions included."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated and typing.get_origin(parts[0]) in (typing.Union, UnionType):
        return _options(parts[0])
    return [each for part in parts for each in _options(part)] if origin in (typing.Union, UnionType) else [annotation]


def _kind(section: Any) -> Any:
    """Return the `kind` of a section; None where it has none, and of what is no section."""
    return kind_of(section) if isinstance(section, type) and issubclass(section, BaseModel) else None


def _bounds(marks: list[Any]) -> str:
    words = []
    for mark in [inner for outer in marks for inner in getattr(outer, "metadata", [outer])]:
        for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
            if (value := getattr(mark, name, None)) is not None:
                words.append(f"{sign} {_power(value)}")
    return f" ({', '.join(words)})" if words else ""


def _power(value: Any) -> str:
    if isinstance(value, int) and value > 10**6 and value & (value - 1) == 0:
        return f"2^{value.bit_length() - 1}"
    return f"{value:g}"


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel):
        kind = getattr(value, "kind", None)
        return f"`{kind}`" if kind else "see below"
    if value is None:
        return "none"
    return f"`{list(value) if isinstance(value, tuple) else value}`"


if __name__ == "__main__":
    print(page(), end="")
