"""How a model is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from tasks.config.base import HAS_OWN_CODE, LATER, LISTED, NOT_IDENTITY, Conflict, IsPath, Name, OwnCode, Section
from tasks.config.task import TASKS, WITHOUT_INTERVAL, MetricName, check_options
from tasks.environment.user_code import deciding, files_of
from tasks.evaluation.probes import ProbeConfig

Text = Annotated[str, StringConstraints(min_length=1)]
Share = Annotated[float, Field(gt=0, lt=1)]

OWN_METRICS = "evaluate.own_metrics"


class ThresholdConfig(Section):
    """How the threshold of a yes-or-no decision is chosen on the validation split: by one of these."""

    maximize: Literal["f1", "accuracy", "balanced_accuracy", "mcc"] | None = None
    """The measure that is highest."""

    recall_at_precision: Share | None = None
    """The highest recall among the thresholds with at least this precision."""

    precision_at_recall: Share | None = None
    """The highest precision among the thresholds with at least this recall."""

    recall_at_false_positive_rate: Share | None = None
    """The highest recall among the thresholds with at most this false positive rate."""

    @model_validator(mode="after")
    def one_of_them(self) -> ThresholdConfig:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of {', '.join(type(self).model_fields)}; choose one")
        return self

    @property
    def goal(self) -> tuple[str, str | None, float]:
        """The measure that is highest, and the measure that is required with its limit, None without one."""
        if self.maximize is not None:
            return self.maximize, None, 0.0
        [(name, limit)] = [(name, value) for name, value in self if value is not None]
        goal, required = name.split("_at_")
        return goal, required, limit


class EvaluateConfig(Section):
    """Metrics with 95 % intervals on the validation and test splits."""

    primary: Annotated[Text | None, LATER] = None
    """The metric that decides: which weights, seeds and trials are best, what gates and promotion compare. One of the
    task's with an interval, or of `own_metrics`; default: the first of the task's."""

    metrics: Annotated[tuple[MetricName, ...], LISTED] | None = None
    """Which metrics; default: all of the task's."""

    own_metrics: Annotated[dict[Name, OwnCode], LATER, HAS_OWN_CODE] = {}
    """Metrics of yours by name, each `package.module:function`: it takes the targets and the outputs (float32: logits,
    or values in the targets' units; of tagging the most probable class of each token, -1 after the last, as the targets
    have it) of a split, and returns a number for each example, whose mean is the metric."""

    lower_is_better: Annotated[tuple[Name, ...], LATER, LISTED] = ()
    """The own metrics that are losses; of others higher is better."""

    folder: Annotated[str | None, NOT_IDENTITY, IsPath()] = None
    """The folder from which the modules of own metrics are imported; default: the preset's."""

    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    """Random draws of tests by chance: of paired differences, of calibration, of the worst slices."""

    bins: Annotated[int, Field(ge=2, le=100)] = 15
    """Equal-width confidence bins of the calibration error and the reliability plot."""

    at: Annotated[int, LATER, Field(ge=1)] = 10
    """The last rank of a query that counts for `ndcg` and `recall` of a ranking."""

    most_wrong: Annotated[int, Field(ge=0, le=256)] = 16
    """How many of the worst examples are shown: of a classifier the most confidently wrong ones."""

    sample_tokens: Annotated[int, LATER, Field(ge=0, le=4096)] = 200
    """Tokens of text that a language model writes into its report."""

    sample_temperature: Annotated[float, LATER, Field(gt=0, le=10)] = 0.8
    """Sampling temperature: the logits are divided by it."""

    sample_prompt: Annotated[str, LATER] = ""
    """Prompt of the sample; default: the beginning of a document."""

    slices: Annotated[tuple[Text, ...], LATER, LISTED] = ()
    """Groups of examples with a score of their own: a column of the records (a slice for each value, or for each
    quartile of numbers and times), or an SQL condition on columns, such as `age > 30 and country == 'DE'`."""

    find_slices: Annotated[bool | Annotated[int, Field(ge=1, le=100)], LATER] = False
    """Find the worst slices among conditions on the columns and pairs of them; a number says how many are shown, `true`
    five."""

    calibrate: Annotated[Literal["temperature"] | None, LATER] = None
    """Fit a temperature on the validation split, by which logits are divided, so that probabilities are calibrated; it
    becomes part of the export."""

    threshold: Annotated[ThresholdConfig | None, LATER] = None
    """Choose the threshold of a classifier of two classes, or of each label, on the validation split; it becomes part
    of the export. Default: 0.5."""

    groups: Annotated[Text | None, LATER] = None
    """The column of the records whose groups are compared: selection rate, true and false positive rate, accuracy; of
    tasks without classes the primary metric."""

    positive: Annotated[Text | None, LATER] = None
    """The class that `threshold`, `groups`, precision, recall, F1, average precision and ROC AUC call positive;
    default: the second of two."""

    robustness: Annotated[tuple[ProbeConfig, ...], LATER, LISTED] = ()
    """Changes of the test examples under which the primary metric is measured again, by name or with settings."""

    @property
    def served(self) -> bool:
        """Whether something is fitted that predictions of the export use."""
        return self.calibrate is not None or self.threshold is not None

    @property
    def reads_columns(self) -> bool:
        """Whether slices or groups are of columns of the records."""
        return bool(self.slices or self.found) or self.groups is not None

    @property
    def found(self) -> int:
        """How many of the worst slices are shown; 0 where none are looked for."""
        return 5 if self.find_slices is True else int(self.find_slices)

    def primary_of(self, task: str) -> tuple[str, bool]:
        """Return the name of the metric that decides, and whether higher is better."""
        name = self.primary or TASKS[task].metrics[0]
        if name in self.own_metrics:
            return name, name not in self.lower_is_better
        return name, name not in TASKS[task].lower_is_better

    def score_of(self, task: str, own_loss: bool) -> str | None:
        """Return the mean of a training's evaluations that orders models as the primary metric does, by its name in the
        curves; None where the metric is computed from the outputs.

        `own_loss`: whether the loss of the training is one of the user's, and not that of the task.
        """
        name = self.primary_of(task)[0]
        if name in self.own_metrics:
            return None
        return "loss" if name == "loss" and not own_loss else TASKS[task].scores.get(name)

    def source_files(self) -> list[tuple[str, str]]:
        """Return path and SHA-256 of the modules of own metrics, and of what they import from their folder; and name
        and version of the packages that these import: they decide a report.

        Raises:
            Refused: there is no such module, or it is not Python.
        """
        folder, files = Path(self.folder or "."), dict[str, bytes]()
        for function in self.own_metrics.values():
            files |= files_of(OWN_METRICS, function, folder)
        return [(f"metrics/{name}", value) for name, value in deciding(dict(sorted(files.items())), folder)]

    def fit(self, task: str) -> None:
        """Raise `Conflict` for metrics of another task, and for settings that this one would ignore."""
        metrics = TASKS[task].metrics
        for name in self.metrics or ():
            if name not in metrics:
                rule = f"the metrics of {task} are {', '.join(metrics)}"
                raise Conflict("evaluate.metrics", name, rule, "choose among these")
        decide = [name for name in (*metrics, *self.own_metrics) if name not in WITHOUT_INTERVAL]
        if self.primary is not None and self.primary not in decide:
            rule = f"decides by an interval, and those of {task} are {', '.join(decide)}"
            raise Conflict("evaluate.primary", self.primary, rule, "choose among these")
        for own in self.lower_is_better:
            if own not in self.own_metrics:
                rule = f"names own metrics, which are {', '.join(self.own_metrics) or 'none'}"
                raise Conflict("evaluate.lower_is_better", own, rule, "leave it out")
        facts = TASKS[task]
        for own in self.own_metrics:
            if own in (*facts.metrics, *facts.figures, *facts.baselines):
                rule = f"is a metric of {task} already"
                raise Conflict(OWN_METRICS, own, rule, "give yours another name")
        if self.folder is not None and not self.own_metrics:
            rule = "is ignored without evaluate.own_metrics"
            raise Conflict("evaluate.folder", self.folder, rule, "leave it out, or add a metric of yours")
        if self.own_metrics and facts.target is None:
            rule = f"is not there for {task}, whose examples are files of several rows"
            raise Conflict(OWN_METRICS, ", ".join(self.own_metrics), rule, "leave it out")
        check_options("evaluate", self, task)
