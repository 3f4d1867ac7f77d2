"""Independent units: examples, or groups of examples that are drawn together.

Where `source.group` is given, the examples of a group resemble each other: thirty of one patient tell less than thirty
patients. All intervals and tests therefore stand on what whole units contribute (Cameron and Miller, "A practitioner's
guide to cluster-robust inference", Journal of Human Resources 50, 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

UNITS = "units"
"""The name of an array of units among others."""

Floats = npt.NDArray[np.float64]
Units = npt.NDArray[np.int64]
"""int64 [N]: the number of each example's unit; where it is None, each example is one."""


@dataclass(frozen=True)
class Gathered:
    """What units contribute."""

    sums: Floats
    """Sums over the examples of each unit, float64 [units, K]."""
    sizes: Floats
    """Examples of each, float64 [units]."""

    @property
    def count(self) -> int:
        """Number of units."""
        return len(self.sizes)

    @property
    def means(self) -> Floats:
        """Means over all examples, float64 [K]."""
        means: Floats = self.sums.sum(axis=0) / self.sizes.sum()
        return means

    @property
    def without(self) -> Floats:
        """Means over the examples without those of each unit, float64 [units, K]; of a single unit its own."""
        if self.count < 2:
            return self.means[None]
        left = self.sizes.sum() - self.sizes
        means: Floats = (self.sums.sum(axis=0) - self.sums) / left[:, None]
        return means


def gathered(contributions: Floats, units: Units | None) -> Gathered:
    """Gather contributions of examples, [N, K], by unit; the units are in the order of their numbers."""
    if units is None:
        return Gathered(contributions, np.ones(len(contributions)))
    _, which, sizes = np.unique(units, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), contributions.shape[-1]))
    np.add.at(sums, which, contributions)
    return Gathered(sums, sizes.astype(np.float64))


def numbered(groups: Sequence[Any]) -> Units | None:
    """Return the units of examples by the group of each; None where every example has one of its own.

    An example without a group (None) is a unit by itself.
    """
    numbers: dict[Any, int] = {}
    units = np.array([numbers.setdefault((row,) if each is None else each, row) for row, each in enumerate(groups)])
    return units.astype(np.int64) if len(numbers) < len(units) else None


def at(units: Units | None, chosen: npt.NDArray) -> Units | None:
    """Return the units of some of the examples, by place or by mask."""
    return None if units is None else units[chosen]


def count(units: Units | None, examples: int) -> int:
    """Return the number of units of so many examples."""
    return examples if units is None else len(np.unique(units))
