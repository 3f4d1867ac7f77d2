"""Gates: conditions that a variant, or a new version, must meet. A family: a class here, and a file of
`tasks.evaluation.gating` for each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from tasks.config.base import BY_KIND, Conflict, Section
from tasks.config.evaluate import WITHOUT_INTERVAL
from tasks.config.sizes import Bytes
from tasks.config.task import TASKS

MetricName = Annotated[str, StringConstraints(min_length=1)]

MEASURES: Mapping[str, str] = {"bytes": "size", "gzip_bytes": "gzip size", "peak_bytes": "memory", "latency": "latency"}
"""What is measured of a file, with its name in verdicts; it has no interval."""


class Gate(Section):
    """What all gates have."""

    measures: ClassVar[tuple[str, ...]] = ()
    """The measures that it can judge, besides the metrics of the task."""

    kind: str
    metric: MetricName | None = None
    """What is judged; default: `evaluate.primary`."""

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


class FloatGate(Gate):
    """A compressed variant against the float model on the same test examples, or against the float LiteRT file."""

    measures: ClassVar[tuple[str, ...]] = tuple(MEASURES)

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


class ChampionGate(Gate):
    """A new version against the champion on the same test examples."""

    kind: Literal["champion"] = "champion"
    """What the gate compares with."""

    max_loss: Annotated[float, Field(ge=0)]
    """Largest accepted loss of the metric, in its units, by the upper 95 % bound."""

    @property
    def label(self) -> str:
        """Its name in verdicts."""
        return f"{super().label} against the champion"


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


CompressGate = Annotated[AbsoluteGate | FloatGate | SlicesGate, BY_KIND]
PromoteGate = Annotated[AbsoluteGate | ChampionGate | SlicesGate, BY_KIND]


def fit_gates(gates: Iterable[Gate], task: str, sliced: bool) -> None:
    """Raise `Conflict` for the first gate that judges nothing of the task; `sliced`: whether the report has slices."""
    for number, gate in enumerate(gates):
        gate.fit(task, sliced, f"gates.{number}")
