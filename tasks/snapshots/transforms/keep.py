"""Fits `keep`: the fill."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.config.transform import Keep
from tasks.snapshots.transforms.graphs import Graph, filling
from tasks.snapshots.transforms.numbers import NumberFitter
from tasks.sources.features import Feature


def fitter(name: str, feature: Feature, config: Keep, folder: Path) -> NumberFitter:
    """Return a fitter of numbers, or of arrays of numbers."""
    return NumberFitter(name, feature, config, standardised=False)


def graph(states: Sequence[dict[str, Any]]) -> Graph:
    """Return the transforms of numbers, or of arrays of numbers, to float32."""
    return filling(states, lambda numbers: numbers)
