"""How people write the cells of a column: dates, numbers, lists."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import StringConstraints, model_validator

from tasks.config.base import LISTED, Conflict, Section

Sign = Annotated[str, StringConstraints(min_length=1, max_length=1, pattern=r"^[^\d]$")]
FIELDS = {
    "dates": ("date",),
    "lists": ("separator",),
    "numbers": ("decimal", "thousands", "unit", "negative", "offset"),
    "plain": (),
}
"""The fields of each form of cells, by its name in `tasks.reader.formats`; beside them `missing`."""
TYPES = {
    "dates": ("time",),
    "lists": ("words", "labels"),
    "numbers": ("number",),
    "plain": ("number", "category", "text", "time"),
}
"""The types of columns that are written in each form."""


class CellFormat(Section):
    """How the cells of a column are written, where they are not plain: a date, a number, or a list."""

    date: Annotated[str, StringConstraints(min_length=1)] | None = None
    """The form of dates or times, by the codes of Python's `strptime`: `%d/%m/%Y`, `%I:%M %p`. A time without an offset
    is in UTC, a time of day on 1900-01-01."""

    decimal: Sign | None = None
    """Sign before a number's fraction; default: a point."""

    thousands: Sign | None = None
    """Sign between groups of a number's digits; default: none."""

    unit: Annotated[str, StringConstraints(min_length=1)] | None = None
    """What stands before or behind each number and is left out: `$`, `%`, `kg`. `45%` is 45."""

    negative: Literal["brackets", "trailing"] | None = None
    """How a number below 0 is written where no minus is before it: `brackets`, as accountants do, `($1,200.00)`; or
    `trailing`, as SAP does, `1,200.00-`."""

    offset: float | None = None
    """A number that is subtracted from each, before it is rounded to float32 (7 digits): `1700000000` from seconds."""

    missing: Annotated[tuple[str, ...], LISTED] = ()
    """Cells of this column that mean a missing value: `Calm`, `-9999`. Numbers are compared as numbers."""

    separator: Sign | None = None
    """Sign between the values of a cell; brackets around them and quotes around each are left out."""

    @property
    def kind(self) -> str:
        """The form, as in `FIELDS`."""
        given = (kind for kind, names in FIELDS.items() if any(getattr(self, name) is not None for name in names))
        return next(given, "plain")

    def state(self) -> dict[str, Any]:
        """Return `kind` and the fields that are given."""
        return {"kind": self.kind, **self.model_dump(mode="json", exclude_defaults=True)}

    @model_validator(mode="after")
    def fields_belong_together(self) -> CellFormat:
        given = [name for name in type(self).model_fields if getattr(self, name) not in (None, ())]
        if not given:
            raise Conflict("date", "nothing", "a format says how cells are written", "name date, decimal or unit")
        if other := [name for name in given if name not in (*FIELDS[self.kind], "missing")]:
            rule = f"is no part of the format of {self.kind}"
            raise Conflict(other[0], getattr(self, other[0]), rule, "leave it out")
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            raise Conflict("thousands", self.thousands, "differs from the decimal sign", "name another sign")
        return self

    @model_validator(mode="after")
    def date_can_be_read(self) -> CellFormat:
        if self.date is None:
            return self
        moment = datetime(2024, 5, 31, 18, 30, tzinfo=UTC)
        try:
            read = datetime.strptime(moment.strftime(self.date), self.date)
        except ValueError as error:
            rule = f"is no form of dates that Python reads ({error})"
            raise Conflict("date", self.date, rule, "use the codes of strptime, such as %d/%m/%Y") from None
        if read == datetime(1900, 1, 1):  # what strptime returns for a text without codes
            raise Conflict("date", self.date, "names no part of a date", "use codes of strptime, such as %d/%m/%Y")
        return self
