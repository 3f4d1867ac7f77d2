"""How models are judged: metrics by task, intervals, gates, pictures, the report."""

from __future__ import annotations

from dataclasses import dataclass

REPORT_VERSION = 1
"""Counts up when the same model and snapshot would give another report."""

REPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "scipy", "scikit-learn", "matplotlib", "pillow")
"""Distributions whose versions decide a report's bytes."""


@dataclass(frozen=True)
class Task:
    """What a task brings to a judgement."""

    metrics: tuple[str, ...]
    """All of its metrics, the primary one first: by it models are compared and gates decide."""

    higher_is_better: frozenset[str]
    """Those metrics that grow with quality; the others shrink."""


TASKS = {
    "classification": Task(
        metrics=("accuracy", "loss", "log_loss", "calibration_error"), higher_is_better=frozenset({"accuracy"})
    )
}


def primary(task: str) -> tuple[str, bool]:
    """Name of the metric by which models of a task are compared, and whether higher is better."""
    name = TASKS[task].metrics[0]
    return name, name in TASKS[task].higher_is_better


def chosen(task: str, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """The metrics asked for, in the task's order; the primary one is always among them."""
    metrics = TASKS[task].metrics
    return tuple(name for name in metrics if names is None or name in names or name == metrics[0])
