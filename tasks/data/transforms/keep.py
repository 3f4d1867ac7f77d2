"""Fits `keep`: the fill."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.config.transform import Keep
from tasks.data.features import Feature
from tasks.data.transforms.graphs import Graph, filling
from tasks.data.transforms.numbers import NumberFitter


def fitter(name: str, feature: Feature, config: Keep, folder: Path) -> NumberFitter:
    """Return a fitter of numbers, or of arrays of numbers."""
    return NumberFitter(name, feature, config, standardised=False)


def graph(states: Sequence[dict[str, Any]]) -> Graph:
    """Return the transforms of numbers, or of arrays of numbers, to float32."""
    return filling(states, lambda numbers: numbers)
