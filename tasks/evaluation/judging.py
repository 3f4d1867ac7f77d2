"""What judges a task (`Judge`), and running models batch by batch, keeping only what it needs.

Report, variants and scores reach a task through `tasks.evaluation.tasks.make_judge` alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.evaluation import own_metrics, select_metrics
from tasks.evaluation.binary import USUAL, Binary
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import ONE_SIDED
from tasks.evaluation.metrics import Metric
from tasks.evaluation.splits import Split
from tasks.evaluation.units import Floats, Units
from tasks.models.features import Arrays, input_arrays
from tasks.models.forward import Call, Examples, max_batch_size

THREADS = min(8, os.cpu_count() or 1)
"""Threads that reduce a batch of outputs, each some of its rows: NumPy itself uses one thread."""

SMALLEST = 1e-6
"""Probability of what was never seen, in a baseline."""

Kept = dict[str, npt.NDArray]
"""What a task keeps of the outputs: small arrays by name, first axis the row."""


class Judge:
    """Evaluates models on one split of a task."""

    task: ClassVar[str]
    """Its name in `model.task`."""
    metrics: Mapping[str, Metric]
    """The task's metrics by the names of `evaluate.metrics`, functions of `predictions`; of a judge without those that
    the classes do not have."""
    saved: ClassVar[str]
    """Name of the kept array that becomes `predictions/<split>.npy`. `predictions` accepts it alone; what it cannot
    be computed from is NaN."""
    outputs: int
    """Number of outputs for a row."""
    examples: int
    """Number of examples, which are counted: rows; of text, files."""
    example_of: npt.NDArray[np.int64] | None = None
    """int64 [rows]: the number of each row's example, -1 where it is left out; None: each row, of text each file,
    is one."""
    threshold: float = USUAL
    """The probability of the positive one of two classes above which an example is taken for one."""
    units: Units | None = None
    """int64 [examples]: the independent unit of each example, a group of `source.group`; None: each is one."""

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        """Read the answers of a split; `loss` is the loss that training minimised."""
        self.split, self.config = split, config
        self.inputs: Examples = input_arrays(split.features, split.arrays)

    @property
    def targets(self) -> npt.NDArray[Any]:
        """What own metrics compare outputs with: labels [rows], or targets [rows, n]."""
        raise NotImplementedError

    @property
    def baselines(self) -> dict[str, float]:
        """Values of the primary metric on the same examples without a model, by the names of `Task.baselines`."""
        raise NotImplementedError

    def constants(self, predictions: Any) -> Iterator[Any]:
        """Yield predictions with answers that are the same for all examples, of text those of a bigram model of bytes,
        from the model's, which hold the truth. The best one by a metric is the constant baseline."""
        raise NotImplementedError

    def keep(self, outputs: npt.NDArray[np.float32], start: int) -> Kept:
        """Reduce the outputs for the rows from `start` on to the arrays that are kept: by default all, as `saved`."""
        return {self.saved: outputs}

    def predictions(self, kept: Kept) -> Any:
        """Return the task's `Predictions`, from which metrics are computed."""
        raise NotImplementedError

    def extents(self, predictions: Any) -> npt.NDArray[np.float64]:
        """Return how much of each example is scored, [examples]: models can be compared where it is the same."""
        return np.ones(self.examples)

    def decisions(self, kept: Kept) -> npt.NDArray:
        """Return the discrete outcomes (class, labels, token); two forms of a model agree where these are equal."""
        raise NotImplementedError

    def binary(self, predictions: Any) -> Mapping[str, Binary]:
        """Return the yes-or-no decisions by name; empty where there are none."""
        return {}

    def figures(self, predictions: Any) -> dict[str, float]:
        """Return further figures without an interval, by the names of `Task.figures` and as `<metric>/<name>`."""
        return {}

    def details(self, predictions: Any) -> dict[str, Any]:
        """Return the JSON fields of the split in the report besides metrics."""
        raise NotImplementedError

    def slices(self, predictions: Any) -> Mapping[str, npt.NDArray[np.bool_]]:
        """Return masks of groups of examples that get a score of their own, bool [examples] by group name."""
        return {}

    def pictures(self, predictions: Any, details: dict[str, Any]) -> dict[str, bytes]:
        """Return plots as PNG bytes by name."""
        raise NotImplementedError

    def show(self, call: Call) -> dict[str, Any]:
        """Return what the model generates, as top-level fields of the report."""
        return {}


