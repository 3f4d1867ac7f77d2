"""Metrics by kind. Each has contributions of every example, from which a value, and how sure it is, follow for any of
the examples; none needs the model again.

A value that is a function of means over examples (shares, means, ratios of sums, roots of means, scores made of counts)
is one of `Means`; one that depends on the order of all examples is one of `Order`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.evaluation.differences import Paired, PairedShares
from tasks.evaluation.estimates import Bounded, Counted, Estimate, Function, Skewed, same
from tasks.evaluation.units import Floats, Units, gathered

Value = Callable[[Floats], Floats]
"""From means [..., K] to values [...]."""


@dataclass(frozen=True)
class Metric(ABC):
    """What all kinds have."""

    contributions: Callable[[Any], Floats]
    """From a task's `Predictions` to float64 [N, K]."""

    @abstractmethod
    def of(self, contributions: Floats) -> float:
        """Return the value of some examples, from their contributions, [N, K]."""

    @abstractmethod
    def pseudo(self, contributions: Floats, units: Units | None) -> Floats:
        """Return the pseudo-value of each unit, float64 [units]: nearly independent, and their mean is nearly the value
        (jackknife: Tukey, Annals of Mathematical Statistics 29, 1958)."""

    @abstractmethod
    def estimate(self, contributions: Floats, units: Units | None) -> Estimate:
        """Return the value with how sure it is."""

    def __call__(self, predictions: Any) -> float:
        return self.of(self.contributions(predictions))

    @property
    def least(self) -> float:
        """The lowest possible value."""
        return 0.0

    @property
    def most(self) -> float:
        """The highest possible value."""
        return inf

    @property
    def resampled(self) -> bool:
        """Whether there is a valid interval."""
        return True

    @property
    def share(self) -> bool:
        """Whether it counts examples: contributions are 0 or 1, and the value is their mean."""
        return False

    def sizes(self, contributions: Floats, units: Units | None) -> Floats:
        """Return how large each unit is, float64 [units]: the larger, the more it decides."""
        return gathered(contributions, units).sizes

    def deciding(self, contributions: Floats, units: Units | None) -> int:
        """Return the number of units that decide how sure a value is: those of the rarest kind that it needs, and of
        units of several sizes so many as are worth as much (Kish, Survey Sampling, 1965, 11.7)."""
        return worth(self.sizes(contributions, units))

    def parts(self, contributions: Floats, units: Units | None) -> int:
        """Return how many equally weighted parts the value is the mean of, each from other units."""
        return 1

    def freedom(self, contributions: Floats, units: Units | None) -> float:
        """Return the degrees of freedom of the standard error, by the sizes of the units whose spread grows with them
        (Satterthwaite, Biometrics Bulletin 2, 1946); with rare kinds no more than those decide."""
        squares = worth(self.sizes(contributions, units) ** 2)
        return float(max(min(squares, self.deciding(contributions, units)) - 1, 1))

    def paired(self, before: Floats, after: Floats, units: Units | None) -> Estimate:
        """Return the change of the value from contributions `before` to `after` of the same examples, [N, K]."""
        changes = self.pseudo(after, units) - self.pseudo(before, units)
        error, skewness = shape(changes)
        if (before == after).all():
            error = 0.0
        return Paired(
            value=self.of(after) - self.of(before),
            error=error,
            skewness=skewness,
            units=min(self.deciding(each, units) for each in (before, after)),
            freedom=min(self.freedom(each, units) for each in (before, after)),
            span=self.most - self.least,
            parts=min(self.parts(each, units) for each in (before, after)),
        )


