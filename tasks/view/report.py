"""A report: read once from its JSON, and what the terminal and the page say of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, Field, TypeAdapter

from tasks.artifacts import Artifact
from tasks.evaluation import MIN_EXAMPLES, sureness, too_few
from tasks.view import in_words
from tasks.view.report_rows import File, Missed, Sample, Sequence, Wrong

T = TypeVar("T")

SPLIT = "test"
CLASSES = 40
"""Classes or slices that a table shows, at most: those with the most examples."""

MEASURES = ("precision", "recall", "f1", "accuracy", "balanced_accuracy", "false_positive_rate")
"""The measures of a threshold that the page shows; the terminal shows the first three."""


@dataclass(frozen=True)
class Bounded:
    """A value with its 95 % interval, where it has one."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    method: str = ""
    units: int | None = None

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"

    @property
    def between(self) -> str:
        """The interval as text."""
        return f"{self.low:.4f} to {self.high:.4f}"

    @property
    def negative(self) -> Bounded:
        """The value and its interval with the other sign."""
        value, low, high = (-(each or 0.0) for each in (self.value, self.high, self.low))
        return Bounded(value, low, high)


@dataclass(frozen=True)
class Part(Bounded):
    """A slice or a group of the examples, by itself or beside all others."""

    name: Annotated[str, Field(validation_alias=AliasChoices("slice", "group"))] = ""
    examples: int = 0
    divided: int = 0
    """Examples that are in it in part."""
    why: str | None = None
    """Why it has no value."""
    measure: str = ""
    rest: float | None = None
    """The value of the others."""
    difference: Bounded | None = None
    p_value: float | None = None
    beyond_chance: bool = False
    few: bool = False
    """Whether few independent examples decide."""

    @property
    def chance(self) -> str:
        """The adjusted p-value in words, and whether few examples decide."""
        few = ", of few" if self.few else ""
        if self.p_value is None:
            return f"no test{few}"
        return f"{'beyond chance' if self.beyond_chance else 'may be chance'}, p = {self.p_value:.3g}{few}"

    @property
    def title(self) -> str:
        """The name of a slice, and how many examples are in it in part."""
        return f"{self.name} ({self.divided:,} more in part)" if self.divided else self.name

    @property
    def of_few(self) -> bool:
        """Whether too few independent examples decide for a 95 % interval."""
        return (self.units or 0) < MIN_EXAMPLES


@dataclass(frozen=True)
class FoundFrom:
    """How much worse a slice must be than all others to be found."""

    difference: float
    examples: int
    power: float

    def __str__(self) -> str:
        slice_ = f"a slice of {self.examples:,} that is worse than all others by {self.difference:.4g}"
        return f"; {slice_} is found in {100 * self.power:.0f} of 100 cases, a smaller difference less often"


@dataclass(frozen=True)
class WorstSlices:
    """The worst slices that were found, and among how many."""

    looked_at: int
    least_examples: int
    correction: str
    found_from: FoundFrom | None = None
    slices: tuple[Part, ...] = ()
    columns_left_out: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """How many slices were looked at, and how they were corrected for."""
        counted = f"{self.looked_at:,} slices of at least {self.least_examples} examples were looked at"
        left_out = ", ".join(self.columns_left_out)
        differing = f"; without {left_out}, which differ within an example" if left_out else ""
        return f"{counted}{differing}; p-values by a {self.correction}{self.found_from or ''}"


@dataclass(frozen=True)
class Groups:
    """Measures of each group beside those of all others."""

    column: str
    compared: int
    correction: str
    least_examples: int
    rows: tuple[Part, ...] = ()
    largest_differences: Mapping[str, float | None] = field(default_factory=dict)
    too_small: Mapping[str, int] = field(default_factory=dict)

    @property
    def measured(self) -> list[Part]:
        """The rows that have a value."""
        return [row for row in self.rows if row.value is not None]

    @property
    def corrected(self) -> str:
        """How many comparisons were made, and how they were corrected for."""
        return f"{self.compared:,} comparisons, p-values by {self.correction}"

    @property
    def largest(self) -> str:
        """The largest difference between two groups of each measure; empty where there is none."""
        return ", ".join(f"{in_words(name)} {value:.4f}" for name, value in self.largest_differences.items() if value)

    @property
    def small(self) -> str:
        """The groups that were not compared, with their sizes."""
        return ", ".join(f"{name} ({count:,})" for name, count in self.too_small.items())


