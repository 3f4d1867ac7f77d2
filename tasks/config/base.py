"""What every section of the config is: closed, frozen, documented, and clear about what decides a result."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]


class Section(BaseModel):
    """A closed, immutable part of the config: unknown keys are errors, docstrings are descriptions."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class NotIdentity:
    """Marks a field that cannot change any result, only how, where or how fast it is made."""


NOT_IDENTITY = NotIdentity()


def identity(value: Any) -> Any:
    """The JSON value of a config that goes into a digest: every field but those marked `NOT_IDENTITY`."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {
            name: identity(getattr(value, name))
            for name, field in sorted(fields.items())
            if not any(isinstance(mark, NotIdentity) for mark in field.metadata)
        }
    if isinstance(value, dict):
        return {str(key): identity(item) for key, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [identity(item) for item in value]
    return value