@dataclass(frozen=True)
class Means(Metric):
    """A function of means over examples, with no upper bound: a loss."""

    value: Value
    of_mean: Function = same
    """Leads from what is nearly a mean to the value: the root, of a root of a mean."""
    mean_of: Function = same
    """The inverse."""
    highest: float = inf
    lowest: float = 0.0
    size: int | None = None
    """The place of the contribution that says how large an example is, of a ratio of sums; None: all are equal."""

    @property
    def least(self) -> float:
        return self.lowest

    @property
    def most(self) -> float:
        return self.highest

    def of(self, contributions: Floats) -> float:
        return float(self.value(contributions.mean(axis=0)))

    def pseudo(self, contributions: Floats, units: Units | None) -> Floats:
        return self._pseudo(contributions, units, self.value)

    def estimate(self, contributions: Floats, units: Units | None) -> Estimate:
        def nearly_mean(means: Floats) -> Floats:
            return self.mean_of(self.value(means))

        error, skewness = shape(self._pseudo(contributions, units, nearly_mean))
        middle = float(nearly_mean(contributions.mean(axis=0)))
        carrying = self.carrying(contributions, units)
        bent = skewness * sqrt(carrying / max(self.deciding(contributions, units), 1))
        ends = (self.mean_of(self.least), self.mean_of(self.most))
        freedom = self.freedom(contributions, units)
        return Skewed(middle, error, bent, carrying, freedom, self.of_mean, self.mean_of, *ends)

    def sizes(self, contributions: Floats, units: Units | None) -> Floats:
        parts = gathered(contributions, units)
        return parts.sizes if self.size is None else parts.sums[:, self.size]

    def carrying(self, contributions: Floats, units: Units | None) -> int:
        """Return the number of deciding units of a loss, but no more than carry it: of squares of normal values all, of
        rare and large ones few."""
        whole, carried = self.deciding(contributions, units), worth(gathered(contributions, units).sums[:, 0])
        return min(whole, KURTOSIS * carried) if self.least == 0 and carried else whole

    @staticmethod
    def _pseudo(contributions: Floats, units: Units | None, value: Value) -> Floats:
        parts = gathered(contributions, units)
        whole, without = value(parts.means), value(parts.without)
        pseudo: Floats = parts.count * whole - (parts.count - 1) * without
        return pseudo


@dataclass(frozen=True)
class Score(Means):
    """A function of means with a lowest and a highest value, from 0 to 1 unless others are given."""

    highest: float = 1.0
    needs: Callable[[Floats], Floats] | None = None
    """From sums of contributions [units, K] to how many examples of each kind that the value needs a unit has, [units,
    kinds], as the rare positives of a recall; None: all count alike."""
    averaged: bool = False
    """Whether the value is the mean of one for each of these kinds, of which every example has one."""

    def estimate(self, contributions: Floats, units: Units | None) -> Estimate:
        error, _ = shape(self.pseudo(contributions, units))
        sure = (self.deciding(contributions, units), self.freedom(contributions, units))
        parts = self.parts(contributions, units)
        return Bounded(self.of(contributions), error, *sure, self.least, self.most, parts)

    def deciding(self, contributions: Floats, units: Units | None) -> int:
        if self.needs is None:
            return worth(self.sizes(contributions, units))
        having = (self.needs(gathered(contributions, units).sums) > 0).sum(axis=0)
        return int(having[having > 0].min()) if (having > 0).any() else 0

    def parts(self, contributions: Floats, units: Units | None) -> int:
        if self.needs is None or not self.averaged:
            return 1
        having = self.needs(gathered(contributions, units).sums) > 0
        alone = bool((having.sum(axis=1) == 1).all())  # or one unit could change several parts
        return int(having.any(axis=0).sum()) if alone else 1


@dataclass(frozen=True)
class Proportion(Score):
    """A share of a part of the examples, or an increasing function of one, exact where examples are independent."""

    counted: Callable[[Floats], tuple[Floats, Floats]] = lambda sums: (sums[..., 0], sums[..., 1])
    """From sums of contributions, whole numbers, to the successes and the trials."""
    of_share: Function = same
    share_of: Function = same

    def estimate(self, contributions: Floats, units: Units | None) -> Estimate:
        if units is not None:
            return super().estimate(contributions, units)
        right, trials = (round(float(each)) for each in self.counted(contributions.sum(axis=0)))
        return Counted(right, trials, self.of_share, self.share_of)


class Share(Score):
    """The share of the examples whose only contribution is 1, not 0."""

    def __init__(self, contributions: Callable[[Any], Floats]) -> None:
        super().__init__(contributions, mean)

    @property
    def share(self) -> bool:
        return True

    def estimate(self, contributions: Floats, units: Units | None) -> Estimate:
        if units is not None:
            return super().estimate(contributions, units)
        return Counted(round(float(contributions.sum())), len(contributions))

    def paired(self, before: Floats, after: Floats, units: Units | None) -> Estimate:
        if units is not None:
            return super().paired(before, after, units)
        return PairedShares(int((after < before).sum()), int((after > before).sum()), len(before))


