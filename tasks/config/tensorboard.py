"""What a training writes for TensorBoard."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from tasks.config.base import LISTED, NOT_IDENTITY, Conflict, Section

Step = Annotated[int, Field(ge=1, le=10**12)]


class TensorBoard(Section):
    """The curves, and what is named here, in the folder of the run; `millrace board RUN` shows them."""

    histograms: Annotated[bool, NOT_IDENTITY] = True
    """Whether the distribution of each variable's values is written at each evaluation."""
    trace: Annotated[tuple[Step, Step], NOT_IDENTITY, LISTED] = (10, 20)
    """Two steps between which TensorFlow's profiler runs."""

    @model_validator(mode="after")
    def a_trace_has_steps(self) -> TensorBoard:
        first, last = self.trace
        if last <= first:
            raise Conflict("trace", list(self.trace), "must be two steps, the first one lower", "swap or change them")
        return self


def by_flag(value: Any) -> Any:
    """Return the section that true stands for, and none for false."""
    return ({} if value else None) if isinstance(value, bool) else value


BoardConfig = Annotated[TensorBoard | None, BeforeValidator(by_flag, json_schema_input_type=bool | TensorBoard | None)]
"""`true`, or its settings."""
