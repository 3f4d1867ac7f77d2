"""The linear models of texts, images and sounds: logistic regression and ridge regression, with fixed strengths."""

from __future__ import annotations

from typing import Any

STRENGTH = 1.0
"""Of the penalty of squared weights, for inputs of unit size."""


def classifier(iterations: int, strength: float = STRENGTH) -> Any:
    """Return logistic regression by L-BFGS, which draws nothing."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / strength, max_iter=iterations)


def regressor(iterations: int, strength: float = STRENGTH) -> Any:
    """Return ridge regression by LSQR, which draws nothing."""
    from sklearn.linear_model import Ridge

    return Ridge(alpha=strength, max_iter=iterations, solver="lsqr")
