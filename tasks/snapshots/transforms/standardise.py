"""Fits `standardise`: the fill, and the mean and variance by which the model standardises."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.config.transform import Standardise
from tasks.snapshots.transforms.graphs import Graph, filling
from tasks.snapshots.transforms.numbers import NumberFitter
from tasks.sources.features import Feature


def fitter(name: str, feature: Feature, config: Standardise, folder: Path) -> NumberFitter:
    """Return a fitter of numbers, or of arrays of numbers."""
    return NumberFitter(name, feature, config)


def graph(states: Sequence[dict[str, Any]]) -> Graph:
    """Return the transforms of numbers, or of arrays of numbers, to float32."""
    return filling(states, lambda numbers: numbers)
