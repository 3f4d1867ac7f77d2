"""Tasks: what a model predicts, and the losses, options and metrics that belong to it; and the kinds of its inputs.

A task is a class here, and one in each room that does something else for each task: an `Objective` of the engine, a
`Sample` for a person, a `Judge`, an `Answer` of an export. No other line names a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tasks.config.base import Conflict, Section, subclasses

LABEL, TARGET, WEIGHT = "label", "target", "weight"
SCORED = "scored"
"""The features of a snapshot that are no inputs: a class, labels or numbers, the weight of an example, and which tokens
of a row are targets."""
OUTPUT = "output_of."
"""Begins the names of the features that further outputs of a model predict, a class or a number each."""


def is_input(feature: str) -> bool:
    """Return whether a feature of a snapshot is an input of a model, by its name."""
    return feature not in (LABEL, TARGET, WEIGHT, SCORED) and not feature.startswith(OUTPUT)


CONSTANT = "constant_"
"""Begins the name of the best constant answer's value of a metric that is not the task's first."""

UNTAGGED = -1
"""The label of a position after the last word of a row, which is neither in a loss nor in a metric."""


WITHOUT_INTERVAL = ("calibration_error",)
"""Metrics that have no valid interval, so that nothing is decided by them."""


class Task:
    """The facts about a task that do not depend on a model or on data."""

    name: ClassVar[str]
    """The value of `model.task`."""

    losses: ClassVar[tuple[str, ...]]
    """Values of `train.loss`, the default one first."""

    metrics: ClassVar[tuple[str, ...]]
    """All metrics. The first one is the primary metric without `evaluate.primary`."""

    target: ClassVar[str | None]
    """The feature that a model predicts; a language model needs none."""

    output: ClassVar[str | None] = None
    """The type of a column that a further output of the task predicts; None where there is no such output."""

    options: ClassVar[frozenset[str]]
    """The settings of the sections `train` and `evaluate` that not every task has."""

    lower_is_better: ClassVar[frozenset[str]] = frozenset({"loss"})
    """The metrics for which a lower value is better; for all others a higher one is."""

    default_quality_loss: ClassVar[float] = 0.02
    """Largest loss of the primary metric of a compressed model, where its gate has no `max_loss`."""

    in_target_units: ClassVar[bool] = False
    """Whether outputs and the primary metric are in the targets' units: `default_quality_loss` is then a fraction of
    the float model's value."""

    baselines: ClassVar[Mapping[str, str]] = {}
    """Values of the primary metric on the same examples without a model, `<baseline>_<metric>`, with descriptions."""

    figures: ClassVar[tuple[str, ...]] = ()
    """Further figures of a split in the report, without an interval."""

    counted: ClassVar[str] = "examples"
    """Plural name of the independent units, which are resampled for intervals."""

    of_tokens: ClassVar[bool] = False
    """Whether a model has outputs for every token of a row, [batch, length, classes]."""

    sliced: ClassVar[bool] = True
    """Whether a report has slices without `evaluate.slices`: those of the task itself."""

    scores: ClassVar[Mapping[str, str]] = {}
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


SMOOTHED = frozenset({"train.label_smoothing"})
"""Settings of tasks whose loss compares probabilities."""

OF_CLASSES = frozenset({"train.class_weights"}) | SMOOTHED
"""Settings of tasks whose labels are one class each."""

DECISIONS = frozenset({"evaluate.calibrate", "evaluate.threshold"})
"""Settings of tasks whose outputs are the logits of decisions."""

PROBED = frozenset({"evaluate.robustness"})
"""Settings of tasks whose rows are examples, not files of several rows."""

GROUPED = frozenset({"evaluate.groups"})
"""Settings of tasks whose examples are of the records."""

SLICED = frozenset({"evaluate.slices", "evaluate.find_slices"}) | GROUPED
"""Settings of tasks whose primary metric is one of any group of examples, not of the order of all of them."""

SAMPLED = frozenset({"evaluate.sample_tokens", "evaluate.sample_temperature", "evaluate.sample_prompt"})
"""Settings of tasks whose model continues its input."""


class Classification(Task):
    """One of several classes for each example."""

    name = "classification"
    losses = ("cross_entropy",)
    metrics = (
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
    )
    lower_is_better = frozenset({"loss", "calibration_error"})
    target = LABEL
    output = "category"
    options = OF_CLASSES | frozenset({"evaluate.bins", "evaluate.positive"}) | DECISIONS | PROBED | SLICED
    baselines = {"majority_accuracy": "of always predicting the most frequent class"}
    scores = {"accuracy": "accuracy"}