@dataclass(frozen=True)
class Probed:
    """The primary metric on changed inputs."""

    probe: str
    value: float
    drop: Bounded
    settings: Mapping[str, float] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """The settings of the probe."""
        return ", ".join(f"{name} {value:g}" for name, value in self.settings.items())


@dataclass(frozen=True)
class Calibration:
    """Metrics by name before and after the temperature, and numbers of their tests."""

    before: Mapping[str, Bounded | float]
    after: Mapping[str, Bounded | float]

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """The name of each metric, the loss first, with its value before and after."""
        names = sorted(self.before, key=lambda name: name != "loss")
        rows = ((name, self.before[name], self.after[name]) for name in names)
        found = ((name, old, new) for name, old, new in rows if isinstance(old, Bounded) and isinstance(new, Bounded))
        return [(in_words(name), f"{old.value:.4f}", f"{new.value:.4f}") for name, old, new in found]


@dataclass(frozen=True)
class Threshold:
    """Measures of a decision at its threshold, and at 0.5."""

    decision: str
    threshold: float
    at_threshold: Mapping[str, Bounded]
    at_half: Mapping[str, float]


@dataclass(frozen=True)
class BesideSimpleModel(Bounded):
    """The learned baseline, and the difference of the model from it."""

    name: str = ""
    difference: Bounded = Bounded()
    more_than_noise: bool = False
    trained_on: int = 0
    left_out: tuple[str, ...] = ()

    def beside(self, higher_is_better: bool) -> str:
        """Return which of the two is better and by how much, with the interval."""
        difference, name = self.difference, f"a simple model ({self.name})"
        value, low, high = (each or 0.0 for each in (difference.value, difference.low, difference.high))
        word, weakness = sureness(self.more_than_noise, low, high, difference.units or 0)
        if not self.more_than_noise:
            weak = weakness and f" ({weakness})"
            return f"{name} is about as good: a difference of {difference} is {word}{weak}"
        notes = ", ".join(note for note in ("" if word == "more than noise" else word, weakness) if note)
        by = f"{difference.negative if value < 0 else difference}{notes and f' ({notes})'}"
        return f"better than {name} by {by}" if (value > 0) == higher_is_better else f"{name} is better by {by}"


@dataclass(frozen=True)
class Class:
    """Scores of a class, or of a type of entities."""

    name: Annotated[str, Field(validation_alias="class")]
    support: int
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None


