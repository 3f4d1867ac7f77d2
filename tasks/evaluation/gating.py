"""Gates: conditions that a variant, or a new version, must meet. A class a kind: its settings, and what it finds.

`PromoteConfig` says which of them decide when an export becomes the champion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from tasks.config.base import LISTED, Bytes, Conflict, Section
from tasks.config.kinds import Kind, any_of
from tasks.config.task import TASKS, WITHOUT_INTERVAL
from tasks.errors import Failed

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tasks.evaluation.gates import Ratio, Verdict
    from tasks.evaluation.metrics import Metric
    from tasks.evaluation.multiple_testing import Test
    from tasks.evaluation.units import Floats, Units

MetricName = Annotated[str, StringConstraints(min_length=1)]

MEASURES: Mapping[str, str] = {"bytes": "size", "gzip_bytes": "gzip size", "peak_bytes": "memory", "latency": "latency"}
"""What is measured of a file, with its name in verdicts; it has no interval."""
GZIP = "gzip_bytes"
WORDS = {"bytes": "the float file's bytes", GZIP: "the float file's bytes after gzip", "peak_bytes": "its memory"}


@dataclass(frozen=True)
class Subject:
    """What gates judge: a variant, or a new version; and what it is compared with."""

    task: str
    primary: tuple[str, bool]
    """The metric that decides, and whether higher is better."""
    own: Mapping[str, Floats]
    """Contributions of the test examples to each metric, float64 [N, K]."""
    reference: Mapping[str, Floats]
    """The same of the float model, or of the champion; without those that are not there."""
    against: str
    """The reference in words."""
    units: Units | None = None
    """The independent unit of each example; None: each is one."""
    masks: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    """The examples of each slice, bool [N]."""
    measures: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    """The largest ratio that passes by default."""

    def metric(self, gate: Gate) -> tuple[str, Metric, int]:
        """Return the name of the metric that a gate judges, the metric, and 1 where higher is better, else -1.

        Raises:
            Failed: the test examples have no such metric.
        """
        from tasks.evaluation.own_metrics import MEAN
        from tasks.evaluation.tasks import judge_of

        task, (primary, higher) = TASKS[self.task], self.primary
        name = gate.metric or primary
        if name not in self.own:
            rule = f"the test examples have {', '.join(sorted(self.own))}"
            raise Failed(f"gate {gate.label}", f"metric {name}", rule, "name one of them")
        better = higher if name == primary else name not in task.lower_is_better
        return name, judge_of(self.task).metrics.get(name, MEAN), 1 if better else -1

    @property
    def counted(self) -> str:
        """The plural noun of the independent units."""
        return TASKS[self.task].counted if self.units is None else "groups"


class Gate(Kind):
    """What all gates have."""

    measures: ClassVar[tuple[str, ...]] = ()
    """The measures that it can judge, besides the metrics of the task."""
    of_variants: ClassVar[bool] = True
    """Whether it may stand in `compress.gates`."""
    of_versions: ClassVar[bool] = True
    """Whether it may stand in `promote.gates`."""

    metric: MetricName | None = None
    """What is judged; default: `evaluate.primary`."""

    if TYPE_CHECKING:
        max_loss: float | None
        """Of what compares with another model."""

    def fit(self, task: str, sliced: bool, field: str) -> None:
        """Raise `Conflict` where the task has no such metric, or nothing of what is judged is there.

        Args:
            sliced: whether the report has slices.
            field: the path of the gate in the config.
        """
        known = [name for name in TASKS[task].metrics if name not in WITHOUT_INTERVAL]
        if self.metric is not None and self.metric not in (*known, *self.measures):
            rule = "has no interval" if self.metric in WITHOUT_INTERVAL else f"is no metric of {task}"
            remedy = f"use one of {', '.join((*known, *self.measures))}"
            raise Conflict(f"{field}.metric", self.metric, rule, remedy)

    def find(self, subject: Subject) -> list[Verdict | Test]:
        """Return the verdicts on measured values of a subject, and the tests of metrics, which are decided together."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """Its name in verdicts."""
        return "quality" if self.metric is None else MEASURES.get(self.metric, self.metric.replace("_", " "))


class AbsoluteGate(Gate):
    """A metric of the test split, or a measure of the file, against a number: its one-sided 95 % bound must be at
    least, or at most, that number."""

    measures: ClassVar[tuple[str, ...]] = ("bytes", "gzip_bytes", "peak_bytes")

    kind: Literal["absolute"] = "absolute"
    """What the gate compares with."""

    at_least: float | None = None
    """The smallest value that passes; one of both is given."""

    at_most: Bytes | float | None = None
    """The largest value that passes; of a measure bytes, as `2MB`."""

    @model_validator(mode="after")
    def one_bound(self) -> AbsoluteGate:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("needs exactly one of at_least and at_most; choose one")
        if self.metric in MEASURES and self.at_least is not None:
            raise Conflict("at_least", self.at_least, f"asks for a large {self.metric}", "use at_most")
        return self

    @property
    def label(self) -> str:
        """Its name in verdicts, with the bound."""
        word, bound = ("at least", self.at_least) if self.at_most is None else ("at most", self.at_most)
        return f"{super().label} {word} {bound:g}"

    def find(self, subject: Subject) -> list[Verdict | Test]:
        """Return the verdict on a measure, none where it was not measured, or the test of a metric."""
        from tasks.evaluation import gates
        from tasks.evaluation.multiple_testing import at_most

        sign, limit = (1, self.at_most) if self.at_least is None else (-1, self.at_least)
        assert limit is not None
        if self.metric is not None and self.metric in MEASURES:
            value = subject.measures.get(self.metric)
            if value is None:
                return [gates.unmeasured(self.label, limit, "it was not measured here")]
            return [gates.measured(self.label, value, limit, f"takes {value:,.0f} bytes")]
        name, metric, _ = subject.metric(self)
        return [at_most(self.label, metric, subject.own[name], sign, limit, subject.units, subject.counted)]


class FloatGate(Gate):
    """A compressed variant against the float model on the same test examples, or against the float LiteRT file."""

    measures: ClassVar[tuple[str, ...]] = tuple(MEASURES)
    of_versions: ClassVar[bool] = False

    kind: Literal["float"] = "float"
    """What the gate compares with."""

    max_loss: Annotated[float, Field(ge=0)] | None = None
    """Largest accepted loss of the metric, in its units, by the upper 95 % bound; default, of the primary metric: 0.02
    of accuracy or F1, 0.01 bits per byte, 2 % of a regression's error."""

    max_ratio: Annotated[float, Field(gt=0)] | None = None
    """Largest accepted share of the float LiteRT file's size, memory or latency (on one
    thread, at the slower batch size); default, of
    `bytes`: that of the methods, as 0.35 of `int8_dynamic`, and of several methods the product."""

    @model_validator(mode="after")
    def limit_fits_the_metric(self) -> FloatGate:
        measured = self.metric in MEASURES
        if measured and self.max_loss is not None:
            raise Conflict("max_loss", self.max_loss, f"is ignored for {self.metric}", "use max_ratio")
        if not measured and self.max_ratio is not None:
            raise Conflict("max_ratio", self.max_ratio, "is ignored for a metric of quality", "use max_loss")
        if self.max_loss is None and self.max_ratio is None and self.metric not in (None, "bytes"):
            name = "max_ratio" if measured else "max_loss"
            raise Conflict(name, "none", f"{self.metric} has no default", f"set {name}")
        return self

    def find(self, subject: Subject) -> list[Verdict | Test]:
        """Return the verdict on a ratio, or the test of the loss of a metric.

        The size after gzip is judged with that of the file where a method makes a file smaller only so.
        """
        from tasks.evaluation.judging import limit
        from tasks.evaluation.multiple_testing import loss

        if self.metric is not None and self.metric in MEASURES:
            found: list[Verdict | Test] = [ratio_of(self.metric, self.label, self.max_ratio, subject)]
            if self.metric == "bytes" and self.max_ratio is None and subject.limits.get(GZIP, 1.0) < 1:
                found.append(ratio_of(GZIP, MEASURES[GZIP], None, subject))
            return found
        name, metric, sign = subject.metric(self)
        before, after = subject.reference[name], subject.own[name]
        most = limit(subject.task, metric, self.max_loss, metric.of(before))
        return [loss(self.label, metric, before, after, sign, most, subject.units, subject.counted)]


