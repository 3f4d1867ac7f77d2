"""Tuning: the study of the trials, how their values are chosen, which end early, and what they are worth."""

from __future__ import annotations

STUDY_VERSION = 2
"""Incremented when the same config would give other trials."""

STUDY_LIBRARIES = ("numpy", "optuna", "scikit-learn", "scipy")
"""Packages that decide the values of the trials, their pruning and the importances."""
