"""How models are judged: metrics by task, intervals, gates, pictures, the report."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.config.evaluate import METRICS

REPORT_VERSION = 3
"""Counts up when the same model and snapshot would give another report."""

REPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "scipy", "scikit-learn", "matplotlib", "pillow")
"""Distributions whose versions decide a report's bytes."""

FEWEST = 20
"""Independent examples (files, of text) from which on an interval deserves its 95 %."""


@dataclass(frozen=True)
class Task:
    """What a task brings to a judgement; the rest stands in the file of its name (`tasks.evaluation.judging.Judge`)."""

    metrics: tuple[str, ...]
    """All of its metrics, the primary one first: by it models are compared and gates decide."""

    higher_is_better: frozenset[str]
    """Those metrics that grow with quality; the others shrink."""

    loses: float
    """How much of the primary metric a compressed model may lose where the config does not say."""

    relative: bool = False
    """Whether that is a share of the float model's value: for metrics without a scale of their own."""

    baselines: tuple[str, ...] = ()
    """What the same examples give without a model, beside the primary metric; lower is better."""

    figures: tuple[str, ...] = ()
    """What a report says of a split besides, without an interval."""


TASKS = {
    "classification": Task(
        METRICS["classification"], frozenset({"accuracy"}), loses=0.02, figures=("macro_f1", "majority_share")
    ),
    "multilabel": Task(METRICS["multilabel"], frozenset({"macro_f1", "micro_f1", "label_accuracy"}), loses=0.02),
    "regression": Task(METRICS["regression"], frozenset({"r2"}), loses=0.02, relative=True),
    "language_model": Task(
        METRICS["language_model"],
        frozenset({"token_accuracy"}),
        loses=0.01,
        baselines=("gzip_bits_per_byte", "xz_bits_per_byte"),
    ),
}


def primary(task: str) -> tuple[str, bool]:
    """Name of the metric by which models of a task are compared, and whether higher is better."""
    name = TASKS[task].metrics[0]
    return name, name in TASKS[task].higher_is_better


def chosen(task: str, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """The metrics asked for, in the task's order; the primary one is always among them."""
    metrics = TASKS[task].metrics
    return tuple(name for name in metrics if names is None or name in names or name == metrics[0])
