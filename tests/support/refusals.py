"""The field for which a call is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tasks.errors import UserError


def field_of(kind: type[UserError], call: Callable[[], Any]) -> str | None:
    """The field of the error of this kind that a call ends with; None where it ends well."""
    try:
        call()
    except kind as error:
        return error.field
    return None
