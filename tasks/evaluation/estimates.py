"""Estimates by kind: a value of a sample, its interval, and the evidence that the truth is on one side of a limit.

Interval and p-value of an estimate are one and the same test, so that what is printed is what decides. None needs
random draws, so that a p-value may be as small as the evidence allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, log, sqrt
from typing import Any, Protocol

import numpy as np
from scipy import stats
from scipy.special import expit, ndtri, stdtr, stdtrit

Function = Callable[[Any], Any]
"""Of a number, or of each of an array."""

BINOMIAL, LOGIT, SKEWED, PAIRED, TANGO = (
    "exact binomial",
    "Student's t of logits",
    "Student's t, corrected for skewness",
    "paired Student's t",
    "Tango's score",
)
FEW = 5
"""Successes or failures below which a share has no normal distribution (Brown, Cai and DasGupta, Statistical Science
16, 2001)."""
MOST_TRIALS = 1 << 30
"""Trials that are asked for at most."""
ALONE, ALIKE = "one unit", "all alike"
"""Methods of an interval; with one unit, or without any spread of what has no bounds, there is none, and both ends are
the value."""


POWER = 0.8
"""Probability with which so many units as are asked for would decide, if the truth is what was observed."""


class Estimate(Protocol):
    """A value with its uncertainty."""

    @property
    def value(self) -> float:
        """The value."""
        ...

    @property
    def units(self) -> int:
        """The independent units that decide how sure it is."""
        ...

    @property
    def method(self) -> str:
        """How the ends are found."""
        ...

    def ends(self, level: float) -> tuple[float, float]:
        """Return both ends of the interval at a level; each is a one-sided bound at (1 + level) / 2."""
        ...

    def p_at_least(self, limit: float) -> float:
        """Return the p-value of the truth being at least `limit`: a small one shows that it is below."""
        ...

    def p_at_most(self, limit: float) -> float:
        """Return the p-value of the truth being at most `limit`: a small one shows that it is above."""
        ...

    def needed(self, limit: float, level: float) -> float:
        """Return how many units would show, with a power of 0.8 and a p-value of `level`, on which side of a limit the
        truth is, if it is what was observed; infinity where no number would."""
        ...


def same(value: Any) -> Any:
    """Return the value."""
    return value


def units_needed(away: float, level: float) -> float:
    """Return how many units show a truth that is `away` standard deviations of one unit from a limit: ((z_level +
    z_power) / away)^2 (Julious, Statistics in Medicine 23, 2004, section 5)."""
    return ((float(ndtri(POWER)) - float(ndtri(level))) / away) ** 2 if away else inf


@dataclass(frozen=True)
class Counted:
    """A share of independent trials, or an increasing function of one, with the exact binomial interval (Clopper and
    Pearson, Biometrika 26, 1934)."""

    right: int
    trials: int
    of_share: Function = same
    """From the share to the value, from 0 to 1."""
    share_of: Function = same
    """The inverse."""
    undefined: float = 0.0
    """The value without trials."""

    @property
    def value(self) -> float:
        return self.of_share(self.right / self.trials) if self.trials else self.undefined

    @property
    def units(self) -> int:
        return self.trials

    @property
    def method(self) -> str:
        return BINOMIAL

    def ends(self, level: float) -> tuple[float, float]:
        tail, wrong = (1 - level) / 2, self.trials - self.right
        low = float(stats.beta.ppf(tail, self.right, wrong + 1)) if self.right else 0.0
        high = float(stats.beta.isf(tail, self.right + 1, wrong)) if wrong else 1.0
        return self.of_share(low), self.of_share(high)

    def p_at_least(self, limit: float) -> float:
        if not 0 < limit <= 1:
            return 1.0 if limit <= 0 else 0.0
        return float(stats.binom.cdf(self.right, self.trials, self.share_of(limit)))

    def p_at_most(self, limit: float) -> float:
        if not 0 <= limit < 1:
            return 1.0 if limit >= 1 else 0.0
        return float(stats.binom.sf(self.right - 1, self.trials, self.share_of(limit)))

    def needed(self, limit: float, level: float) -> float:
        if not self.trials or not 0 < limit < 1 or self.value == limit:
            return inf
        share, at = self.right / self.trials, float(self.share_of(limit))
        if share < at:  # the same of the trials that failed
            share, at = 1 - share, 1 - at

        def power(trials: int) -> float:
            least = stats.binom.isf(level, trials, at) + 1  # successes that show a share above the limit
            return float(stats.binom.sf(least - 1, trials, share))

        most = 1
        while power(most) < POWER:
            most *= 2
            if most > MOST_TRIALS:
                return inf
        enough = most // 2
        while most - enough > 1:
            middle = (enough + most) // 2
            enough, most = (enough, middle) if power(middle) >= POWER else (middle, most)
        return most


@dataclass(frozen=True)
class Bounded:
    """A value from `least` to `most`, by Student's t of its logit (Agresti, Categorical Data Analysis, 2013, 1.4.3).

    The interval stays within the bounds. Where no unit differs, as those of a perfect model, it is the widest of any
    values within the bounds with this mean: that of Clopper and Pearson with a number of successes that need not be
    whole. A perfect mean of several parts, as one recall a class, is as sure as so many times the units of the
    smallest part: what is wrong in one of them moves only its part.

    Where the share is worth few successes or failures, by the number of trials that would have this standard error
    (Korn and Graubard, Survey Methodology 24, 1998), the interval reaches as far as the wider one on each side.
    """

    value: float
    error: float
    """Standard error of the value."""
    units: int
    freedom: float
    """Degrees of freedom of the standard error."""
    least: float = 0.0
    most: float = 1.0
    parts: int = 1
    """Equally weighted parts, each of other units and of `units` at least, that the value is the mean of."""

    @property
    def method(self) -> str:
        return BINOMIAL if self._few else LOGIT

    @property
    def _share(self) -> float:
        return min(max((self.value - self.least) / (self.most - self.least), 0.0), 1.0)

    @property
    def _alike(self) -> bool:
        """Whether there is no spread that logits could have; a single unit has none."""
        return not 0 < self._share < 1 or self.error <= 1e-12 * (self.most - self.least) or self.units < 2

    @property
    def _trials(self) -> float:
        """The number of trials of which a share would be as sure."""
        if self._share in (0.0, 1.0):
            return self.units * self.parts
        if self._alike:
            return self.units
        return self._share * (1 - self._share) * ((self.most - self.least) / self.error) ** 2

    @property
    def _few(self) -> bool:
        return self._trials * min(self._share, 1 - self._share) < FEW

    @property
    def _deviation(self) -> float:
        """Standard error of the logit."""
        return self.error / (self.most - self.least) / (self._share * (1 - self._share))

    def ends(self, level: float) -> tuple[float, float]:
        if not self.units:
            return self.least, self.most
        tail, share, count = (1 - level) / 2, self._share, self._trials
        low, high = share, share
        if self._few:
            low = float(stats.beta.ppf(tail, count * share, count * (1 - share) + 1)) if share > 0 else 0.0
            high = float(stats.beta.isf(tail, count * share + 1, count * (1 - share))) if share < 1 else 1.0
        if not self._alike:
            middle, reach = log(share / (1 - share)), -float(stdtrit(self.freedom, tail)) * self._deviation
            low, high = min(low, float(expit(middle - reach))), max(high, float(expit(middle + reach)))
        width = self.most - self.least
        return self.least + low * width, self.least + high * width

    def p_at_least(self, limit: float) -> float:
        if not self.units or not self.least < limit <= self.most:
            return 0.0 if limit > self.most else 1.0
        at, share, count = (limit - self.least) / (self.most - self.least), self._share, self._trials
        exact = float(stats.beta.sf(at, count * share + 1, count * (1 - share))) if share < 1 else 1.0
        return self._larger(exact, at, 1)

    def p_at_most(self, limit: float) -> float:
        if not self.units or not self.least <= limit < self.most:
            return 0.0 if limit < self.least else 1.0
        at, share, count = (limit - self.least) / (self.most - self.least), self._share, self._trials
        exact = float(stats.beta.cdf(at, count * share, count * (1 - share) + 1)) if share > 0 else 1.0
        return self._larger(exact, at, -1)

    def _larger(self, exact: float, at: float, side: int) -> float:
        """Return the p-value of the truth being at least (`side` 1) or at most (-1) a share: the larger one of the two
        tests, where there are few successes or failures."""
        if self._alike:
            return exact
        of_logits = float(stdtr(self.freedom, side * self._away(at))) if 0 < at < 1 else 0.0
        return max(exact, of_logits) if self._few else of_logits

    def needed(self, limit: float, level: float) -> float:
        at, share = (limit - self.least) / (self.most - self.least), self._share
        if not self.units or not 0 < at < 1 or share == at:
            return inf
        if share in (0.0, 1.0):
            return log(level) / log(at if share else 1 - at) / self.parts
        if self._few:
            trials = round(self._trials)
            return Counted(round(share * trials), trials).needed(at, level) * self.units / max(trials, 1)
        return units_needed(self._away(at) / sqrt(self.units), level)

    def _away(self, at: float) -> float:
        """Return how many standard errors the logit is above that of a share within (0, 1)."""
        return (log(self._share / (1 - self._share)) - log(at / (1 - at))) / self._deviation


@dataclass(frozen=True)
class Skewed:
    """A value with one bound or none, as a mean of losses, by Student's t of Hall's transformation, which removes the
    skewness of a mean (Journal of the Royal Statistical Society B 54, 1992).

    `of_mean` leads from a mean to the value (its root, say), where `mean`, `error` and `skewness` are of the mean.
    """

    mean: float
    error: float
    """Standard error of the mean."""
    skewness: float
    """Of what the units contribute to the mean."""
    units: int
    freedom: float
    """Degrees of freedom of the standard error."""
    of_mean: Function = same
    mean_of: Function = same
    """The inverse."""
    least: float = -inf
    most: float = inf

    @property
    def value(self) -> float:
        return self.of_mean(self.mean)

    @property
    def method(self) -> str:
        return ALONE if self.units < 2 else SKEWED if self.error > 0 else ALIKE

    def ends(self, level: float) -> tuple[float, float]:
        if self.units < 2 or self.error <= 0:
            return self.value, self.value
        reach = -float(stdtrit(self.freedom, (1 - level) / 2))
        ends = (self.mean - self.error * self._back(each) for each in (reach, -reach))
        low, high = (self.of_mean(min(max(each, self.least), self.most)) for each in ends)
        return low, high

    def p_at_least(self, limit: float) -> float:
        return self._p(limit, -1)

    def p_at_most(self, limit: float) -> float:
        return self._p(limit, 1)

    def _p(self, limit: float, side: int) -> float:
        """Return the p-value of the truth being at most (`side` 1) or at least (-1) `limit`."""
        if not isfinite(limit):
            return 1.0 if limit * side > 0 else 0.0
        away = self.mean - self.mean_of(limit)
        if self.units < 2 or self.error <= 0:
            return 0.0 if self.units > 1 and side * away > 0 else 1.0
        return float(stdtr(self.freedom, -side * self._straight(away / self.error)))

    def needed(self, limit: float, level: float) -> float:
        away = self.mean - self.mean_of(limit)
        if not isfinite(away) or not self.error:
            return 1.0 if away else inf
        return units_needed(away / (self.error * sqrt(self.units)), level)

    @property
    def _bend(self) -> float:
        return self.skewness / sqrt(self.units)

    def _straight(self, away: float) -> float:
        """Return Hall's transformation of a studentised mean, nearly without skewness."""
        bend = self._bend
        if abs(bend) < 1e-9:
            return away
        return ((1 + bend * away / 3) ** 3 - 1) / bend + bend / 6

    def _back(self, straight: float) -> float:
        """Return the studentised mean with this transformation."""
        bend = self._bend
        if abs(bend) < 1e-9:
            return straight
        return float(3 / bend * (np.cbrt(1 + bend * (straight - bend / 6)) - 1))