@dataclass(frozen=True)
class Order(Metric):
    """A value from 0 to 1 that depends on the order of the scores of positives and others.

    Contributions are the score, and 1 of a positive or 0, [N, 2].
    """

    value: Callable[[Floats, npt.NDArray[np.bool_]], float]
    """From scores [N] and truth [N] to the value."""
    influence: Callable[[Floats, npt.NDArray[np.bool_]], Floats]
    """From the same to the influence of each example: the derivative of the value by its weight, times N, [N]."""

    @property
    def most(self) -> float:
        return 1.0

    def of(self, contributions: Floats) -> float:
        return self.value(contributions[:, 0], contributions[:, 1] > 0)

    def pseudo(self, contributions: Floats, units: Units | None) -> Floats:
        return self.of(contributions) + self._changes(contributions, units)

    def estimate(self, contributions: Floats, units: Units | None) -> Estimate:
        error, _ = shape(self.pseudo(contributions, units))
        sure = (self.deciding(contributions, units), self.freedom(contributions, units))
        return Bounded(self.of(contributions), error, *sure)

    def deciding(self, contributions: Floats, units: Units | None) -> int:
        truth = contributions[:, 1:]
        having = gathered(np.concatenate([truth, 1 - truth], axis=1), units).sums > 0
        return int(min(*having.sum(axis=0), 2 * KURTOSIS * self._carrying(contributions, units)))

    def freedom(self, contributions: Floats, units: Units | None) -> float:
        carried = KURTOSIS * self._carrying(contributions, units)
        return float(max(min(super().freedom(contributions, units), carried - 1), 1))

    def _carrying(self, contributions: Floats, units: Units | None) -> int:
        """Return how many units are worth as much as the influences; all where they are equal or undefined."""
        changes = self._changes(contributions, units)
        return worth(changes**2) if np.isfinite(changes).all() and changes.any() else len(changes)

    def _changes(self, contributions: Floats, units: Units | None) -> Floats:
        """Return the influence of each unit, [units]."""
        parts = gathered(self.influence(contributions[:, 0], contributions[:, 1] > 0)[:, None], units)
        changes: Floats = parts.sums[:, 0] * parts.count / parts.sizes.sum()
        return changes


@dataclass(frozen=True)
class WithoutInterval(Means):
    """A sum of absolute values, which noise can only increase (see `calibration`)."""

    @property
    def resampled(self) -> bool:
        return False


KURTOSIS = 3
"""Of normal values, a third of which are worth as much by their squares."""


def worth(sizes: Floats) -> int:
    """Return how many units of one size are worth as much as those of some sizes: (sum of sizes)^2 / sum of squares."""
    squares = float((sizes**2).sum())
    return round(float(sizes.sum()) ** 2 / squares) if squares else 0


def shape(pseudo: Floats) -> tuple[float, float]:
    """Return the standard error of the mean of pseudo-values [units], and their skewness (G1 of Joanes and Gill, The
    Statistician 47, 1998); both 0 where they are equal or too few."""
    count = len(pseudo)
    if count < 2:
        return 0.0, 0.0
    centred = pseudo - pseudo.mean()
    variance = float((centred**2).mean())
    if variance <= (1e-12 * float(np.abs(pseudo).max())) ** 2:  # errors of rounding
        return 0.0, 0.0
    error = sqrt(variance / (count - 1))
    if count < 3:
        return error, 0.0
    skewness = float((centred**3).mean()) / variance**1.5 * sqrt(count * (count - 1)) / (count - 2)
    return error, skewness


def mean(means: Floats) -> Floats:
    """Return the mean of the only contribution."""
    return means[..., 0]


def root(means: Floats) -> Floats:
    """Return the root of the mean of the only contribution."""
    return np.sqrt(means[..., 0])


def ratio(means: Floats) -> Floats:
    """Return the ratio of the first contribution's sum to the second's; 0 where both are 0."""
    whole = means[..., 1]
    return np.divide(means[..., 0], whole, out=np.zeros_like(whole), where=whole > 0)