class ChampionGate(Gate):
    """A new version against the champion on the same test examples."""

    of_variants: ClassVar[bool] = False

    kind: Literal["champion"] = "champion"
    """What the gate compares with."""

    max_loss: Annotated[float, Field(ge=0)]
    """Largest accepted loss of the metric, in its units, by the upper 95 % bound."""

    @property
    def label(self) -> str:
        """Its name in verdicts."""
        return f"{super().label} against the champion"

    def find(self, subject: Subject) -> list[Verdict | Test]:
        """Return the test of the loss of a metric against the champion."""
        from tasks.evaluation import gates
        from tasks.evaluation.multiple_testing import loss

        name, metric, sign = subject.metric(self)
        if name not in subject.reference:
            why = f"not comparable: {subject.against} has no {name.replace('_', ' ')} of each of these test examples"
            return [gates.unmeasured(self.label, self.max_loss, why)]
        pair = (subject.reference[name], subject.own[name])
        return [loss(self.label, metric, *pair, sign, self.max_loss, subject.units, subject.counted)]


class SlicesGate(Gate):
    """Each slice of the test split (those of the task and of `evaluate.slices`): `compress.gates` compare it with the
    float model, `promote.gates` with the champion."""

    kind: Literal["slices"] = "slices"
    """What the gate compares with."""

    max_loss: Annotated[float, Field(gt=0)]
    """Largest accepted loss of the metric on any slice, in its units, by the upper 95 % bound."""

    least: Annotated[int, Field(ge=5)] = 20
    """Examples of the smallest slice that is judged."""

    def fit(self, task: str, sliced: bool, field: str) -> None:
        """Raise `Conflict` also where there are no slices."""
        super().fit(task, sliced, field)
        if not sliced:
            settable = "evaluate.slices" in TASKS[task].options
            rule = f"judges slices, and a report of {task} has none{' without evaluate.slices' if settable else ''}"
            remedy = "set evaluate.slices, or leave the gate out" if settable else "leave the gate out"
            raise Conflict(f"{field}.kind", self.kind, rule, remedy)

    @property
    def label(self) -> str:
        """Its name in verdicts."""
        return f"{super().label} by slice"

    def find(self, subject: Subject) -> list[Verdict | Test]:
        """Return the test of the slice with the weakest evidence.

        All slices must pass, so that this p-value is that of all of them together, without a correction (Berger,
        Technometrics 24, 1982: intersection-union test).
        """
        from tasks.evaluation import gates
        from tasks.evaluation.multiple_testing import loss
        from tasks.evaluation.units import at

        name, metric, sign = subject.metric(self)
        if name not in subject.reference:
            why = f"not comparable: {subject.against} has no {name.replace('_', ' ')} of each of these test examples"
            return [gates.unmeasured(self.label, self.max_loss, why)]
        before, after = subject.reference[name], subject.own[name]
        tests = [
            loss(
                self.label,
                metric,
                before[mask],
                after[mask],
                sign,
                self.max_loss,
                at(subject.units, mask),
                subject.counted,
                where,
            )
            for where, mask in subject.masks.items()
            if mask.sum() >= self.least
        ]
        if not tests:
            return [
                gates.unmeasured(self.label, self.max_loss, f"no slice has {self.least} {subject.counted}", few=True)
            ]
        return [max(tests, key=lambda test: (test.lower > test.limit, test.p_value))]


