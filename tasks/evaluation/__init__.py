"""Evaluation of models: metrics by task, confidence intervals, gates, plots, the report."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.config.evaluate import METRICS

REPORT_VERSION = 4
"""Incremented when the same model and snapshot would give another report."""

REPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "scipy", "scikit-learn", "matplotlib", "pillow")
"""Packages whose versions decide a report's bytes."""

MIN_EXAMPLES = 20
"""Smallest number of independent examples (of text: files) for which an interval is reported as a 95 % interval."""


@dataclass(frozen=True)
class Task:
    """Metrics and defaults of a task; its `Judge` (see `tasks.evaluation.judging`) is in the module of its name."""

    metrics: tuple[str, ...]
    """All metrics of the task. The first one is the primary metric, which gates and comparisons use."""

    higher_is_better: frozenset[str]
    """The metrics for which a higher value is better; for all others a lower one is."""

    default_quality_loss: float
    """Largest loss of the primary metric of a compressed model, where `compress.max_quality_loss` is not set."""

    relative: bool = False
    """Whether `default_quality_loss` is a fraction of the float model's value, for metrics in the target's units."""

    baselines: tuple[str, ...] = ()
    """Values that the same examples give without a model, to compare the primary metric with; lower is better."""

    figures: tuple[str, ...] = ()
    """Further figures of a split in the report, without an interval."""


TASKS = {
    "classification": Task(
        METRICS["classification"],
        frozenset({"accuracy"}),
        default_quality_loss=0.02,
        figures=("macro_f1", "majority_share"),
    ),
    "multilabel": Task(
        METRICS["multilabel"], frozenset({"macro_f1", "micro_f1", "label_accuracy"}), default_quality_loss=0.02
    ),
    "regression": Task(METRICS["regression"], frozenset({"r2"}), default_quality_loss=0.02, relative=True),
    "language_model": Task(
        METRICS["language_model"],
        frozenset({"token_accuracy"}),
        default_quality_loss=0.01,
        baselines=("gzip_bits_per_byte", "xz_bits_per_byte"),
    ),
}


def primary_metric(task: str) -> tuple[str, bool]:
    """Return the name of the task's primary metric, and whether higher is better."""
    name = TASKS[task].metrics[0]
    return name, name in TASKS[task].higher_is_better


def select_metrics(task: str, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the metrics of `evaluate.metrics` in the task's order (all for None), always with the primary one."""
    metrics = TASKS[task].metrics
    return tuple(name for name in metrics if names is None or name in names or name == metrics[0])
