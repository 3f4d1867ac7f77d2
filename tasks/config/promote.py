"""When an export becomes the champion, and of which model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tasks.config.base import Section


class PromoteConfig(Section):
    """The gate between a candidate and the alias `champion`."""

    margin: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """By how much the new test score must beat the champion's; below 0: by how much it may fall short."""

    approval: Literal["none", "required"] = "none"
    """Whether a person is asked before what passed the gate becomes champion."""


class ReleaseConfig(Section):
    """What the flow `release` works on."""

    model: str | None = None
    """A model in the store: `model/DIGEST` or an unambiguous digest prefix. Only for the flow `release`."""