if TYPE_CHECKING:
    CompressGate = Gate
    PromoteGate = Gate
else:
    CompressGate = any_of(gate for gate in Gate.kinds().values() if gate.of_variants)
    PromoteGate = any_of(gate for gate in Gate.kinds().values() if gate.of_versions)


def fit_gates(gates: Iterable[Gate], task: str, sliced: bool) -> None:
    """Raise `Conflict` for the first gate that judges nothing of the task; `sliced`: whether the report has slices."""
    for number, gate in enumerate(gates):
        gate.fit(task, sliced, f"gates.{number}")


def ratio_of(measure: str, label: str, limit: float | None, subject: Subject) -> Verdict:
    """Return the verdict on a ratio of the file to the float one."""
    from tasks.evaluation import gates

    most = subject.limits[measure] if limit is None else limit
    ratio = subject.ratios.get(measure)
    if ratio is None:
        return gates.unmeasured(label, most, "it was not measured here")
    if measure == "latency":
        return gates.latency(ratio.value, most, ratio.error)
    return gates.measured(label, ratio.value, most, f"{ratio.value:.3f} of {WORDS[measure]}")


class PromoteConfig(Section):
    """The gate between a candidate and the alias `champion`."""

    margin: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Minimum improvement of the test score over the champion's, in the units of the metric; negative: the largest
    accepted loss, also against the best of the champions before, so that small losses do not add up."""

    require: Literal["not_worse", "better"] = "not_worse"
    """What the difference from the champion on the same test examples must be besides: `not_worse`: not worse by more
    than noise; `better`: better by more than noise (see docs/metrics.md)."""

    gates: Annotated[tuple[PromoteGate, ...], LISTED] = ()
    """What a new version must meet besides, on the test split."""

    baseline: Literal["none", "constant", "learned"] = "constant"
    """What the test score must be better than, by more than noise: `constant`: the task's baselines (always predicting
    the most frequent class, the mean or every label; for text, a bigram model, gzip and xz); `learned`: also a simple
    model that is trained on the same train split; `none`: nothing."""

    approval: Literal["none", "required"] = "none"
    """Whether a person must approve an export that passed the gate before it becomes champion."""

    def fit(self, task: str, sliced: bool) -> None:
        """Raise `Conflict` for a gate that judges nothing of the task; `sliced`: whether the report has slices."""
        try:
            fit_gates(self.gates, task, sliced)
        except Conflict as misfit:
            raise Conflict(f"promote.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None
        for number, gate in enumerate(self.gates):
            if gate.metric in MEASURES:
                rule = "is of a file, and a version has several"
                raise Conflict(f"promote.gates.{number}.metric", gate.metric, rule, "judge it in compress.gates")


class ReleaseConfig(Section):
    """Input of the flow `release`."""

    model: str | None = None
    """A model in the store: `model/DIGEST` or an unambiguous digest prefix. Only for the flow `release`."""
