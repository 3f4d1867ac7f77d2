"""The file of `records.schema_file`: the rules of a source's columns."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tasks.config.base import LISTED, Section

Length = Annotated[int, Field(ge=0)]


class ColumnRules(Section):
    """What the values of a column must be; a missing value breaks only `nullable`."""

    nullable: bool = True
    """Whether a value may be missing."""

    min: float | str | None = None
    """Smallest number, or earliest time in ISO 8601."""

    max: float | str | None = None
    """Largest number, or latest time in ISO 8601."""

    values: Annotated[tuple[str | float, ...], LISTED] = ()
    """The values that there are; none given: any."""

    matches: str | None = None
    """Regular expression that a text matches from its beginning."""

    min_length: Length | None = None
    """Characters of a text at least."""

    max_length: Length | None = None
    """Characters of a text at most."""


class SchemaFile(Section):
    """The rules by column; a column without rules may have any values of its type."""

    columns: dict[str, ColumnRules]
    """Rules by column."""
