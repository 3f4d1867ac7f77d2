"""Fitting transforms of numbers: what fills a missing one, and the mean and variance of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tasks.config.transform import Keep, Log, Quantile, Standardise
from tasks.reader.values import Values
from tasks.snapshots.transforms import NUMBERS, Fitted, Rows
from tasks.snapshots.transforms.moments import Moments
from tasks.snapshots.transforms.samples import NumberSample
from tasks.sources.features import Feature

AS_IT_IS = {"mean": 0.0, "variance": 1.0}
"""Mean and variance of a number that the model does not standardise."""


def indicated(setting: Literal["auto"] | bool, missing: float) -> bool:
    """Return whether a column has an indicator, with this number of missing values."""
    return missing > 0 if setting == "auto" else bool(setting)


def shares(name: str, moments: Moments, indicator: bool, standardised: bool = True) -> dict[str, Any]:
    """Return the feature of a number, and of its indicator, which the model takes as they are."""
    own = moments.as_json() if standardised else {key: [value] for key, value in AS_IT_IS.items()}
    if not indicator:
        return {"names": [name], **own}
    return {"names": [name, f"{name}.missing"], **{key: [*own[key], value] for key, value in AS_IT_IS.items()}}


class NumberFitter:
    """Learns moments before and after the change of a transform, and a sample where quantiles are needed."""

    reads = True

    def __init__(
        self,
        name: str,
        feature: Feature,
        config: Standardise | Log | Keep | Quantile,
        change: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
        standardised: bool = True,
    ) -> None:
        """Create one of a column.

        Args:
            change: what the transform does with a number, where `standardised` needs the moments after it.
            standardised: whether the model standardises the result.
        """
        self.name, self.feature, self.config = name, feature, config
        self._change, self._standardised = change, standardised
        self._rows = 0
        self._before, self._after = Moments(feature.shape), Moments(feature.shape)
        self.sample = NumberSample()
        self._sampled = config.missing.fill == "median" or config.kind == "quantile"

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from float32 [rows, *shape]."""
        self._rows += len(values)
        self._before.add(values)
        if self._change is not None:
            self._after.add(self._change(values.astype(np.float64)))
        if self._sampled:
            self.sample.add(values, rows)

    def fitted(self) -> Fitted:
        """Return the transform."""
        return self.finish({})

    def finish(self, more: dict[str, Any]) -> Fitted:
        """Return the transform with more state."""
        missing = self._rows - self._before.count
        fill = np.broadcast_to(np.float32(self._fill()), self.feature.shape).astype(np.float64)
        indicator = not self.feature.shape and indicated(self.config.missing.indicator, float(missing))
        state = {
            "kind": self.config.kind,
            "shape": list(self.feature.shape),
            "fill": fill.ravel().tolist() if self.feature.shape else float(fill),
            "indicator": indicator,
            **more,
        }
        moments = self._before.filled(fill, missing)
        if self._change is not None:
            moments = self._after.filled(self._change(fill), missing)
        if not self.feature.shape:
            return Fitted(state, shares(self.name, moments, indicator, self._standardised), NUMBERS)
        own: dict[str, Any] = {"dtype": "float32", "shape": list(self.feature.shape)}
        if self.feature.names is not None:
            own["names"] = list(self.feature.names)
        return Fitted(state, {**own, **moments.of_last_axis().as_json()} if self._standardised else own)

    def _fill(self) -> Any:
        fill = self.config.missing.fill
        if fill == "median":
            values = self.sample.values
            return np.median(values) if len(values) else 0.0
        return self._before.mean if fill == "mean" else 0.0 if fill == "zero" else fill
