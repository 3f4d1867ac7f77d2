"""Contents of an export besides the accepted variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from tasks.config.base import LISTED, NOT_IDENTITY, Conflict, Section
from tasks.exporting import FORMATS, LITERT, SAVED_MODEL

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]

EXTRAS = [form.extra for form in FORMATS.values() if form.extra is not None]


class ExportConfig(Section):
    """Every variant is checked in a fresh process that imports none of our code."""

    formats: Annotated[
        tuple[FormatName, ...],
        LISTED,
        NOT_IDENTITY,
        Field(
            description="Float formats of the model, each a variant of its own: "
            + ", ".join(f"`{kind}`{f' ({form.about})' if form.about else ''}" for kind, form in FORMATS.items())
            + f". Some need an extra of this package: {', '.join(f'`{name}`' for name in EXTRAS)}."
        ),
    ] = (SAVED_MODEL, LITERT)

    golden: Annotated[int, Field(ge=1, le=1024)] = 32
    """Test examples whose inputs and outputs are part of the export."""

    @model_validator(mode="after")
    def formats_are_served(self) -> ExportConfig:
        listed = ", ".join(self.formats)
        if SAVED_MODEL not in self.formats:
            rule = "must name saved_model, which the registry serves"
            raise Conflict("formats", listed or "none", rule, "add saved_model")
        if len(set(self.formats)) < len(self.formats):
            raise Conflict("formats", listed, "must name each format once", "leave the second out")
        return self