class Multilabel(Task):
    """Each of several labels, or not, for each example."""

    name = "multilabel"
    losses = ("binary_cross_entropy",)
    metrics = ("macro_f1", "micro_f1", "label_accuracy", "loss")
    target = TARGET
    options = SMOOTHED | DECISIONS | PROBED | SLICED
    sliced = False
    baselines = {"all_labels_macro_f1": "of always predicting every label"}
    scores = {"label_accuracy": "accuracy"}


class Anomaly(Task):
    """A rare kind of example, or not."""

    name = "anomaly"
    losses = ("binary_cross_entropy",)
    metrics = ("average_precision", "roc_auc", "loss")
    target = TARGET
    options = SMOOTHED | DECISIONS | PROBED | GROUPED
    sliced = False
    baselines = {"random_average_precision": "of a random order: the share of anomalies"}


class Ranking(Task):
    """The order of the documents of a query."""

    name = "ranking"
    losses = ("binary_cross_entropy",)
    metrics = ("ndcg", "mrr", "recall", "loss")
    target = TARGET
    options = SMOOTHED | frozenset({"evaluate.at"}) | PROBED | SLICED
    counted = "queries"
    sliced = False
    baselines = {"random_ndcg": "of a random order"}


class Regression(Task):
    """Numbers for each example."""

    name = "regression"
    losses = ("squared_error", "absolute_error")
    metrics = ("rmse", "mae", "r2", "loss")
    lower_is_better = frozenset({"rmse", "mae", "loss"})
    target = TARGET
    output = "number"
    options = PROBED | SLICED
    in_target_units = True
    scores = {"rmse": "squared_error"}
    baselines = {"mean_rmse": "of always predicting the mean"}


class Tagging(Task):
    """A class for each word of a sentence."""

    name = "tagging"
    losses = ("cross_entropy",)
    metrics = ("macro_f1", "token_accuracy", "entity_f1", "entity_precision", "entity_recall", "loss")
    target = LABEL
    options = OF_CLASSES | PROBED | SLICED
    baselines = {"majority_macro_f1": "of always predicting the most frequent class of a token"}
    counted = "sequences"
    of_tokens = True
    scores = {"token_accuracy": "accuracy"}


class LanguageModel(Task):
    """The next token at each position of a text."""

    name = "language_model"
    losses = ("cross_entropy",)
    metrics = ("bits_per_byte", "loss", "token_accuracy")
    lower_is_better = frozenset({"bits_per_byte", "loss"})
    default_quality_loss = 0.01
    target = None
    options = SMOOTHED | SAMPLED | SLICED
    baselines = {
        "bigram_bits_per_byte": "of the same files by a bigram model of bytes, fitted on the train split",
        "gzip_bits_per_byte": "of the same files by gzip -9",
        "xz_bits_per_byte": "by xz -9e",
    }
    counted = "files"
    of_tokens = True
    scores = {"bits_per_byte": "loss", "token_accuracy": "accuracy"}


TASKS: dict[str, Task] = {each.name: each() for each in subclasses(Task)}
"""The tasks by `model.task`."""


def names(tasks: Iterable[Task]) -> Any:
    """Return the type of a field that holds the name of one of these tasks."""
    return Literal[*(task.name for task in tasks)]


if TYPE_CHECKING:
    ExampleTask = str
    ReadingTask = str
    AnyTask = str
    OutputTask = str
    LossName = str
    MetricName = str
else:
    ExampleTask = names(task for task in TASKS.values() if not task.of_tokens)
    ReadingTask = names(task for task in TASKS.values() if not task.generates)
    AnyTask = names(TASKS.values())
    OutputTask = names(task for task in TASKS.values() if task.output is not None)
    LossName = Literal[*dict.fromkeys(loss for task in TASKS.values() for loss in task.losses)]
    MetricName = Literal[*dict.fromkeys(metric for task in TASKS.values() for metric in task.metrics)]
"""`model.task` of a model with one answer for an example, with one or one for each of its tokens, and of any model; the
tasks of further outputs; and the names of the built-in losses and metrics."""

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


IMAGE, SOUND, TOKENS = "image", "sound", "tokens"
"""uint8 [height, width, channels], float32 [time, bands], ids of a text [length]."""
PREDICTED = "tokens to predict"
"""Of a language model, which no augmentation changes."""
NUMBERS, ARRAY = "numbers", "array"
"""All others, of one dimension or none, and of more."""

SERVED_AS = {"uint16": "int32", "uint32": "int32"}
"""The dtype of a model's input where no runtime has that of the snapshot."""
