"""Fits `log`: the fill, and the mean and variance after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.config.transform import Log
from tasks.reader.logarithm import signed
from tasks.snapshots.transforms.graphs import Graph, filling, frexp
from tasks.snapshots.transforms.numbers import NumberFitter
from tasks.sources.features import Feature


def fitter(name: str, feature: Feature, config: Log, folder: Path) -> NumberFitter:
    """Return a fitter of numbers, or of arrays of numbers."""
    return NumberFitter(name, feature, config, signed)


def graph(states: Sequence[dict[str, Any]]) -> Graph:
    """Return the transforms of numbers, or of arrays of numbers, to float32."""
    import tensorflow as tf

    return filling(states, lambda numbers: signed(numbers, tf, frexp))