@dataclass(frozen=True)
class Split:
    """What was measured on a split."""

    examples: int = 0
    units: int | None = None
    """The groups that its examples are in."""
    seen: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Bounded] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    learned_baseline: BesideSimpleModel | None = None
    slices: tuple[Part, ...] = ()
    worst_slices: WorstSlices | None = None
    groups: Groups | None = None
    robustness: tuple[Probed, ...] = ()
    calibration: Calibration | None = None
    thresholds: tuple[Threshold, ...] = ()
    entities: tuple[Class, ...] = ()
    classes: tuple[Class, ...] = ()
    tokens: int = 0
    cut: int | None = None
    without_entities: str | None = None
    worst: tuple[File, ...] = ()
    best: tuple[File, ...] = ()
    targets: tuple[str, ...] = ()
    furthest: tuple[Missed, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    """Examples by label (first) and prediction; empty where there are no classes."""
    most_wrong: tuple[Wrong, ...] = ()
    sequences: tuple[Sequence, ...] = ()

    @property
    def methods(self) -> str:
        """The methods of the intervals with their metrics, as the rest of a sentence."""
        named: dict[str, list[str]] = {}
        for name, row in self.metrics.items():
            if row.low is not None:
                named.setdefault(row.method, []).append(in_words(name))
        return "".join(f"; of {', '.join(names)}: {method}" for method, names in named.items())

    @property
    def scored_slices(self) -> list[Part]:
        """The slices that have an interval; if there are many, the largest."""
        return _largest([row for row in self.slices if row.low is not None], lambda row: row.examples)

    @property
    def slices_without_score(self) -> str:
        """The slices that are not among `scored_slices`: name, examples and reason."""
        shown = {row.name for row in self.scored_slices}
        others = [row for row in self.slices if row.name not in shown]
        names = [f"{row.name} ({row.examples:,}, {row.why or 'not among the largest'})" for row in others]
        more = f" and {len(names) - CLASSES} more, in report.json" if len(names) > CLASSES else ""
        return ", ".join(names[:CLASSES]) + more

    @property
    def largest_classes(self) -> list[Class]:
        """The types of entities and the classes; if there are many, the largest."""
        return _largest([*self.entities, *self.classes], lambda row: row.support)

    def unsure(self, name: str) -> str:
        """Return that too few units decide a metric for a 95 % interval; empty where they do not."""
        row = self.metrics.get(name)
        if row is None or row.low is None or self.examples < MIN_EXAMPLES:
            return ""
        return (weakness := too_few(row.units or 0)) and f", {weakness}"


def _largest(rows: list[T], size: Callable[[T], int]) -> list[T]:
    return sorted(rows, key=lambda row: -size(row))[:CLASSES] if len(rows) > CLASSES else rows


@dataclass(frozen=True)
class Primary:
    """The metric that decides."""

    metric: str
    higher_is_better: bool = True


@dataclass(frozen=True)
class Decision:
    """What was fitted on the validation split, and is part of the export."""

    temperature: float | None = None


@dataclass(frozen=True)
class ReportContent:
    """The content of `report.json`, as far as it is shown."""

    splits: Mapping[str, Split] = field(default_factory=dict)
    loss: str | None = None
    """The name of the loss that training minimised."""
    primary: Primary = Primary("score")
    decision: Decision | None = None
    sample: Sample | None = None

    @property
    def test(self) -> Split:
        """The test split."""
        return self.splits.get(SPLIT, Split())

    @property
    def beside_simple_model(self) -> str:
        """How the model stands beside the learned baseline; empty without one."""
        simple = self.test.learned_baseline
        return "" if simple is None else simple.beside(self.primary.higher_is_better)


def report_of(artifact: Artifact) -> dict[str, Any]:
    """Return the content of a report's `report.json`."""
    content: dict[str, Any] = json.loads((artifact.path / "report.json").read_bytes())
    return content


def read(content: Mapping[str, Any]) -> ReportContent:
    """Return the content of `report.json` as a record."""
    return TypeAdapter(ReportContent).validate_python(content)


def lines(report: ReportContent) -> Iterator[tuple[str, str]]:
    """Yield lines about the test split, each with a word for what it is about."""
    test, metric, decision = report.test, in_words(report.primary.metric), report.decision
    if report.beside_simple_model:
        yield "baseline", report.beside_simple_model
    if test.cut is not None:
        cut = f"{test.cut:,} more were cut, and have no tag" if test.cut else ""
        yield "tokens", "; ".join(filter(None, (f"{test.tokens:,}", cut, test.without_entities)))
    if test.calibration is not None and decision is not None and decision.temperature is not None:
        changes = [f"{name} {old}, then {new}" for name, old, new in test.calibration.changes]
        yield "calibrate", f"temperature {decision.temperature:.4g}, fitted on validation: {', '.join(changes)}"
    for row in test.thresholds:
        at, half = row.at_threshold, row.at_half
        measures = ", ".join(f"{in_words(name)} {at[name]} (at 0.5: {half[name]:.4f})" for name in MEASURES[:3])
        yield "threshold", f"{row.decision} above {row.threshold:.4g}, chosen on validation: {measures}"
    if (found := test.worst_slices) is not None:
        yield "slices", found.said
        for part in found.slices:
            yield "", f"{part.name}: {metric} {part} of {part.examples:,}; {part.chance}"
    if (groups := test.groups) is not None:
        yield "groups", f"by {groups.column}, each against all others; {groups.corrected}"
        for part in groups.measured:
            values = f"{in_words(part.measure)} {part}, others {part.rest:.4f}"
            yield "", f"{part.name}: {values}; difference {part.difference}; {part.chance}"
    for number, probed in enumerate(test.robustness):
        yield "" if number else "probes", f"{probed.probe}: {metric} {probed.value:.4f}, drop {probed.drop}"