def names_of(judge: Judge, task: str, config: EvaluateConfig) -> tuple[str, ...]:
    """Return the metrics of `evaluate.metrics` (all for None) that a judge has, in the task's order."""
    return tuple(name for name in select_metrics(task, config) if name in judge.metrics)


def contributions_of(judge: Judge, kept: Kept, config: EvaluateConfig) -> dict[str, Floats]:
    """Return each example's contributions to each metric with an interval that the kept outputs suffice for, float64
    [N, K] by name; with the primary metric also where it is one of `evaluate.own_metrics`."""
    predictions = judge.predictions(kept)
    values = {name: metric.contributions(predictions) for name, metric in judge.metrics.items() if metric.resampled}
    if (own := config.primary) in config.own_metrics:
        assert own is not None
        values[own] = own_metrics.contributions(own, config, judge.targets, kept[judge.saved])
    return {name: each for name, each in values.items() if np.isfinite(each).all()}


def metric_of(judge: Judge, name: str) -> Metric:
    """Return a metric by name, also one of `evaluate.own_metrics`."""
    return judge.metrics.get(name, own_metrics.MEAN)


def examples_of(judge: Judge, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the examples, bool [examples], of some rows, of text files: of an example of several rows, if one is."""
    if judge.example_of is None:
        return rows
    return np.bincount(judge.example_of[rows & (judge.example_of >= 0)], minlength=judge.examples) > 0


def quarters(values: npt.NDArray, name: Callable[[str], str], number: str) -> dict[str, npt.NDArray[np.bool_]]:
    """Return masks of the quartiles of values [N] by the name of each one's span, "lowest to highest", two numbers
    formatted by `number`."""
    which = np.searchsorted(np.quantile(values, (0.25, 0.5, 0.75)), values)
    groups = [which == quartile for quartile in range(4) if (which == quartile).any()]
    ends = [(format(values[group].min(), number), format(values[group].max(), number)) for group in groups]
    spans = [low if low == high else f"{low} to {high}" for low, high in ends]
    return {name(span): group for span, group in zip(spans, groups, strict=True)}


def share_or_none(part: float, whole: float) -> float | None:
    """Return a part of a whole as a share; None of nothing."""
    return float(part / whole) if whole else None


@dataclass(frozen=True)
class Probe:
    """A second model, whose outputs for the first `rows` rows are compared with those of the model one by one."""

    call: Call
    rows: int


@dataclass(frozen=True)
class ModelOutputs:
    """What was kept of a model's outputs for all rows, and their largest difference from the probe's."""

    kept: Kept
    max_abs_difference: float = 0.0
    largest: float = 0.0
    """Largest absolute value of the probe's outputs."""


def run_model(
    judge: Judge,
    call: Call,
    *,
    name: str = "",
    probe: Probe | None = None,
    progress: Callable[[int, int, str], None] = lambda *arguments: None,
    batch_size: int | None = None,
) -> ModelOutputs:
    """Run a model on every row, holding one batch of outputs at a time.

    A last batch of one example, for which TensorFlow chooses other kernels, is computed as two equal ones, so that an
    example's outputs do not depend on how many there are.

    Args:
        batch_size: examples of a batch; None for the largest that fits into memory.

    Raises:
        Failed: outputs that are not finite.
    """
    size, rows = batch_size or max_batch_size(judge.outputs), len(judge.inputs)
    kept: list[Kept] = []
    differences, extents = [0.0], [0.0]
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, rows, size):
            progress(start, rows, "rows")
            batch = judge.inputs[start : start + size]
            alone = size > 1 and rows - start == 1
            outputs = _doubled(call, batch) if alone else call(batch)
            shares = range(0, len(outputs), -(-len(outputs) // THREADS))
            parts = [outputs[at : at + shares.step] for at in shares]
            kept += pool.map(partial(_reduce, judge, name), [start + at for at in shares], parts)
            if probe is not None and start < probe.rows:
                expected = probe.call({key: values[: probe.rows - start] for key, values in batch.items()})
                extents.append(largest_of(expected, name))
                differences.append(float(np.abs(expected - outputs[: len(expected)]).max()))
    joined = {key: np.concatenate([each[key] for each in kept]) for key in kept[0]}
    return ModelOutputs(joined, max(differences), max(extents))


def _doubled(call: Call, batch: Arrays) -> npt.NDArray[np.float32]:
    """Return the outputs for a batch of one example, those of the first of two."""
    return call({name: np.concatenate([values, values]) for name, values in batch.items()})[:1]


def _reduce(judge: Judge, name: str, start: int, outputs: npt.NDArray[np.float32]) -> Kept:
    """Reduce the outputs for the rows from `start` on to what is kept."""
    largest_of(outputs, name)
    return judge.keep(outputs, start)


def largest_of(outputs: npt.NDArray[np.float32], name: str) -> float:
    """Return the largest absolute value of outputs; raise `Failed` where they are not finite."""
    largest = max(float(outputs.max()), -float(outputs.min()))
    if not np.isfinite(largest):  # the extremes of a NaN are NaN, and need no temporary array
        bad = int((~np.isfinite(outputs.reshape(len(outputs), -1))).any(axis=1).sum())
        raise Failed(
            "model",
            f"outputs of {bad} of {len(outputs)} {name} examples are not finite",
            "a model answers with numbers",
            "lower train.learning_rate or set train.clip_norm",
        )
    return largest


@dataclass(frozen=True)
class Comparison:
    """A variant compared with the Keras model, by example, on the primary metric."""

    metric: str
    before: float
    loss: float
    lower: float
    """Lower one-sided 95 % bound of the loss."""
    upper: float
    """Upper one-sided 95 % bound of the loss."""
    share: bool
    """Whether the metric counts examples."""
    agreement: float
    """Share of equal decisions."""

    def as_json(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("before", "share")}

    @property
    def figures(self) -> dict[str, float]:
        """The loss and its upper bound, by flat name."""
        return {f"{self.metric}_loss": self.loss, f"{self.metric}_loss/high": self.upper}


def compare(task: str, judge: Judge, reference: Kept, own: Kept, config: EvaluateConfig) -> Comparison:
    """Compare a model with a reference on the same rows, by the primary metric."""
    name, higher_is_better = config.primary_of(task)
    metric, sign = metric_of(judge, name), 1 if higher_is_better else -1
    before, after = (contributions_of(judge, kept, config)[name] for kept in (reference, own))
    change = metric.paired(before, after, judge.units)
    low, high = change.ends(ONE_SIDED)
    lower, upper = (-high, -low) if sign > 0 else (low, high)
    first, second = (judge.decisions(kept) for kept in (reference, own))
    return Comparison(
        metric=name,
        before=metric.of(before),
        loss=-sign * change.value + 0.0,
        lower=lower,
        upper=upper,
        share=metric.share,
        agreement=float((first == second).mean()),
    )


def limit(task: str, metric: Metric, given: float | None, before: float) -> float:
    """Return how much of a metric a compressed model may lose: `given`, or the task's default, which is a share of the
    value `before` where the metric is in the targets' units."""
    if given is not None:
        return given
    return TASKS[task].default_quality_loss * (before if TASKS[task].in_target_units and metric.most == inf else 1)
