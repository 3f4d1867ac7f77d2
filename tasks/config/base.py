"""What every section of the config is: closed, frozen, documented, and clear about what decides a result."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""Short enough for the files and folders that are called after it."""


LISTED = Strict(False)
"""Marks a tuple: YAML and JSON write it as a list."""


def _as_tabs(schema: dict[str, Any]) -> None:
    """Prefect's form shows `anyOf` as tabs, and `oneOf` as raw JSON; `kind` tells the choices apart anyway."""
    schema["anyOf"] = schema.pop("oneOf")
    del schema["discriminator"]


BY_KIND = Field(discriminator="kind", json_schema_extra=_as_tabs)
"""Marks a choice between sections, made by their `kind`."""


def _title(section: type[BaseModel]) -> str:
    """What a tab of Prefect's form says: the `kind`, as presets do."""
    kind = section.model_fields.get("kind")
    return kind.default if kind else section.__name__


class Section(BaseModel):
    """A closed, immutable part of the config: unknown keys are errors, docstrings are descriptions.

    Values are what they are: `true` is no number, nor is `"60"`; a whole number will do where a number is asked for.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        model_title_generator=_title,
    )

    def decides(self, name: str) -> bool:
        """Whether a field, as it is set here, can change a result."""
        field = type(self).model_fields[name]
        marks = {type(mark) for mark in field.metadata}
        return NotIdentity not in marks and not (Later in marks and getattr(self, name) == field.default)


class Conflict(ValueError):
    """A field that cannot be what it is beside the others of its section."""

    def __init__(self, field: str, saw: Any, rule: str, remedy: str) -> None:
        super().__init__(f"{field} ({saw}) {rule}; {remedy}")
        self.field, self.saw, self.rule, self.remedy = field, saw, rule, remedy


class NotIdentity:
    """Marks a field that cannot change any result, only how, where or how fast it is made."""


class Later:
    """Marks a field that came after digests were published: it stays out of them while it has its default."""


NOT_IDENTITY = NotIdentity()
LATER = Later()


def identity(value: Any) -> Any:
    """The JSON value of a config that goes into a digest: every field that can change a result."""
    if isinstance(value, Section):
        return {
            name: identity(getattr(value, name)) for name in sorted(type(value).model_fields) if value.decides(name)
        }
    if isinstance(value, dict):
        return {str(key): identity(item) for key, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [identity(item) for item in value]
    return value
