"""Fits `time_parts`: mean and variance of the parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tasks.config.transform import TimeParts
from tasks.data.features import Feature
from tasks.data.reader.time_parts import names_of, parts_of
from tasks.data.reader.values import NO_TIME, Values
from tasks.data.transforms import NUMBERS, Fitted, Rows
from tasks.data.transforms.moments import Moments
from tasks.data.transforms.numbers import AS_IT_IS, indicated


class TimeFitter:
    """Learns the moments of the parts of times."""

    reads = True

    def __init__(self, name: str, config: TimeParts) -> None:
        self._name, self._config = name, config
        self._parts: list[str] = list(config.parts)
        self._names = names_of(self._parts, config.cyclical)
        self._moments, self._rows = Moments((len(self._names),)), 0

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from int64 [rows], microseconds since 1970."""
        parts = parts_of(values, self._parts, self._config.cyclical)
        self._moments.add(np.where((values == NO_TIME)[:, None], np.nan, parts))
        self._rows += len(values)

    def fitted(self) -> Fitted:
        """Return the transform."""
        missing = self._rows - self._moments.count
        fill = self._moments.mean.astype(np.float32).astype(np.float64)
        indicator = indicated(self._config.indicator, float(missing[0]))
        state = {
            "kind": "time_parts",
            "parts": self._parts,
            "cyclical": self._config.cyclical,
            "fill": fill.tolist(),
            "indicator": indicator,
        }
        filled = self._moments.filled(fill, missing).as_json()
        names = [*self._names, *(["missing"] if indicator else [])]
        feature: dict[str, Any] = {"names": [f"{self._name}.{part}" for part in names]}
        for key, as_it_is in AS_IT_IS.items():
            own = [value if name in self._parts else as_it_is for name, value in zip(names, filled[key], strict=False)]
            feature[key] = [*own, *([as_it_is] if indicator else [])]
        return Fitted(state, feature, NUMBERS)


def fitter(name: str, feature: Feature, config: TimeParts, folder: Path) -> TimeFitter:
    """Return a fitter of times."""
    return TimeFitter(name, config)
