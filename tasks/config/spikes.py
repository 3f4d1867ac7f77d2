"""What a training does when its loss spikes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tasks.config.base import Section


class Rollback(Section):
    """Go back to a checkpoint before the spike, and go on behind it: the examples of the steps between are skipped
    (Chowdhery et al., arXiv 2204.02311, section 5.1). A spike is a step whose loss or gradient is not finite, or whose
    loss is far above those before it."""

    kind: Literal["rollback"] = "rollback"
    """What is done."""
    factor: Annotated[float, Field(gt=1)] = 2.0
    """A loss above so many times the highest of the window is a spike; where losses are below 0, one that is above the
    highest by `factor - 1` times the largest magnitude in the window."""
    window: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Steps before it whose losses are compared; earlier ones than so many steps are not judged."""
    most: Annotated[int, Field(ge=1, le=1000)] = 10
    """Rollbacks after which the next spike ends the training with an error."""


def by_name(value: Any) -> Any:
    """Return the section that a name alone stands for."""
    return {"kind": value} if isinstance(value, str) else value


OnSpike = Annotated[
    Rollback | None, BeforeValidator(by_name, json_schema_input_type=Literal["rollback"] | Rollback | None)
]
"""`rollback`, or its settings."""
