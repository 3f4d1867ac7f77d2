"""The verdicts of the gates of a stage, whose tests are judged together."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from tasks.evaluation.gates import FAIL, PASS, UNDECIDED, Verdict
from tasks.evaluation.intervals import LEVEL
from tasks.evaluation.multiple_testing import Test, holm

ERROR = 1 - LEVEL
"""Probability that a stage passes a metric that is at its limit (of all its gates together)."""


def decide(found: Sequence[Sequence[Verdict | Test]]) -> list[list[Verdict]]:
    """Return the verdicts on what the gates of a stage found, by subject.

    The p-values of all tests are adjusted together by Holm's method (Scandinavian Journal of Statistics 6, 1979): the
    probability of a wrong pass anywhere is 5 %. A test fails where its lower 95 % bound is beyond the limit.
    """
    tests = [each for row in found for each in row if not isinstance(each, Verdict)]
    adjusted = iter(holm(np.array([test.p_value for test in tests])).tolist())
    return [
        [each if isinstance(each, Verdict) else _tested(each, next(adjusted), len(tests)) for each in row]
        for row in found
    ]


def _tested(test: Test, p_value: float, count: int) -> Verdict:
    first, second = (test.sign * value for value in (test.value, test.upper))
    edge, limit = ("least" if test.sign < 0 else "most"), test.sign * test.limit
    where = f"{test.where}: " if test.where else ""
    chance = f", p = {p_value:.3g} by Holm's method for {count} tests" if count > 1 else ""
    seen = f"{where}{test.what} at {edge} {second:.4f} with 95 % confidence"
    if not isfinite(test.value):
        return Verdict(test.gate, test.value, limit, FAIL, f"{where}{test.what} {test.value}", 1.0)
    if p_value <= ERROR:
        return Verdict(test.gate, second, limit, PASS, f"{seen}; within the limit {limit:g}{chance}", p_value)
    if test.lower > test.limit:
        other = "most" if test.sign < 0 else "least"
        text = f"{where}{test.what} at {other} {test.sign * test.lower:.4f} with 95 % confidence; beyond the limit"
        text += f" {limit:g}"
        return Verdict(test.gate, test.sign * test.lower, limit, FAIL, text, p_value)
    more = test.more(ERROR / count)
    would = "it cannot be decided at this limit" if more is None else f"about {more:,} more would decide"
    text = f"{where}{test.what} {first:.4f} of {test.examples:,} test {test.counted}, at {edge} "
    text += f"{second:.4f} with 95 % confidence; the limit is {limit:g}{chance}; {would}"
    return Verdict(test.gate, second, limit, UNDECIDED, text, p_value, more, few=test.best > ERROR / count)
