"""Evaluation of models: metrics by task, confidence intervals, gates, plots, the report."""

from __future__ import annotations

from tasks.config.task import TASKS
from tasks.evaluation.config import EvaluateConfig

REPORT_VERSION = 13
"""Incremented when the same model and snapshot would give another report."""

REPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "scipy", "scikit-learn", "matplotlib", "pillow")
"""Packages whose versions decide a report's bytes."""

GATING_VERSION = 4
"""Incremented when the same figures would get other verdicts."""

SAMPLE_SEED = 0
"""Of the texts that a language model writes."""

MIN_EXAMPLES = 20
"""Smallest number of independent examples (of text: files) for which an interval is reported as a 95 % interval."""


def sureness(more_than_noise: bool, low: float, high: float, units: int) -> tuple[str, str]:
    """Return whether a difference is more than noise, in words, and what weakens its 95 % interval, empty if nothing.

    The permutation test decides (of shares McNemar's); where the interval alone would say otherwise, that is said.
    """
    apart = low > 0 or high < 0
    word = "more than noise" if more_than_noise else "within noise"
    return word + " by a permutation test" * (more_than_noise != apart), too_few(units)


def too_few(units: int) -> str:
    """Return that so few independent units decide an interval, as text; empty where they are enough."""
    return "" if units >= MIN_EXAMPLES else f"effective sample size {units}: too few for 95 %"


def select_metrics(task: str, config: EvaluateConfig) -> tuple[str, ...]:
    """Return the metrics of `evaluate.metrics` in the task's order (all for None), always with the primary one."""
    names, primary = config.metrics, config.primary_of(task)[0]
    return tuple(name for name in TASKS[task].metrics if names is None or name in names or name == primary)
