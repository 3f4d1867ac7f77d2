"""The units of an architecture that a smaller model of the kind can have fewer of: hidden units, filters and heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Weights = Mapping[str, npt.NDArray[Any]]
"""The variables of a model by path."""


@dataclass(frozen=True)
class Group:
    """Units of a layer, any of which can be left out: columns of one kernel, and rows of another."""

    count: int
    layer: str
    """Name of the layer whose outputs are the units. A gated one has each unit twice: all gates, then all values."""
    reader: str
    """Name of the layer that reads them, once or at several positions, one after the other."""
    columns: tuple[int, ...] = (1,)
    """Consecutive columns of a unit in each section of the layer's outputs: those of all units follow one another."""
    rows: int = 1
    """Consecutive rows of a unit in the layer that reads it."""
    between: str | None = None
    """Name of a layer between the two with a scale and an offset for each output, which hides the norm of the first."""
    part: Literal["units", "heads"] = "units"
    """What the units are."""

    def sliced(self, weights: Weights, kept: Indices) -> dict[str, npt.NDArray[Any]]:
        """Return the variables of the layers by path with the kept units alone."""
        own, read = f"{self.layer}/kernel", f"{self.reader}/kernel"
        columns = self._positions(weights[own].shape[-1], self.columns, kept)
        made = {own: weights[own][..., columns]}
        for vector in (f"{self.layer}/bias", f"{self.between}/gamma", f"{self.between}/beta"):
            if vector in weights:
                made[vector] = weights[vector][columns]
        rows = self._positions(weights[read].shape[-2], (self.rows,), kept)
        return made | {read: np.take(weights[read], rows, axis=-2)}

    def norms(self, weights: Weights, order: int) -> npt.NDArray[Any]:
        """Return the norm of the weights of each unit, without its bias, float64 [count]; `order`: 1 or 2.

        It is that of the weights that read a head, or units after a normalisation, times the scale of the latter.
        """
        if self.part == "units" and self.between is None:
            kernel = weights[f"{self.layer}/kernel"].astype(np.float64)
            values, sections = kernel.reshape(-1, kernel.shape[-1]), self.columns
        else:
            kernel = np.moveaxis(weights[f"{self.reader}/kernel"].astype(np.float64), -2, -1)
            values, sections = kernel.reshape(-1, kernel.shape[-1]), (self.rows,)
            if self.between is not None:
                values = values * weights[f"{self.between}/gamma"]
        powers = (np.abs(values) ** order).sum(axis=0)
        own = [self._positions(len(powers), sections, np.array([unit])) for unit in range(self.count)]
        return np.array([powers[each].sum() for each in own]) ** (1 / order)

    def _positions(self, size: int, widths: tuple[int, ...], kept: Indices) -> Indices:
        """Return the positions of units along an axis; the sections repeat until its end."""
        found, start = [], 0
        while start < size:
            for width in widths:
                found.append(start + (kept[:, None] * width + np.arange(width)).ravel())
                start += self.count * width
        return np.concatenate(found)


@dataclass(frozen=True)
class Prunable:
    """The units of a model by its config."""

    groups: tuple[Group, ...]
    smaller: Callable[[list[int]], Any]
    """Returns the config with other numbers of units, one for each group; equal counts have equal numbers."""
