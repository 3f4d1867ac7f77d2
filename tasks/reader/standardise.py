"""`standardise`: numbers as they are, which the model standardises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .filled import filling
from .values import Apply


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform of numbers to float32; missing ones are filled."""
    return filling(state, lambda values: values)
