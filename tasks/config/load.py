"""From a preset and flags to a `Config`, or to one clear refusal."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from tasks.config import Config
from tasks.config.base import Conflict
from tasks.errors import Refused

FORMAT = 1
"""Of presets; one may say `format: 1`."""

SHAPES = {
    "model_type": "must be a mapping of keys",
    "model_attributes_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
}
"""Wrong nestings in YAML's words, where pydantic speaks of Python's."""


class PresetLoader(yaml.SafeLoader):
    """YAML in which a key stands once: of two the first would be ignored in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As `SafeLoader`, but a second key of the same name is an error, with its place."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value} stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(preset: Path, flags: Iterable[tuple[str, str]] = (), say: Callable[[str], None] = lambda line: None) -> Config:
    """Defaults < preset < flags (`("train.steps", "200")`); raises `Refused` for whatever is wrong with them."""
    values = read_preset(preset)
    for dotted, text in flags:
        merge(values, dotted, parse_flag(dotted, text), say)
    return validate(values)


def read_preset(preset: Path) -> dict[str, Any]:
    """The mapping that a preset file holds."""
    if not preset.is_file():
        known = sorted(path.as_posix() for path in Path("flows/presets").glob("*.yaml"))
        raise Refused(str(preset), "no such file", "a preset is a YAML file", f"one of {', '.join(known) or 'yours'}")
    try:
        values = read_yaml(preset.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refused(str(preset), " ".join(str(error).split()), "a preset is a YAML file", "mend that line") from None
    if not isinstance(values, dict):
        saw = "nothing" if values is None else f"a {type(values).__name__}"
        raise Refused(str(preset), saw, "a preset is a mapping of sections", "see docs/reference.md")
    made_for = values.pop("format", FORMAT)
    if made_for != FORMAT:
        rule = f"this Millrace reads presets of format {FORMAT}"
        raise Refused(f"{preset}: format", made_for, rule, "use the Millrace that it was made for, or write it anew")
    return values


def read_yaml(text: str) -> Any:
    """What a YAML text means; raises `yaml.YAMLError`, also for a key that stands twice."""
    return yaml.load(text, PresetLoader)


def parse_flag(dotted: str, text: str) -> Any:
    """A flag's value, read as YAML: `0.1`, `[1, 2]`, `{train: 0.7}`, `null`."""
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        raise Refused(dotted, text, "a flag's value is read as YAML", "quote it, or mend its brackets") from None


def merge(values: dict[str, Any], dotted: str, value: Any, say: Callable[[str], None]) -> None:
    """Put `value` at `dotted`; mappings merge by key, and another `kind` drops the old kind's fields and says so."""
    *parents, last = dotted.split(".")
    if not all((*parents, last)):
        raise Refused(f"--{dotted}", "an empty name", "a flag is --dotted.key VALUE", "see docs/reference.md")
    for parent in parents:
        child = values.setdefault(parent, {})
        if not isinstance(child, dict):
            raise Refused(dotted, child, f"{parent} is a value, not a section", "set the section first")
        values = child
    if last == "kind":
        _merge_section(values, {"kind": value}, ".".join(parents), say)
    elif isinstance(value, dict) and isinstance(values.get(last), dict):
        _merge_section(values[last], value, dotted, say)
    else:
        values[last] = value


def _merge_section(old: dict[str, Any], new: dict[str, Any], dotted: str, say: Callable[[str], None]) -> None:
    if "kind" in new and new["kind"] != old.get("kind") and len(old) > ("kind" in old):
        kept = {"name"} if dotted == "source" else set()
        dropped = sorted(set(old) - kept - {"kind"})
        if dropped:
            say(f"{dotted}.kind is now {new['kind']}: dropped {', '.join(f'{dotted}.{name}' for name in dropped)}")
        for name in [*dropped, "kind"]:
            old.pop(name, None)
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            _merge_section(old[key], value, f"{dotted}.{key}", say)
        else:
            old[key] = value


def validate(values: dict[str, Any]) -> Config:
    """The config these values make; the first thing wrong is refused with its field, the rule and a remedy."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise explain(error) from None


def explain(error: ValidationError) -> Refused:
    """One validation error as field, value seen, rule and remedy."""
    errors = error.errors(include_url=False)
    found = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])  # may be why a key is missing
    section, path = _walk(found["loc"])
    field, kind = ".".join(path), found["type"]
    if kind == "extra_forbidden":
        known = list(section.model_fields) if section else []
        near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
        parent = ".".join(path[:-1])
        nearest = f"did you mean {'.'.join([*path[:-1], near[0]])}?" if near else f"one of {', '.join(known)}"
        return Refused(field, found["input"], f"unknown key of {parent or 'the preset'}", nearest)
    if kind == "missing":
        return Refused(field, "nothing", "this key is needed", f"set {field} in the preset or by --{field} VALUE")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        choices = found["ctx"].get("expected_tags", "") or _tags(section, path)
        saw = found["ctx"].get("tag", "nothing")
        return Refused(f"{field}.kind", saw, f"must be one of {choices}", "choose one of them")
    conflict = found.get("ctx", {}).get("error")
    if isinstance(conflict, Conflict):
        return Refused(f"{field}.{conflict.field}".lstrip("."), conflict.saw, conflict.rule, conflict.remedy)
    rule, _, remedy = SHAPES.get(kind, found["msg"]).removeprefix("Value error, ").partition("; ")
    saw = "null" if found["input"] is None else found["input"]
    if isinstance(saw, dict | BaseModel) and kind == "value_error":
        saw = "this combination"
    return Refused(field, saw, rule[0].lower() + rule[1:], remedy or f"set {field} to such a value")


def _walk(location: tuple[Any, ...]) -> tuple[type[BaseModel] | None, list[str]]:
    """The section that holds the field at this location, and the field's path without union tags."""
    section: type[BaseModel] | None = Config
    path: list[str] = []
    options: list[type[BaseModel]] = [Config]
    for part in location:
        tagged = [option for option in options if part == getattr(option.model_fields.get("kind"), "default", None)]
        if len(options) > 1 and tagged:
            options = tagged
            continue
        path.append(str(part))
        section = options[0] if options else None
        field = section.model_fields.get(str(part)) if section else None
        options = _sections(field.annotation) if field else []
    return section, path


def _sections(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        return [section for part in typing.get_args(annotation) for section in _sections(part)]
    return []


def _tags(section: type[BaseModel] | None, path: list[str]) -> str:
    field = section.model_fields[path[-1]] if section else None
    return ", ".join(
        repr(option.model_fields["kind"].default) for option in _sections(field.annotation if field else 0)
    )
