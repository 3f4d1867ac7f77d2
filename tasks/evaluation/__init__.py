"""Evaluation of models: metrics by task, confidence intervals, gates, plots, the report."""

from __future__ import annotations

from tasks.config import EvaluateConfig
from tasks.config.task import TASKS

REPORT_VERSION = 12
"""Incremented when the same model and snapshot would give another report."""

REPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "scipy", "scikit-learn", "matplotlib", "pillow")
"""Packages whose versions decide a report's bytes."""

GATING_VERSION = 3
"""Incremented when the same figures would get other verdicts."""

MIN_EXAMPLES = 20
"""Smallest number of independent examples (of text: files) for which an interval is reported as a 95 % interval."""


def select_metrics(task: str, config: EvaluateConfig) -> tuple[str, ...]:
    """Return the metrics of `evaluate.metrics` in the task's order (all for None), always with the primary one."""
    names, primary = config.metrics, config.primary_of(task)[0]
    return tuple(name for name in TASKS[task].metrics if names is None or name in names or name == primary)
