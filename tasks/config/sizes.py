"""Sizes in bytes, as a number or as text with a unit."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse(value: Any) -> Any:
    """Return the bytes of a text (`2MB`, `500 kB`); any other value as it is.

    Raises:
        ValueError: a text that is no size.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    unit = next((unit for unit in sorted(UNITS, key=len, reverse=True) if text.endswith(unit)), None)
    number = text.removesuffix(unit).strip() if unit else ""
    try:
        size = float(number) * UNITS[unit or ""]
    except (ValueError, KeyError):
        raise ValueError(f"must be a size; write a number of bytes, or one with a unit: {', '.join(UNITS)}") from None
    if not 1 <= size < 2**63:
        raise ValueError("must be at least one byte and less than 8 EiB; write another size")
    return int(size)


Bytes = Annotated[int, BeforeValidator(parse), Field(gt=0)]
"""A number of bytes; as text `2MB`, `500kB`, `1.5MiB`."""
