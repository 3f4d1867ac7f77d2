"""Fits `log`: the fill, and the mean and variance after it."""

from __future__ import annotations

from pathlib import Path

from tasks.config.transform import Log
from tasks.data.features import Feature
from tasks.data.reader.log import signed_log
from tasks.data.transforms.numbers import NumberFitter


def fitter(name: str, feature: Feature, config: Log, folder: Path) -> NumberFitter:
    """Return a fitter of numbers, or of arrays of numbers."""
    return NumberFitter(name, feature, config, signed_log)
