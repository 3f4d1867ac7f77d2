"""`log`: the logarithm of a number's size with its sign, which the model standardises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .filled import filling
from .logarithm import signed
from .values import Apply


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform of x to sign(x) log(1 + |x|), float32; missing numbers are filled before."""
    return filling(state, signed)
