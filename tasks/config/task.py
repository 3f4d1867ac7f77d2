"""Tasks: what a model predicts, and the losses, options and metrics that belong to it.

A further task is a line of `TASKS`, a value of `model.task`, a class in `tasks.evaluation.tasks` that judges it, and an
objective of an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.config.base import Conflict, Section

LABEL, TARGET, WEIGHT = "label", "target", "weight"
SCORED = "scored"
"""The features of a snapshot that are no inputs: a class, labels or numbers, the weight of an example, and which tokens
of a row are targets."""


CONSTANT = "constant_"
"""Begins the name of the best constant answer's value of a metric that is not the task's first."""

UNTAGGED = -1
"""The label of a position after the last word of a row, which is neither in a loss nor in a metric."""


@dataclass(frozen=True)
class Task:
    """The facts about a task that do not depend on a model or on data."""

    losses: tuple[str, ...]
    """Values of `train.loss`, the default one first."""

    metrics: tuple[str, ...]
    """All metrics. The first one is the primary metric without `evaluate.primary`."""

    target: str | None
    """The feature that a model predicts; a language model needs none."""

    options: frozenset[str]
    """The settings of the sections `train` and `evaluate` that not every task has."""

    lower_is_better: frozenset[str] = frozenset({"loss"})
    """The metrics for which a lower value is better; for all others a higher one is."""

    default_quality_loss: float = 0.02
    """Largest loss of the primary metric of a compressed model, where its gate has no `max_loss`."""

    in_target_units: bool = False
    """Whether outputs and the primary metric are in the targets' units: `default_quality_loss` is then a fraction of
    the float model's value."""

    baselines: Mapping[str, str] = field(default_factory=dict)
    """Values of the primary metric on the same examples without a model, `<baseline>_<metric>`, with descriptions."""

    figures: tuple[str, ...] = ()
    """Further figures of a split in the report, without an interval."""

    counted: str = "examples"
    """Plural name of the independent units, which are resampled for intervals."""

    of_tokens: bool = False
    """Whether a model has outputs for every token of a row, [batch, length, classes]."""

    sliced: bool = True
    """Whether a report has slices without `evaluate.slices`: those of the task itself."""

    scores: Mapping[str, str] = field(default_factory=dict)
    """The metrics by which a mean of a training's evaluations orders models too, with its name (`accuracy`, `loss`)."""

    @property
    def generates(self) -> bool:
        """Whether a model continues its input, so that exports have the signatures `prefill` and `decode`."""
        return self.of_tokens and self.target is None

    def short(self, baseline: str) -> str:
        """Return the short name of a baseline (`majority`)."""
        if baseline.startswith(CONSTANT):
            return CONSTANT[:-1]
        return baseline.removesuffix(f"_{self.metrics[0]}").replace("_", " ")

    def baselines_in(self, metrics: Mapping[str, float], split: str = "test") -> dict[str, float]:
        """Return the baselines of a split by their short names (`majority`), from metrics by flat name."""
        names = (*self.baselines, *(f"{CONSTANT}{metric}" for metric in self.metrics))
        return {self.short(name): metrics[f"{split}/{name}"] for name in names if f"{split}/{name}" in metrics}


DECISIONS = frozenset({"evaluate.calibrate", "evaluate.threshold"})
"""Settings of tasks whose outputs are the logits of decisions."""

PROBED = frozenset({"evaluate.robustness"})
"""Settings of tasks whose rows are examples, not files of several rows."""

GROUPED = frozenset({"evaluate.groups"})
"""Settings of tasks whose examples are of the records."""

SLICED = frozenset({"evaluate.slices", "evaluate.find_slices"}) | GROUPED
"""Settings of tasks whose primary metric is one of any group of examples, not of the order of all of them."""

