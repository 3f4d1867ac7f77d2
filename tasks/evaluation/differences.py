"""Estimates of differences between two models on the same units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, log, log1p, sqrt

from scipy.special import ndtr, ndtri

from tasks.evaluation.estimates import ALIKE, ALONE, BINOMIAL, PAIRED, POWER, TANGO, Skewed, units_needed


@dataclass(frozen=True)
class Paired:
    """A difference on the same units: Student's t (Biometrika 6, 1908), and with Hall's correction for skewness on the
    side where that reaches further.

    Where no unit differs, `span`, the largest difference of a unit, tells how far the truth may be: with n units alike,
    a share of 1 - tail^(1/n) may differ by all of it. Where the value is the mean of several parts, n is so many times
    the units of the smallest: a unit that differs moves only the part that it is of.
    """

    value: float
    error: float
    skewness: float
    units: int
    freedom: float
    span: float = inf
    parts: int = 1
    """Equally weighted parts, each of other units and of `units` at least, that the values are means of."""

    @property
    def method(self) -> str:
        return PAIRED if self.error > 0 else ALONE if self.units < 2 else ALIKE

    @property
    def _hall(self) -> Skewed:
        return Skewed(self.value, self.error, self.skewness, max(self.units, 2), self.freedom)

    @property
    def _student(self) -> Skewed:
        return Skewed(self.value, self.error, 0.0, max(self.units, 2), self.freedom)

    def ends(self, level: float) -> tuple[float, float]:
        if self._alike:
            unseen = 1 - ((1 - level) / 2) ** (1 / max(self.units * self.parts, 1))
            both = [(self.value - unseen * self.span, self.value + unseen * self.span)]
            both = both if isfinite(self.span) else [(self.value, self.value)]
        else:
            both = [self._student.ends(level), self._hall.ends(level)]
        return max(min(low for low, _ in both), -self.span), min(max(high for _, high in both), self.span)

    def p_at_least(self, limit: float) -> float:
        return self._p(limit - self.value) if self._alike else max(self._all(limit, -1))

    def p_at_most(self, limit: float) -> float:
        return self._p(self.value - limit) if self._alike else max(self._all(limit, 1))

    def needed(self, limit: float, level: float) -> float:
        away = abs(limit - self.value)
        if not self._alike:
            return units_needed(away / (self.error * sqrt(max(self.units, 1))), level)
        if not isfinite(self.span):
            return 1.0 if away else inf
        return log(level) / log1p(-away / self.span) / self.parts if 0 < away < self.span else inf

    @property
    def _alike(self) -> bool:
        return self.error <= 0

    def _all(self, limit: float, side: int) -> tuple[float, float]:
        return self._student._p(limit, side), self._hall._p(limit, side)

    def _p(self, away: float) -> float:
        """Return the p-value of a truth at the distance `away` from the value, where no unit differs."""
        if away <= 0 or self.units < 2:
            return 1.0
        if not isfinite(self.span):
            return 0.0
        return float(max(1 - away / self.span, 0.0) ** (self.units * self.parts))


@dataclass(frozen=True)
class PairedShares:
    """A difference of two shares of the same independent examples, by Tango's score interval (Statistics in Medicine
    17, 1998); where no example differs, by the exact binomial test."""

    lost: int
    won: int
    units: int

    @property
    def value(self) -> float:
        return (self.won - self.lost) / self.units

    @property
    def method(self) -> str:
        return TANGO if self.lost or self.won else BINOMIAL

    def ends(self, level: float) -> tuple[float, float]:
        tail = (1 - level) / 2
        if not self.lost and not self.won:
            reach = 1 - tail ** (1 / self.units)
            return -reach, reach
        low = -_above(lambda most: tango(self.lost, self.won, self.units, most), -self.value, tail)
        high = _above(lambda most: tango(self.won, self.lost, self.units, most), self.value, tail)
        return low, high

    def p_at_least(self, limit: float) -> float:
        return self._p(self.won, self.lost, limit)

    def p_at_most(self, limit: float) -> float:
        return self._p(self.lost, self.won, -limit)

    def needed(self, limit: float, level: float) -> float:
        if not self.lost and not self.won:
            return log(level) / log1p(-abs(limit)) if 0 < abs(limit) < 1 else inf
        there = sqrt(max((self.lost + self.won) / self.units - self.value**2, 0.0))
        at = sqrt(_variance(self.won, self.lost, self.units, limit))
        reach = float(ndtri(POWER)) * there - float(ndtri(level)) * at
        return (reach / (limit - self.value)) ** 2 if limit != self.value else inf

    def _p(self, won: int, lost: int, limit: float) -> float:
        if limit <= -1 or limit > 1:
            return 1.0 if limit <= -1 else 0.0
        if not lost and not won:
            return 1.0 if limit <= 0 else (1 - limit) ** self.units
        return tango(won, lost, self.units, limit)


def tango(lost: int, won: int, count: int, limit: float) -> float:
    """Return the p-value of Tango's score test that the share of examples lost, less that won, is at least `limit`."""
    if limit >= 1:
        return 0.0
    if limit <= -1:
        return 1.0
    variance, away = _variance(lost, won, count, limit), lost - won - count * limit
    if variance <= 0:
        return 1.0 if away >= 0 else 0.0
    return float(ndtr(away / sqrt(count * variance)))


def _variance(lost: int, won: int, count: int, limit: float) -> float:
    """Return the variance of an example's loss, where the share lost, less that won, is `limit`, and the rest is as
    likely as can be."""
    a, c = 2.0 * count, -won * limit * (1 - limit)
    b = -lost - won + (2 * count - lost + won) * limit
    share_won = (sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    return max(2 * share_won + limit - limit**2, 0.0)


def _above(p_value: Callable[[float], float], value: float, tail: float) -> float:
    """Return the limit above a value whose p-value is `tail`, by bisection: p-values fall as limits rise."""
    low, high = value, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle) > tail else (low, middle)
    return high
