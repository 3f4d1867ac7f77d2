"""What pydantic finds wrong in a config, as one clear refusal: field, value seen, rule, remedy."""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from tasks.config.base import PATTERNS, Conflict
from tasks.config.flags import entries, sections
from tasks.config.kinds import kind_of
from tasks.config.yaml_values import read_yaml
from tasks.errors import Refused

SHAPES = {
    "model_type": "must be a mapping of keys",
    "model_attributes_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
}
"""Wrong nestings in YAML's words, where pydantic speaks of Python's."""


TYPES = {
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "finite_number": "must be a finite number",
}
"""What a single value must be, in words."""


MARK = re.compile(r"\[key\]|float|constrained-str|(literal|dict|tuple|list|tagged-union|function-\w+)\[.*\]")
"""In a location: not a name of ours but pydantic's word for what it tried there."""


def explain(error: ValidationError, root: type[BaseModel]) -> Refused:
    """Return a validation error of a section as field, value seen, rule and remedy."""
    errors = error.errors(include_url=False)
    strange = (one for one in errors if one["type"] in ("extra_forbidden", "invalid_key"))
    fault = next(strange, errors[0])  # it may be why another key is missing
    if fault["loc"] and str(fault["loc"][-1]).startswith("literal["):  # a word, or something else: see `_specific`
        fault = max((one for one in errors if one["loc"][: len(fault["loc"]) - 1] == fault["loc"][:-1]), key=_specific)
    section, path, options = _walk(fault["loc"], root)
    field, kind = ".".join(path), fault["type"]
    if kind == "extra_forbidden":
        known = list(section.model_fields) if section else []
        near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
        parent = ".".join(path[:-1])
        meant = _below(path[-1], root) if not parent and path[-1] not in near else None
        meant = meant or (".".join([*path[:-1], near[0]]) if near else None)
        nearest = f"did you mean {meant}?" if meant else f"one of {', '.join(known)}"
        return Refused(field, fault["input"], f"unknown key of {parent or 'the preset'}", nearest)
    if kind == "missing":
        flag = f" or by --{field} VALUE" if "." in field or field == "name" else ""  # a section has none
        return Refused(field, "nothing", "this key is needed", f"set {field} in the preset{flag}")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        choices = fault["ctx"].get("expected_tags", "") or ", ".join(repr(kind_of(option)) for option in options)
        saw = fault["ctx"].get("tag", "nothing")
        return Refused(f"{field}.kind", saw, f"must be one of {choices}", "choose one of them")
    conflict = fault.get("ctx", {}).get("error")
    if isinstance(conflict, Conflict):
        return Refused(f"{field}.{conflict.field}".lstrip("."), conflict.saw, conflict.rule, conflict.remedy)
    if kind == "invalid_key":
        where = ".".join(path[:-1]) or "the preset"
        return Refused(where, f"a key {quoted(fault['input'])}", "keys are text", "correct it, or put it in quotes")
    if kind == "string_pattern_mismatch" and (rule := PATTERNS.get(fault["ctx"]["pattern"])):
        words = [one["ctx"]["expected"] for one in errors if one["type"] == "literal_error"]
        rule = f"{rule}, or {words[0]}" if words else rule
        return Refused(field, quoted(fault["input"]), rule, _remedy(field, kind, fault["input"]))
    if kind in TYPES:
        return Refused(field, quoted(fault["input"]), TYPES[kind], _remedy(field, kind, fault["input"]))
    rule, _, remedy = SHAPES.get(kind, fault["msg"]).removeprefix("Value error, ").partition("; ")
    combined = kind == "value_error" and isinstance(fault["input"], dict | BaseModel)
    saw = "this combination" if combined else quoted(fault["input"])
    return Refused(field, saw, rule[0].lower() + rule[1:], remedy or f"set {field} to such a value")


def _below(name: str, root: type[BaseModel]) -> str | None:
    """Return the key of this name in a section of the root, where there is one alone: `train.steps` of `steps`."""
    sections = {section: field.annotation for section, field in root.model_fields.items()}
    found = [
        f"{section}.{name}"
        for section, kind in sections.items()
        if isinstance(kind, type) and issubclass(kind, BaseModel) and name in kind.model_fields
    ]
    return found[0] if len(found) == 1 else None


def _walk(
    location: tuple[Any, ...], root: type[BaseModel]
) -> tuple[type[BaseModel] | None, list[str], list[type[BaseModel]]]:
    """Return the section of the field at this location, its path without union tags, and the sections it may be."""
    section: type[BaseModel] | None = root
    path: list[str] = []
    options: list[type[BaseModel]] = [root]
    of_entries: list[type[BaseModel]] = []
    entered = False
    for part in location:
        if MARK.fullmatch(str(part)):
            continue
        tagged = [option for option in options if part == kind_of(option)]
        if len(options) > 1 and tagged:
            options = tagged
            continue
        path.append(str(part))
        if of_entries and (isinstance(part, int) or not entered):  # a list may hold lists
            options, entered = of_entries, True
            continue
        of_entries, entered = [], False
        section = options[0] if options else None
        field = section.model_fields.get(str(part)) if section else None
        options = sections(field.annotation) if field else []
        of_entries = entries(field.annotation) if field else []
    return section, path, options


def quoted(value: Any) -> str:
    """Format a value for a preset: text that YAML would read as another type is in quotes."""
    if isinstance(value, str):
        return value if _unquoted(value) == value else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, default=str, ensure_ascii=False)


def _remedy(field: str, kind: str, value: Any) -> str:
    if kind == "string_type" and not isinstance(value, dict | list | None):
        return "put it in quotes"
    if isinstance(value, str) and isinstance(_unquoted(value), bool | int | float):
        return "write it without quotes"
    return f"set {field} to such a value"


def _unquoted(text: str) -> Any:
    """Return the value that YAML reads from a text without quotes."""
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        return text


def _specific(error: Any) -> tuple[int, int]:
    """Return how much an error says: the deepest most, and that of the words least, unless a word was given."""
    nesting = error["type"].endswith("_type") and isinstance(error["input"], str)
    return len(error["loc"]), 0 if nesting else 1 if error["type"] == "literal_error" else 2
