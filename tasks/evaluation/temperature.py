"""Temperature scaling: one number that logits are divided by, so that probabilities are those of the validation split.

Guo et al., "On calibration of modern neural networks" (arXiv 1706.04599). The prediction of a class stays the same.
"""

from __future__ import annotations

from math import exp, log
from typing import Any, Protocol, Self

from scipy.optimize import minimize_scalar

from tasks.config.evaluate import EvaluateConfig
from tasks.evaluation.intervals import difference, flat, intervals
from tasks.evaluation.judging import Judge

LOWEST, HIGHEST = 0.05, 20.0
"""Bounds of the temperature: where all validation examples are correct, the best one is 0."""

AGAIN = ("loss", "calibration_error")
"""The metrics that are computed again."""


class Scalable(Protocol):
    """`Predictions` of probabilities."""

    def scaled(self, temperature: float) -> Self:
        """Return the predictions of logits divided by the temperature."""
        ...


def fit(judge: Judge, predictions: Scalable) -> float:
    """Return the temperature with the lowest mean loss of these predictions.

    The loss is convex in the inverse of the temperature, so that there is one minimum.
    """
    loss = judge.metrics["loss"]
    found = minimize_scalar(
        lambda logarithm: loss(predictions.scaled(exp(logarithm))),
        bounds=(log(LOWEST), log(HIGHEST)),
        method="bounded",
        options={"xatol": 1e-9, "maxiter": 200},
    )
    return float(exp(found.x))


def measured(
    judge: Judge, predictions: Scalable, temperature: float, config: EvaluateConfig
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return loss and calibration error of a split before and after scaling, for the report and by flat name.

    The change of the loss has a paired interval.
    """
    scaled = predictions.scaled(temperature)
    names = tuple(name for name in AGAIN if name in judge.metrics)
    before, after = (intervals(judge.metrics, names, each, judge.units) for each in (predictions, scaled))
    loss = judge.metrics["loss"]
    change = difference(loss, loss.contributions(predictions), loss.contributions(scaled), judge.units)
    tests = {name: value for name, value in judge.figures(scaled).items() if name.startswith(f"{AGAIN[1]}/")}
    row = {
        "before": {name: each.as_json() for name, each in before.items()},
        "after": {name: each.as_json() for name, each in after.items()} | tests,
        "loss_change": change.as_json(),
    }
    return row, flat("calibrated", after) | {f"calibrated/{name}": value for name, value in tests.items()}
