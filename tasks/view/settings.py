"""The config of a run as text: what was set in it, its sections, and a preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import BaseModel

FLOW: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True, "width": 10**9}


def chosen(value: BaseModel, default: object = None) -> dict[str, Any]:
    """Return what differs from the defaults, by field: of another kind than the default also the `kind`, and of a
    section that is absent by default all of its values where none differs from theirs."""
    same, plain = type(default) is type(value), value.model_dump(mode="json")
    found: dict[str, Any] = {}
    for name, field in type(value).model_fields.items():
        own = getattr(value, name)
        usual = getattr(default, name) if same else field.get_default(call_default_factory=True)
        if isinstance(own, BaseModel):
            if (inner := chosen(own, usual)) or type(own) is not type(usual):
                found[name] = inner or plain[name]
        elif own != usual or (name == "kind" and not same):
            found[name] = _each(own, plain[name])
    return found


def _each(own: Any, plain: Any) -> Any:
    """Return a value as JSON; of sections in a list or by name what was chosen in each."""
    if isinstance(own, Mapping):
        return {key: _each(own[key], inner) for key, inner in zip(own, plain.values(), strict=True)}
    if isinstance(own, list | tuple):
        return [_each(*pair) for pair in zip(own, plain, strict=True)]
    return chosen(own) if isinstance(own, BaseModel) else plain


def grouped(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the sections of a config as YAML; values that are in none come first, as `run`."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    sections = {key: value for key, value in values.items() if isinstance(value, dict)}
    return [(name, as_yaml(section)) for name, section in {"run": plain, **sections}.items() if section]


def as_yaml(values: dict[str, Any]) -> str:
    """Return a line per key, in the order of the config class; nested values are in flow style."""
    lines = [yaml.safe_dump({key: value}, **FLOW).strip()[1:-1] for key, value in values.items()]
    return "\n".join(lines)


def as_preset(values: dict[str, Any]) -> str:
    """Return the whole config as a preset."""
    lines = []
    for name, section in values.items():
        if isinstance(section, dict):
            lines += [f"{name}:", *(f"  {line}" for line in as_yaml(section).splitlines())]
        else:
            lines.append(as_yaml({name: section}))
    return "\n".join(lines) + "\n"