TASKS = {
    "classification": Task(
        losses=("cross_entropy",),
        metrics=(
            "accuracy",
            "balanced_accuracy",
            "macro_f1",
            "precision",
            "recall",
            "f1",
            "mcc",
            "average_precision",
            "roc_auc",
            "loss",
            "calibration_error",
        ),
        lower_is_better=frozenset({"loss", "calibration_error"}),
        target=LABEL,
        options=frozenset({"train.label_smoothing", "train.class_weights", "evaluate.bins", "evaluate.positive"})
        | DECISIONS
        | PROBED
        | SLICED,
        baselines={"majority_accuracy": "of always predicting the most frequent class"},
        scores={"accuracy": "accuracy"},
    ),
    "multilabel": Task(
        losses=("binary_cross_entropy",),
        metrics=("macro_f1", "micro_f1", "label_accuracy", "loss"),
        target=TARGET,
        options=frozenset({"train.label_smoothing"}) | DECISIONS | PROBED | SLICED,
        sliced=False,
        baselines={"all_labels_macro_f1": "of always predicting every label"},
        scores={"label_accuracy": "accuracy"},
    ),
    "anomaly": Task(
        losses=("binary_cross_entropy",),
        metrics=("average_precision", "roc_auc", "loss"),
        target=TARGET,
        options=frozenset({"train.label_smoothing"}) | DECISIONS | PROBED | GROUPED,
        sliced=False,
        baselines={"random_average_precision": "of a random order: the share of anomalies"},
    ),
    "ranking": Task(
        losses=("binary_cross_entropy",),
        metrics=("ndcg", "mrr", "recall", "loss"),
        target=TARGET,
        options=frozenset({"train.label_smoothing", "evaluate.at"}) | PROBED | SLICED,
        counted="queries",
        sliced=False,
        baselines={"random_ndcg": "of a random order"},
    ),
    "regression": Task(
        losses=("squared_error", "absolute_error"),
        metrics=("rmse", "mae", "r2", "loss"),
        lower_is_better=frozenset({"rmse", "mae", "loss"}),
        target=TARGET,
        options=PROBED | SLICED,
        in_target_units=True,
        scores={"rmse": "squared_error"},
        baselines={"mean_rmse": "of always predicting the mean"},
    ),
    "language_model": Task(
        losses=("cross_entropy",),
        metrics=("bits_per_byte", "loss", "token_accuracy"),
        lower_is_better=frozenset({"bits_per_byte", "loss"}),
        default_quality_loss=0.01,
        target=None,
        options=frozenset(
            {"train.label_smoothing", "evaluate.sample_tokens", "evaluate.sample_temperature", "evaluate.sample_prompt"}
        )
        | SLICED,
        baselines={
            "bigram_bits_per_byte": "of the same files by a bigram model of bytes, fitted on the train split",
            "gzip_bits_per_byte": "of the same files by gzip -9",
            "xz_bits_per_byte": "by xz -9e",
        },
        counted="files",
        of_tokens=True,
        scores={"bits_per_byte": "loss", "token_accuracy": "accuracy"},
    ),
    "tagging": Task(
        losses=("cross_entropy",),
        metrics=("macro_f1", "token_accuracy", "entity_f1", "entity_precision", "entity_recall", "loss"),
        target=LABEL,
        options=frozenset({"train.label_smoothing", "train.class_weights"}) | PROBED | SLICED,
        baselines={"majority_macro_f1": "of always predicting the most frequent class of a token"},
        counted="sequences",
        of_tokens=True,
        scores={"token_accuracy": "accuracy"},
    ),
}
"""The tasks by `model.task`."""

OPTIONS = frozenset().union(*(task.options for task in TASKS.values()))
"""The settings that some task has and some other has not."""


def check_options(section_name: str, section: Section, task: str) -> None:
    """Raise `Conflict` for an option of a section that the task does not have and that is not at its default."""
    for option in sorted(OPTIONS - TASKS[task].options):
        of_section, _, name = option.partition(".")
        if of_section != section_name:
            continue
        if (value := getattr(section, name)) != type(section).model_fields[name].default:
            raise Conflict(option, value, f"is ignored by {task}", "leave it out")
